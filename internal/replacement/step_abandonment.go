package replacement

import "slices"

// judge blocks by the rules, but for those that a person gives up. Nothing else is waived: what may still run, what could not be read and what
// the system itself refuses hold as they do.
func (s *stepping) judge() {
	for i := range s.Rules {
		if b := &s.Rules[i]; s.Abandonment.waives(b) {
			s.out.Waived = append(s.out.Waived, *b)
		} else {
			s.block(*b)
		}
	}
}

// waives reports whether every rule is given up that has to be for a blocker to hold no longer.
func (a *Abandonment) waives(b *Blocker) bool {
	if len(b.WaivedBy) == 0 || b.Never {
		return false
	}
	return !slices.ContainsFunc(b.WaivedBy, func(rule string) bool { return !slices.Contains(a.Rules, rule) })
}

// offer names the command that gives data up where rules alone hold the replacement, and none was given up yet. What a system does not answer
// it may answer in a moment.
func (s *stepping) offer() {
	blockers := s.out.Blockers
	if len(s.Abandonment.Rules) > 0 || slices.ContainsFunc(blockers, func(b Blocker) bool { return len(b.WaivedBy) == 0 || b.Rule == "" || b.Never }) {
		return
	}
	for i := range blockers {
		blockers[i].Remedy = orAbandon(blockers[i].Remedy, s.Member, s.Namespace, s.Policy)
	}
}
