package snapshot

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Obstacles to a placement, in the words of the scheduler's own messages.
const (
	Cordoned    = "node(s) were unschedulable"
	NotReady    = "node(s) were not ready"
	NoAffinity  = "node(s) didn't match Pod's node affinity/selector"
	Untolerated = "node(s) had untolerated taint(s)"
)

// Placement is where the scheduler may put pods like one: what is asked of many nodes is read once.
type Placement struct {
	pod    *Pod
	terms  []affinityTerm  // of the required node affinity, one of which a node must match
	labels labels.Selector // selects every node that the pod's selector and affinity name, and maybe more
}

// PlacementOf returns that of pods like p. What it costs grows with what they ask for, and not faster.
func PlacementOf(p *Pod) Placement {
	return Placement{pod: p, terms: termsOf(p.NodeAffinity), labels: labelsOf(p)}
}

// LongestSelector is the longest label selector that is sent to an apiserver, in bytes: tenants write them, and a request has a limit.
const LongestSelector = 2 << 10

// labelsOf is what the pod asks of the labels of a node, as far as a label selector can say it that is no longer than LongestSelector: that of
// one of several terms it cannot. What it leaves out makes it select more.
func labelsOf(p *Pod) labels.Selector {
	var asked selectorParts
	for _, key := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		asked.add(key, selection.Equals, p.NodeSelector[key])
	}
	if p.NodeAffinity != nil && len(p.NodeAffinity.NodeSelectorTerms) == 1 {
		for _, r := range p.NodeAffinity.NodeSelectorTerms[0].MatchExpressions {
			if operator, known := selectorOperators[r.Operator]; known {
				asked.add(r.Key, operator, r.Values...)
			}
		}
	}
	return labels.NewSelector().Add(asked.all...)
}

// selectorParts are requirements that one selector has room for.
type selectorParts struct {
	all    []labels.Requirement
	length int // of all, in bytes
}

// add enters a requirement, unless it is not valid or there is no room for it.
func (s *selectorParts) add(key string, operator selection.Operator, values ...string) {
	length := len(key)
	for _, value := range values {
		length += len(value)
	}
	if s.length+length > LongestSelector {
		return
	}
	requirement, err := labels.NewRequirement(key, operator, values)
	if err != nil {
		return
	}
	if length = len(requirement.String()) + len(","); s.length+length <= LongestSelector {
		s.all, s.length = append(s.all, *requirement), s.length+length
	}
}

// selectorOperators are what label selectors call the operators of node affinity.
var selectorOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
}

// Selector is a label selector of all nodes on which the scheduler may put such a pod, and maybe of others; "": of all nodes. It is no longer
// than LongestSelector.
func (in *Placement) Selector() string { return in.labels.String() }

// Selects reports whether Selector selects the node.
func (in *Placement) Selects(n *Node) bool { return in.labels.Matches(labels.Set(n.Labels)) }

// Refusal says why the scheduler does not put such a pod on the node, "" if it may. It looks at the cordon, readiness,
// node selector, required node affinity and taints; not at room, volumes, and the pods that are there.
func (in *Placement) Refusal(n *Node) string {
	p := in.pod
	switch {
	case n.Unschedulable && !p.ToleratesCordon():
		return Cordoned
	case !n.Ready && (!p.tolerates(&unreachable) || !p.tolerates(&unreachableNow)):
		return NotReady
	case !in.selects(n):
		return NoAffinity
	case !p.toleratesAll(n.Taints):
		return Untolerated
	}
	return ""
}

var (
	cordonTaint    = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	unreachable    = corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}
	unreachableNow = corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
)

// ToleratesCordon reports whether the scheduler may put the pod on a cordoned node.
func (p *Pod) ToleratesCordon() bool { return p.tolerates(&cordonTaint) }

// toleratesAll leaves out the taint of the cordon: it follows spec.unschedulable, which is looked at instead.
func (p *Pod) toleratesAll(taints []corev1.Taint) bool {
	for i := range taints {
		if t := &taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != cordonTaint.Key && !p.tolerates(t) {
			return false
		}
	}
	return true
}

func (p *Pod) tolerates(taint *corev1.Taint) bool {
	return slices.ContainsFunc(p.Tolerations, func(t corev1.Toleration) bool { return Tolerates(&t, taint) })
}

// Tolerates reports whether a toleration is for a taint. One that compares numbers is taken to match: whether the cluster
// compares is a feature gate, which cannot be seen. Where the scheduler finds that it does not, its verdict on the pending
// pod says so; and a pod that is let stay can be asked for again.
func Tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	equal := t.Operator == "" || t.Operator == corev1.TolerationOpEqual
	return !equal || t.Value == taint.Value
}

// selects reports whether node selector and required node affinity name the node. An affinity that cannot be read selects
// none, as the scheduler has it.
func (in *Placement) selects(n *Node) bool {
	for key, value := range in.pod.NodeSelector {
		if has, ok := n.Labels[key]; !ok || has != value {
			return false
		}
	}
	if in.pod.NodeAffinity == nil {
		return true
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	return slices.ContainsFunc(in.terms, func(t affinityTerm) bool { return t.matches(node) })
}
