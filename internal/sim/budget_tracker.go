package sim

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// budgetTracker counts the pods of one budget as they change, so that nothing has to count
// them all again.
type budgetTracker struct {
	budget  *snapshot.Budget // as it is in truth
	lowest  int32            // least healthy pods that its status has shown
	pods    int32
	healthy int32 // ready and not terminating
	owners  map[snapshot.OwnerKey]*share
	awake   bool // the disruption controller will look at it
}

// share is how many of a budget's pods belong to one controller.
type share struct {
	owner snapshot.Owner
	pods  int32
}

// budgetTrackers finds the budgets of pods. A namespace is counted when it is first touched.
type budgetTrackers struct {
	cluster *snapshot.Cluster
	spaces  map[string]*space
}

type space struct {
	guards  []*budgetTracker
	loaded  bool
	byOwner map[types.UID]match
}

// match remembers which budgets count pods with these labels: the pods of one
// controller mostly have the same.
type match struct {
	labels map[string]string
	guards []*budgetTracker
}

func newGuards(cluster *snapshot.Cluster) budgetTrackers {
	g := budgetTrackers{cluster: cluster, spaces: map[string]*space{}}
	for _, b := range cluster.Budgets() {
		in := g.spaces[b.Namespace]
		if in == nil {
			in = &space{byOwner: map[types.UID]match{}}
			g.spaces[b.Namespace] = in
		}
		in.guards = append(in.guards, &budgetTracker{budget: b, lowest: b.Current, owners: map[snapshot.OwnerKey]*share{}})
	}
	return g
}

// load counts a namespace before anything in it changes.
func (g *budgetTrackers) load(namespace string) {
	in := g.spaces[namespace]
	if in == nil || in.loaded {
		return
	}
	in.loaded = true
	for _, p := range g.cluster.PodsIn(namespace) {
		for _, counts := range g.of(p) {
			counts.add(p, 1)
		}
	}
}

// of returns the budgets that count the pod.
func (g *budgetTrackers) of(p *snapshot.Pod) []*budgetTracker {
	in := g.spaces[p.Namespace]
	if in == nil {
		return nil
	}
	if m, ok := in.byOwner[p.Owner.UID]; ok && maps.Equal(m.labels, p.Labels) {
		return m.guards
	}
	var found []*budgetTracker
	for _, guard := range in.guards {
		if guard.budget.Matches(p) {
			found = append(found, guard)
		}
	}
	in.byOwner[p.Owner.UID] = match{p.Labels, found}
	return found
}

// count follows a pod from one state to another and returns the budgets that have
// to look again. Either state may be nil.
func (g *budgetTrackers) count(former, p *snapshot.Pod) []*budgetTracker {
	either := p
	if either == nil {
		either = former
	}
	found := g.of(either)
	for _, guard := range found {
		if former != nil {
			guard.add(former, -1)
		}
		if p != nil {
			guard.add(p, 1)
		}
	}
	return found
}

func (g *budgetTracker) add(p *snapshot.Pod, sign int32) {
	g.pods += sign
	if p.Healthy() {
		g.healthy += sign
	}
	key := p.OwnerKey()
	s := g.owners[key]
	if s == nil {
		s = &share{owner: p.Owner}
		g.owners[key] = s
	}
	s.pods += sign
	if s.pods == 0 {
		delete(g.owners, key)
	}
}
