package drain

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

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

// scaledAway returns how many ready pods of a budget are to be removed by their controllers, since what owns them was scaled down: by this
// process or another one, an autoscaler, a person. The budget's status counts them until they are gone. Unready pods are removed first and
// use nothing. What is removed later than disruptedFor is not waited for: a paused rollout keeps more pods than it is to have.
func (d *decider) scaledAway(b *snapshot.Budget) int32 {
	known, looked := d.removed[b.Namespace]
	if !looked {
		known = d.removals(b.Namespace)
		d.removed[b.Namespace] = known
	}
	return known[b.UID]
}

// removals returns how many ready pods of a namespace are to be removed, by budget.
func (d *decider) removals(namespace string) map[types.UID]int32 {
	removed := map[types.UID]int32{}
	for w, pods := range d.readyByWorkload(namespace) {
		extra := int32(len(pods)) - d.scaledTo(w) //nolint:gosec // no workload has two billion pods
		if extra <= 0 || !d.goesSoon(w) {
			continue
		}
		under := map[types.UID]int32{}
		for _, p := range pods {
			for _, b := range d.Cluster.BudgetsFor(p) {
				under[b.UID]++
			}
		}
		for budget, n := range under {
			removed[budget] += min(extra, n)
		}
	}
	return removed
}

// readyByWorkload returns the ready pods of a namespace by the workload that wants a number of them: of workloads with pods on the drain's
// nodes, since of others not all is read, and of those that this process has scaled.
func (d *decider) readyByWorkload(namespace string) map[*snapshot.Workload][]*snapshot.Pod {
	here := d.workloadsHere()
	ready := map[*snapshot.Workload][]*snapshot.Pod{}
	for _, p := range d.Cluster.PodsIn(namespace) {
		if !p.Ready || p.Terminating() || p.Finished() {
			continue
		}
		if w := d.workloadOf(p); w != nil && w.Replicas >= 0 && (here[w.UID] || d.led.scales[w.UID] != nil) {
			ready[w] = append(ready[w], p)
		}
	}
	return ready
}

// workloadsHere returns which workloads have pods on the drain's nodes.
func (d *decider) workloadsHere() map[types.UID]bool {
	here := map[types.UID]bool{}
	for _, node := range d.req.Nodes {
		for _, p := range d.Cluster.PodsOn(node) {
			if w := d.workloadOf(p); w != nil {
				here[w.UID] = true
			}
		}
	}
	return here
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
