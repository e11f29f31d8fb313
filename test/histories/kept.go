package histories

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// keep is `usher drain` of one node to its end: that comes when the member's pod is gone or emptied, or after a while, and leaves the node drained with
// what it has asked for. A person gives the node back later.
func (p *person) keep() {
	pod, record := p.begin()
	if record == nil {
		return
	}
	for range 3 + p.dice.IntN(20) {
		if !p.rest(5, 20) || !p.beat(pod, record) {
			return
		}
		if p.world.emptied(pod) {
			break
		}
	}
	record.State = snapshot.Drained
	text, err := record.Encode()
	if err != nil {
		p.world.fail("SIMULATOR", "writing a record: %v", err)
	}
	if !p.surely("leaves "+p.world.nodeKey(pod).Name+" drained", func() { p.world.leaveDrained(pod, record.ID, text) }) {
		return
	}
	p.rest(20, 200)
	erase := p.dice.IntN(2) == 0
	p.surely("gives "+p.world.nodeKey(pod).Name+" back", func() { p.world.giveBack(pod, record.ID, erase) })
}

// emptied reports whether a policy says that a member's pod is emptied, or the pod is gone.
func (w *world) emptied(name string) bool {
	pod := w.store.pod(name)
	return pod == nil || slices.ContainsFunc(list[*v1alpha1.EvictionPolicy](w.store, policies), func(policy *v1alpha1.EvictionPolicy) bool {
		return slices.ContainsFunc(policy.Status.Emptied, func(e v1alpha1.Emptied) bool { return e.PodUID == pod.UID })
	})
}

// nodeOf returns the node of a member that carries the record of a drain, nil where it carries none or another's.
func (w *world) nodeOf(pod, drain string) *corev1.Node {
	node, ok := w.store.get(nodes, w.nodeKey(pod)).(*corev1.Node)
	if !ok {
		return nil
	}
	if record := observe.NodeFacts(node).Drain; record == nil || record.ID != drain {
		return nil
	}
	return duplicate(node)
}

// leaveDrained has the record of a drain say that it has drained the node, to which no pod comes.
func (w *world) leaveDrained(pod, drain, text string) {
	if node := w.nodeOf(pod, drain); node != nil {
		node.Annotations[snapshot.DrainAnnotation], node.Spec.Unschedulable = text, true
		w.store.put(node)
		w.kept[drain] = time.Now()
	}
}

// giveBack makes a node schedulable that a drain has left drained. The record goes with that, or stays.
func (w *world) giveBack(pod, drain string, erase bool) {
	node := w.nodeOf(pod, drain)
	if node == nil {
		return
	}
	node.Spec.Unschedulable = false
	if erase {
		delete(node.Annotations, snapshot.DrainAnnotation)
	}
	w.store.put(node)
}

// keeps reports whether the node of a pod has long been left drained by a drain.
func (w *world) keeps(pod, drain string) bool {
	node := w.nodeOf(pod, drain)
	return node != nil && observe.NodeFacts(node).KeptDrained(drain) && time.Since(w.kept[drain]) > snapshot.LiveFor
}
