package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
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
	pod      *Pod
	affinity *nodeaffinity.LazyErrorNodeSelector // nil: none is required
}

// PlacementOf returns that of pods like p.
func PlacementOf(p *Pod) Placement {
	if p.NodeAffinity == nil {
		return Placement{pod: p}
	}
	return Placement{p, nodeaffinity.NewLazyErrorNodeSelector(p.NodeAffinity)}
}

// Obstacle says why the scheduler does not put such a pod on the node, "" if it may. It looks at the cordon, readiness,
// node selector, required node affinity and taints; not at room, volumes, and the pods that are there.
func (in *Placement) Obstacle(n *Node) string {
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
	if in.affinity == nil {
		return true
	}
	found, err := in.affinity.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}})
	return err == nil && found
}
