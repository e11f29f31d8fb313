package sim

// Recount lets the disruption controller look at every budget now.
func (s *Sim) Recount() {
	for _, b := range s.truth.Budgets() {
		s.guards.load(b.Namespace)
		for _, g := range s.guards.spaces[b.Namespace].guards {
			s.judgeBudget(g)
		}
	}
}
