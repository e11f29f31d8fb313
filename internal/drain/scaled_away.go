package drain

import (
	"slices"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// scaledDown returns the Deployment whose pods an action may remove, nil if it removes none.
func (d *decider) scaledDown(a Action) *snapshot.Workload {
	switch {
	case !a.scalesDown():
		return nil
	case a.Workload != nil:
		return a.Workload
	}
	all := d.Cluster.Workloads()
	if i := slices.IndexFunc(all, a.Autoscaler.Rules); i >= 0 {
		return all[i]
	}
	return nil
}

// firstToGo returns the claims of nodes from which a scaling down of a Deployment removes pods first: their drain, this one or another one
// of this process, has lowered their deletion costs, or this one may have without that being seen. Once such a node is given back its pods
// stay, and get their costs back before.
func (d *decider) firstToGo(w *snapshot.Workload) []claim {
	var claims []claim
	add := func(node string, of snapshot.Drainer) {
		if c := (claim{node, of}); !slices.Contains(claims, c) {
			claims = append(claims, c)
		}
	}
	for _, p := range d.podsOf(w) {
		if p.Terminating() {
			continue
		}
		marked := markedBy(p, d.req.Self.ID) || d.markComes(d.led.tries[tryKey{LowerCost, p.UID}])
		if marked && d.has(p.Node) {
			add(p.Node, d.req.Self)
		}
		for _, other := range d.led.sharing() {
			if other != d.led && markedBy(p, other.self.ID) && other.has(d.View, p.Node) {
				add(p.Node, other.self)
			}
		}
	}
	return claims
}

// has reports whether the node is this drain's, by its sign of life and its cordon.
func (d *decider) has(node string) bool {
	return d.led.back[node] == nil && claim{node, d.req.Self}.stands(d.View)
}

// has reports whether the node is that of the ledger's drain, by its sign of life and its cordon.
func (l *Ledger) has(view snapshot.View, node string) bool {
	return l.back[node] == nil && claim{node, l.self}.stands(view)
}

// Surplus is how many ready pods a workload has beyond those that it is to have.
type Surplus struct {
	Replicas int32     // that it is to have
	Since    time.Time // when that was first seen
}

// scaledAway returns how many ready pods of a pod's budget are to be removed by their controllers, since what owns them was scaled down: the
// pod's owner by any client, others by this process. The budget's status counts them until they are gone. Unready pods are removed first
// and use nothing. What is removed later than disruptedFor is not waited for: a paused rollout keeps more pods than it is to have.
func (d *decider) scaledAway(p *snapshot.Pod, b *snapshot.Budget) int32 {
	own := d.workloadOf(p)
	removed := d.removedFrom(own, b)
	for _, w := range d.scaledIn(b.Namespace) {
		if w != own {
			removed += d.removedFrom(w, b)
		}
	}
	return removed
}

// removedFrom returns how many ready pods of a budget the controller of a workload is to remove.
func (d *decider) removedFrom(w *snapshot.Workload, b *snapshot.Budget) int32 {
	if w == nil || w.Replicas < 0 {
		return 0
	}
	ready, looked := d.surplus[w.UID]
	if !looked {
		ready = slices.DeleteFunc(slices.Clone(d.podsOf(w)), func(p *snapshot.Pod) bool { return !p.Ready || p.Terminating() || p.Finished() })
		if len(ready) <= int(d.scaledTo(w)) || !d.goesSoon(w) {
			ready = nil
		}
		d.surplus[w.UID] = ready
	}
	counted := int32(0)
	for _, p := range ready {
		if b.Matches(p) {
			counted++
		}
	}
	return min(counted, max(0, int32(len(ready))-d.scaledTo(w))) //nolint:gosec // no workload has two billion pods
}

// scaledIn returns the workloads of a namespace that this process has scaled.
func (d *decider) scaledIn(namespace string) []*snapshot.Workload {
	if d.scaled == nil {
		d.scaled = map[string][]*snapshot.Workload{}
		for uid := range d.led.scales {
			if w := d.Cluster.Workload(uid); w != nil {
				d.scaled[w.Namespace] = append(d.scaled[w.Namespace], w)
			}
		}
	}
	return d.scaled[namespace]
}

// goesSoon reports whether the surplus of a workload was first seen a short time ago.
func (d *decider) goesSoon(w *snapshot.Workload) bool {
	s := Surplus{Replicas: d.scaledTo(w), Since: d.Now}
	if before, known := d.led.surplus[w.UID]; known && before.Replicas == s.Replicas {
		s = before
	}
	d.out.Surplus[w.UID] = s
	until := s.Since.Add(disruptedFor)
	d.wake(until)
	return d.Now.Before(until)
}

// scaledTo returns how many replicas a Deployment has, or will have once the process's own scaling down is seen.
func (d *decider) scaledTo(w *snapshot.Workload) int32 {
	t := d.led.scales[w.UID]
	if t != nil && t.version == w.ResourceVersion && (t.done.IsZero() || perhapsDone(t.answer.Code)) {
		return min(w.Replicas, t.action.Replicas)
	}
	return w.Replicas
}
