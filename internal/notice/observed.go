package notice

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Observed returns all notices that rules make of the conditions and taints of nodes, and when time alone makes another one; zero: never. The event of such a
// notice is its rule.
func (c *Config) Observed(nodes []Node, now time.Time) (found []Reported, next time.Time) {
	for i := range c.Rules {
		for j := range nodes {
			n, wait := c.Rules[i].observed(&nodes[j], now)
			next = earliest(next, wait)
			if n != nil {
				found = append(found, Reported{*n, &c.Rules[i]})
			}
		}
	}
	return found, next
}

// observed returns the notice that a rule makes of a node now, nil where it makes none, or when it will.
func (r *Rule) observed(node *Node, now time.Time) (*Notice, time.Time) {
	n := &Notice{Kind: r.Kind, Event: r.Name, Node: node.Name}
	var since, next time.Time
	switch {
	case r.Condition != nil:
		c := r.Condition.of(node)
		if c == nil {
			return nil, time.Time{}
		}
		since = began(&c.LastTransitionTime, now)
		next = since.Add(r.Condition.For)
		n.Source, n.Message = Condition, strings.TrimSuffix(fmt.Sprintf("condition %s is %s: %s", c.Type, c.Status, c.Message), ": ")
	case r.Taint != nil:
		t := r.Taint.of(node)
		if t == nil {
			return nil, time.Time{}
		}
		since, n.Source, n.Message = began(t.TimeAdded, now), Taint, "taint "+t.ToString()
	default:
		return nil, time.Time{}
	}
	if next.After(now) {
		return nil, next
	}
	if r.EffectiveAfter > 0 {
		n.EffectiveTime = since.Add(r.EffectiveAfter)
	}
	return n, time.Time{}
}

// began is when something on a node began: now, where it does not say that, or says a time to come, since its clock is ahead.
func began(at *metav1.Time, now time.Time) time.Time {
	if at.IsZero() || at.After(now) {
		return now
	}
	return at.Time
}

// of returns the condition of a node that a rule matches, nil where it has none.
func (r *ConditionRule) of(node *Node) *corev1.NodeCondition {
	for i := range node.Conditions {
		c := &node.Conditions[i]
		if string(c.Type) == r.Type && string(c.Status) == r.Status && (r.Message == nil || r.Message.MatchString(c.Message)) {
			return c
		}
	}
	return nil
}

// of returns the first taint of a node that a rule matches, nil where it has none.
func (r *TaintRule) of(node *Node) *corev1.Taint {
	for i := range node.Taints {
		t := &node.Taints[i]
		if t.Key == cmp.Or(r.Key, t.Key) && t.Value == cmp.Or(r.Value, t.Value) && string(t.Effect) == cmp.Or(r.Effect, string(t.Effect)) {
			return t
		}
	}
	return nil
}
