package histories

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// locks is what a history knows of locks on nodes beyond what stands on these.
type locks struct {
	// set is since when other operators' locks stand, and serves for which of them their holders work: they have found after that that the agent does not leave.
	set    map[nodeLock]time.Time
	serves map[nodeLock]bool
	// left is when the label of a node last ceased to say that its agent leaves, meddled when another client last changed it.
	left, meddled map[string]time.Time
	bound         map[types.UID]time.Time // when pods were bound that had waited for an agent
	disowned      map[types.UID]time.Time // when DaemonSets last ceased to own pods
	givenUp       bool                    // Usher said that locks of a policy are left, or a write of one has come late
}

// nodeLock is a lock on a node.
type nodeLock struct{ node, key string }

func newLocks() *locks {
	return &locks{
		set: map[nodeLock]time.Time{}, serves: map[nodeLock]bool{}, left: map[string]time.Time{}, meddled: map[string]time.Time{},
		bound: map[types.UID]time.Time{}, disowned: map[types.UID]time.Time{},
	}
}

// relabelled takes note of a node whose label may be another.
func (l *locks) relabelled(before, after *corev1.Node) {
	if before.Labels[stateLabel] == v1alpha1.NodeLockLeaves && after.Labels[stateLabel] != v1alpha1.NodeLockLeaves {
		l.left[after.Name] = time.Now()
	}
}

// someNode draws a node that has an agent: mostly, of those that late is true for, one whose agent leaves.
func (p *person) someNode(late bool) string {
	var all, leaving []string
	for _, m := range p.world.site.members() {
		if m.role != "keeper" {
			continue
		}
		node := p.world.nodeKey(m.pod).Name
		all = append(all, node)
		if p.world.lockedNode(node).Labels[stateLabel] == v1alpha1.NodeLockLeaves {
			leaving = append(leaving, node)
		}
	}
	if late && len(leaving) > 0 && p.dice.IntN(4) > 0 {
		all = leaving
	}
	return all[p.dice.IntN(len(all))]
}

// lock is another operator whose members need the agent: it locks a node and then looks at the label. Mostly it takes its lock off again where the agent leaves;
// now and then it stays all the same, or leaves a lock for ever.
func (p *person) lock() {
	key := lockPrefix + "/" + p.name
	late, left := p.dice.IntN(2) == 0, 0
	for p.rest(2, 40) {
		at := nodeLock{p.someNode(late), key}
		if left > 0 {
			at.key = key + "-again"
		}
		p.surely("locks "+at.node, func() { p.world.lockNode(at) })
		if !p.rest(0, 2) {
			return
		}
		value := ""
		p.surely("looks at the label of "+at.node, func() { value = p.world.servesAt(at) })
		stays := value != v1alpha1.NodeLockLeaves || p.dice.IntN(4) == 0
		if stays && left == 0 && p.dice.IntN(6) == 0 {
			left++
			p.world.note("%s leaves its lock on %s for ever", p.name, at.node)
			continue
		}
		if stays && !p.rest(2, 60) || !stays && !p.rest(0, 2) {
			return
		}
		p.surely("unlocks "+at.node, func() { p.world.unlockNode(at) })
	}
}

// lockNode has another operator lock a node.
func (w *world) lockNode(at nodeLock) {
	node := duplicate(w.lockedNode(at.node))
	if _, there := node.Annotations[at.key]; there {
		return
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, at.key, strings.Repeat("x", int(mix(w.seed, uint64(w.store.version))%3)*300)) // some are not kept in a cache
	w.store.put(node)
	w.locks.set[at] = time.Now()
}

// servesAt is what the label says to one that has locked the node: it works from then on, unless the agent leaves.
func (w *world) servesAt(at nodeLock) string {
	value := w.lockedNode(at.node).Labels[stateLabel]
	w.locks.serves[at] = value != v1alpha1.NodeLockLeaves
	return value
}

// unlockNode has another operator take its lock off.
func (w *world) unlockNode(at nodeLock) {
	node := duplicate(w.lockedNode(at.node))
	delete(node.Annotations, at.key)
	w.store.put(node)
	delete(w.locks.set, at)
	delete(w.locks.serves, at)
}

// relabel is a client that writes the label: the operator of agents that are not the policy's, or another that has no business there.
func (p *person) relabel() {
	values := []string{v1alpha1.NodeLockServes, v1alpha1.NodeLockServes, v1alpha1.NodeLockLeaves, "maybe", ""}
	if p.world.lockSite().theirs {
		values = []string{v1alpha1.NodeLockServes, v1alpha1.NodeLockLeaves}
	}
	for p.rest(5, 90) && !p.world.calm {
		node, value := p.someNode(true), values[p.dice.IntN(len(values))]
		p.surely("labels "+node+" "+value, func() { p.world.setLabel(node, value) })
	}
}

// setLabel has another client write the label of a node; "" takes it off.
func (w *world) setLabel(name, value string) {
	before := w.lockedNode(name)
	node := duplicate(before)
	if metav1.SetMetaDataLabel(&node.ObjectMeta, stateLabel, value); value == "" {
		delete(node.Labels, stateLabel)
	}
	w.store.put(node)
	w.locks.relabelled(before, node)
	w.locks.meddled[name] = time.Now()
}

// theyServe has the operator of agents that are not the policy's say that they serve.
func (w *world) theyServe() {
	if s := w.lockSite(); s == nil || !s.theirs {
		return
	}
	for _, p := range w.site.members() {
		if p.role == "keeper" {
			w.setLabel(w.nodeKey(p.pod).Name, v1alpha1.NodeLockServes)
		}
	}
}
