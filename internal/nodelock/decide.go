package nodelock

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Write is what is written on one node, at the version that was looked at and all of it at once. A nil value takes a key off.
type Write struct {
	Node        *snapshot.Node
	Labels      map[string]*string
	Annotations map[string]*string
}

// Unlocks reports whether a lock is taken off: its holders must have been seen gone before.
func (w *Write) Unlocks() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(w.Annotations)), func(v *string) bool { return v == nil })
}

// Locks reports whether a lock is set.
func (w *Write) Locks() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(w.Annotations)), func(v *string) bool { return v != nil })
}

// Values are what is written, as Written has it.
func (w *Write) Values() map[string]string {
	values := map[string]string{}
	for _, of := range []map[string]*string{w.Labels, w.Annotations} {
		for key, value := range of {
			if values[key] = removed; value != nil {
				values[key] = *value
			}
		}
	}
	return values
}

// removed stands for a key that is taken off, in Written.
const removed = "-"

// Result is what is to be done.
type Result struct {
	Writes []Write // by the names of their nodes
	// Leave are the holders that are asked to leave: those on nodes whose label says so. No others are.
	Leave    []Holder
	Blockers []v1alpha1.NodeLockBlocker
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
}

// Decide says what is to be done now. Each write may be refused, or be the last.
func Decide(in Input) Result {
	var result Result
	nodes := slices.SortedFunc(slices.Values(in.Nodes), func(a, b *snapshot.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range nodes {
		on := in.on(node)
		result.Leave = append(result.Leave, on.leave()...)
		on.write(&result)
	}
	return result
}

// place is one node.
type place struct {
	in      *Input
	node    *snapshot.Node
	holders []Holder
	waiters []Waiter
	last    Written
}

func (in *Input) on(node *snapshot.Node) *place {
	p := &place{in: in, node: node, last: in.Written[node.UID]}
	for _, h := range in.Holders {
		if h.Node == node.Name {
			p.holders = append(p.holders, h)
		}
	}
	for _, w := range in.Waiters {
		if w.Node == node.Name {
			p.waiters = append(p.waiters, w)
		}
	}
	return p
}

// leave are the holders that are asked to leave. Where the waiter is the policy's own, and is not asked to leave itself, the label is about to be set back, or
// speaks of a pod that restarts where it is.
func (p *place) leave() []Holder {
	lock := p.in.Lock
	if lock == nil || p.node.Labels[lock.StateLabel] != v1alpha1.NodeLockLeaves {
		return nil
	}
	if lock.Waiter != "" && !slices.ContainsFunc(p.waiters, func(w Waiter) bool { return w.Wanted }) {
		return nil
	}
	return p.holders
}

// label is the value that the node's label is to have, "" where it stays as it is: the waiter is not there, or is there and does no work, which
// may be over in a moment.
func (p *place) label() string {
	own := func(w Waiter) bool { return w.Own }
	goes := func(w Waiter) bool { return w.Wanted || w.Leaves }
	idle := func(w Waiter) bool { return !w.Ready }
	switch {
	case p.in.Lock == nil || !slices.ContainsFunc(p.waiters, own):
		return ""
	case slices.ContainsFunc(p.waiters, goes):
		return v1alpha1.NodeLockLeaves
	case slices.ContainsFunc(p.waiters, idle):
		return ""
	}
	return v1alpha1.NodeLockServes
}

// locks are the annotations that the node is to have of the policy.
func (p *place) locks() map[string]bool {
	wanted := map[string]bool{}
	if p.in.Lock == nil {
		return wanted
	}
	for _, h := range p.holders {
		if h.Emptied {
			continue
		}
		wanted[p.in.Lock.LockPrefix+"/"+snapshot.NodeLockName(p.in.Policy, h.Role)] = true
	}
	return wanted
}

// write adds what is to be written. A node that is shown as it was before the last write is left until that is seen.
func (p *place) write(result *Result) {
	if p.last.unseen(p.node) {
		return
	}
	write := Write{Node: p.node, Labels: map[string]*string{}, Annotations: map[string]*string{}}
	if value := p.label(); value != "" && p.node.Labels[p.in.Lock.StateLabel] != value {
		p.put(result, write.Labels, p.in.Lock.StateLabel, &value)
	}
	wanted := p.locks()
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if _, there := p.node.Annotations[key]; !there {
			p.put(result, write.Annotations, key, new(""))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.node.Annotations)) {
		if snapshot.LockOwner(key) == snapshot.NodeLockOwner(p.in.Policy) && !wanted[key] {
			p.put(result, write.Annotations, key, nil)
		}
	}
	if len(write.Labels)+len(write.Annotations) > 0 {
		result.Writes = append(result.Writes, write)
	}
}

// put has a key be written, but not yet where another client has just changed it back.
func (p *place) put(result *Result, to map[string]*string, key string, value *string) {
	text := removed
	if value != nil {
		text = *value
	}
	if !p.last.contradicted(key, text, p.in.Now) {
		to[key] = value
		return
	}
	again := p.last.At.Add(rewriteAfter)
	result.Blockers = append(result.Blockers, Contested(p.node.Name, key, text, again))
	if result.NextLook.IsZero() || again.Before(result.NextLook) {
		result.NextLook = again
	}
}
