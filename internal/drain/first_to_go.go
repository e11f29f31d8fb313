package drain

import (
	"slices"

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
