package replacement

import "slices"

// succeeded reports whether the set has made the successor of a member before anything was begun. One that has to leave its system's list first has none: what
// runs elsewhere without its data is no member, and joins only once the entry is off. Of one that leaves last, the list shows that the one that is written
// down has failed: until then what runs may be that one.
func (s *stepping) succeeded() bool {
	return s.madeAnew() && !s.leavesFirst() && (s.System.Order != LeavesLast || s.System.MemberFailed)
}

// madeAnew reports whether the set has made the pod of a member that has no claims anew before anything was begun: it is on a node that reports, and earlier ones
// were on others.
func (s *stepping) madeAnew() bool {
	if s.Progress.Phase != Waiting || s.Set.Makes != Yes || len(s.Claims) > 0 || len(s.Places) == 0 || s.Pod == nil || s.Pod.Node.State != NodeAlive {
		return false
	}
	return !slices.ContainsFunc(s.Places, func(p Place) bool { return p.Node.Name == s.Pod.Node.Name })
}

// stillRuns is about a pod on a node that reports.
func (s *stepping) stillRuns() Blocker {
	if s.madeAnew() {
		return runsAnew(s.Member, s.Pod.Node.Name, s.Namespace, s.System.Order)
	}
	return runs(s.Member, s.Pod.Node.Name, s.Namespace)
}
