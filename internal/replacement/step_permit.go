package replacement

import "time"

// release has the policy's status forget the member, and reports whether there was anything to forget.
func (s *stepping) release() bool {
	if s.PermitTime.IsZero() {
		return false
	}
	s.act(Action{Kind: Release})
	return true
}

// permitted reports whether the policy's status says that the member is being replaced, and has it say so where it does not. It waits as long as it says
// so for another request: of two that both took the permit neither would keep it.
func (s *stepping) permitted() bool {
	switch {
	case !s.PermitTime.IsZero():
		return true
	case s.PermittedFor != "":
		s.block(permittedFor(s.Member.ID, s.PermittedFor, s.Namespace))
		return false
	}
	s.act(Action{Kind: Permit})
	return false
}

// patience is how long a permit stands although something is in the way: what was known before it was written does not count, and the
// system is asked anew first.
const patience = time.Minute

// revoke takes a permit back that holds others for nothing.
func (s *stepping) revoke() {
	if s.PermitTime.IsZero() {
		return
	}
	if end := s.PermitTime.Add(patience); end.After(s.Now) {
		s.lookAt(end)
		return
	}
	s.release()
}
