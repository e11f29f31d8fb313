package histories

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/replacement"
)

// cancel is a person who deletes requests that repair has made, sometimes with their finalizers.
func (p *person) cancel() {
	for range 4 {
		if !p.rest(10, 60) {
			return
		}
		erase := p.dice.IntN(4) == 0
		p.surely("deletes a request of repair", func() { p.world.cancelRepair(p.name, erase) })
	}
}

// cancelRepair deletes the first request that repair has made and that is not over.
func (w *world) cancelRepair(by string, erase bool) {
	all := list[*v1alpha1.ReplacementRequest](w.store, replaces)
	at := slices.IndexFunc(all, func(q *v1alpha1.ReplacementRequest) bool {
		return q.Spec.Requester == replacement.RepairRequester && !q.Status.Over()
	})
	if at < 0 {
		return
	}
	w.note("%s deletes %s for %s", by, all[at].Name, all[at].Spec.Member.ID)
	if erase {
		w.erase(all[at])
		return
	}
	w.store.remove(all[at])
}

// taint is a person who puts taints on nodes, and takes them off again.
func (p *person) taint() {
	for range 3 + p.dice.IntN(4) {
		if !p.rest(5, 40) {
			return
		}
		pod, key := p.some(), taintsOfNodes[p.dice.IntN(len(taintsOfNodes))]
		effect := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}[p.dice.IntN(3)]
		p.surely(fmt.Sprintf("taints the node of %s: %s", pod, key), func() {
			p.world.editNode(pod, func(node *corev1.Node) {
				taint := corev1.Taint{Key: key, Effect: effect}
				if effect == corev1.TaintEffectNoExecute {
					taint.TimeAdded = new(metav1.Now())
				}
				node.Spec.Taints = append([]corev1.Taint(nil), taint)
			})
		})
		if p.dice.IntN(2) == 0 || !p.rest(1, 60) {
			continue
		}
		p.surely("takes the taints off the node of "+pod, func() {
			p.world.editNode(pod, func(node *corev1.Node) { node.Spec.Taints = nil })
		})
	}
}

// cordon is a person who cordons nodes, and gives them back.
func (p *person) cordon() {
	for range 2 + p.dice.IntN(3) {
		if !p.rest(5, 60) {
			return
		}
		pod := p.some()
		p.surely("cordons the node of "+pod, func() {
			p.world.editNode(pod, func(node *corev1.Node) { node.Spec.Unschedulable = node.Spec.Unschedulable || !drained(node) })
		})
		p.rest(5, 60)
		p.surely("uncordons the node of "+pod, func() {
			p.world.editNode(pod, func(node *corev1.Node) { node.Spec.Unschedulable = node.Spec.Unschedulable && drained(node) })
		})
	}
}

// drained reports whether a drain works on a node, or has left it as it is.
func drained(node *corev1.Node) bool { return observe.NodeFacts(node).Drain != nil }

// editNode changes the node of a member, where it is there.
func (w *world) editNode(pod string, edit func(*corev1.Node)) {
	if node, ok := w.store.get(nodes, w.nodeKey(pod)).(*corev1.Node); ok {
		node = duplicate(node)
		edit(node)
		w.store.put(node)
	}
}
