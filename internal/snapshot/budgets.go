package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// budgetSet finds budgets by name, and those of a pod without matching selectors
// again: a budget's status changes often, its selector hardly ever.
type budgetSet struct {
	byName map[string]map[string]*[]*Budget // by namespace; each cell holds the one present budget
	ofPod  map[*Pod][]*[]*Budget            // pods of the cluster only
	ofKin  map[types.UID]kin                // by owner: its pods mostly have the same labels

	healthy map[string]map[*[]*Budget]int32 // how many pods each counts as healthy, in namespaces for which that was asked
}

// kin is what was found for the labels of one pod of an owner.
type kin struct {
	space  string
	labels map[string]string
	cells  []*[]*Budget
}

func newBudgetSet() budgetSet {
	return budgetSet{
		byName: map[string]map[string]*[]*Budget{},
		ofPod:  map[*Pod][]*[]*Budget{}, ofKin: map[types.UID]kin{},
		healthy: map[string]map[*[]*Budget]int32{},
	}
}

func (s *budgetSet) clone() budgetSet {
	clone := newBudgetSet()
	for _, cells := range s.byName {
		for _, cell := range cells {
			clone.set((*cell)[0])
		}
	}
	return clone
}

// forget drops what was found, because budgets or what they select have changed.
func (s *budgetSet) forget() {
	clear(s.ofPod)
	clear(s.ofKin)
	clear(s.healthy)
}

func (s *budgetSet) set(b *Budget) {
	cells := s.byName[b.Namespace]
	if cells == nil {
		cells = map[string]*[]*Budget{}
		s.byName[b.Namespace] = cells
	}
	cell := cells[b.Name]
	if cell == nil {
		cells[b.Name] = &[]*Budget{b}
		s.forget()
		return
	}
	if !sameSelector((*cell)[0].Selector, b.Selector) {
		s.forget()
	}
	*cell = []*Budget{b}
}

func sameSelector(a, b labels.Selector) bool {
	inA, someA := a.Requirements()
	inB, someB := b.Requirements()
	if someA != someB || len(inA) != len(inB) {
		return false
	}
	return len(inA) == 0 || &inA[0] == &inB[0] || a.String() == b.String()
}

// match returns the cells of the budgets that count the pod, sorted by name.
func (s *budgetSet) match(p *Pod) []*[]*Budget {
	if known, ok := s.ofKin[p.Owner.UID]; ok && known.space == p.Namespace && maps.Equal(known.labels, p.Labels) {
		return known.cells
	}
	cells := s.search(p)
	if p.Owner.UID != "" {
		s.ofKin[p.Owner.UID] = kin{p.Namespace, p.Labels, cells}
	}
	return cells
}

func (s *budgetSet) search(p *Pod) []*[]*Budget {
	var cells []*[]*Budget
	for _, cell := range s.byName[p.Namespace] {
		if (*cell)[0].Matches(p) {
			cells = append(cells, cell)
		}
	}
	slices.SortFunc(cells, func(a, b *[]*Budget) int { return cmp.Compare((*a)[0].Name, (*b)[0].Name) })
	return cells
}

// moved keeps what is known of a pod that has changed, unless its labels have.
func (s *budgetSet) moved(old, p *Pod) {
	if old.Healthy() != p.Healthy() || !maps.Equal(old.Labels, p.Labels) {
		s.count(old, -1)
		s.count(p, 1)
	}
	cells, known := s.ofPod[old]
	delete(s.ofPod, old)
	if known && maps.Equal(old.Labels, p.Labels) {
		s.ofPod[p] = cells
	}
}

// count adds a pod that comes, or one that goes, to what its budgets count as healthy.
func (s *budgetSet) count(p *Pod, sign int32) {
	if counts := s.healthy[p.Namespace]; counts != nil && p.Healthy() {
		for _, cell := range s.match(p) {
			counts[cell] += sign
		}
	}
}

// SetBudget adds or replaces a budget.
func (c *Cluster) SetBudget(b *Budget) { c.budgets.set(b) }

// DeleteBudget forgets a budget.
func (c *Cluster) DeleteBudget(key Key) {
	delete(c.budgets.byName[key.Namespace], key.Name)
	c.budgets.forget()
}

// Budget returns a budget, or nil.
func (c *Cluster) Budget(key Key) *Budget {
	if cell := c.budgets.byName[key.Namespace][key.Name]; cell != nil {
		return (*cell)[0]
	}
	return nil
}

// BudgetsFor returns the budgets whose selector matches the pod, sorted by name. The
// caller must not change the slice.
func (c *Cluster) BudgetsFor(p *Pod) []*Budget {
	cells, known := c.budgets.ofPod[p]
	if !known {
		cells = c.budgets.match(p)
		if c.pods[p.UID] == p {
			c.budgets.ofPod[p] = cells
		}
	}
	switch len(cells) {
	case 0:
		return nil
	case 1:
		return *cells[0]
	}
	found := make([]*Budget, len(cells))
	for i, cell := range cells {
		found[i] = (*cell)[0]
	}
	return found
}

// HealthyUnder returns how many pods a budget of the cluster counts that are ready and not terminating, whatever its status says.
func (c *Cluster) HealthyUnder(b *Budget) int32 {
	cell := c.budgets.byName[b.Namespace][b.Name]
	if cell == nil {
		return 0
	}
	counts := c.budgets.healthy[b.Namespace]
	if counts == nil {
		counts = map[*[]*Budget]int32{}
		c.budgets.healthy[b.Namespace] = counts
		for _, p := range c.PodsIn(b.Namespace) {
			c.budgets.count(p, 1)
		}
	}
	return counts[cell]
}

// Budgets returns all budgets, sorted by namespace and name.
func (c *Cluster) Budgets() []*Budget {
	var all []*Budget
	for _, cells := range c.budgets.byName {
		for _, cell := range cells {
			all = append(all, (*cell)[0])
		}
	}
	slices.SortFunc(all, func(a, b *Budget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}
