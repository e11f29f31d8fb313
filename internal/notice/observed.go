package notice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Observed returns all notices that rules make of the conditions and taints of nodes, and those of kubelets that shut down with their machines, which need none, and when
// time alone makes another one; zero: never. The event of a rule's notice is the rule.
func (c *Config) Observed(nodes []Node, now time.Time) (found []Reported, next time.Time) {
	for i := range nodes {
		if ready := nodes[i].ready(); ready != nil && shutsDown(ready) {
			found = append(found, Reported{Notice: Notice{Source: Kubelet, Kind: Shutdown, Event: "shutdown", Node: nodes[i].Name, Message: ready.Message}})
		}
	}
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

// ready returns the condition Ready of a node, nil where it has none.
func (n *Node) ready() *corev1.NodeCondition {
	at := slices.IndexFunc(n.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if at < 0 {
		return nil
	}
	return &n.Conditions[at]
}

// silent reports whether the kubelet of a node reports nothing: that it does not say any more that it shuts down is no word that it does not.
func (n *Node) silent() bool {
	ready := n.ready()
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

// shutsDown reports whether the kubelet says by its condition Ready that it shuts down with its machine. It does so alone, or as one of several errors in
// brackets, and may add warnings.
func shutsDown(ready *corev1.NodeCondition) bool {
	const words = "node is shutting down"
	errs, _, _ := strings.Cut(ready.Message, ". WARNING: ")
	return ready.Status == corev1.ConditionFalse && ready.Reason == "KubeletNotReady" && slices.Contains(strings.Split(strings.Trim(errs, "[]"), ", "), words)
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
