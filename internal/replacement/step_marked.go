package replacement

import "usher.sh/usher/api/v1alpha1"

// Marked is what its MemberSet says of a member. The request is the mark: the set makes another member for one that is marked, and removes it once its request
// says that it may.
type Marked struct {
	// Set is the name of the set.
	Set string
	// Gone: no such set controls the policy, so that nothing more of the member is removed.
	Gone bool
	// Listed: the set has the member, and there is something left of it. Fresh: it has not done its work yet, so that nothing is lost with it.
	Listed, Fresh bool
	// Past: it had the member, and has removed it.
	Past bool
	// Other is the name of another request by which the set goes; "": it goes by none.
	Other string
	// Step is how far the set is for this request; "": it has not taken note of it.
	Step v1alpha1.MemberRemovalStep
	// Complete: the member's group has as many members that do their work as it is to have. Successor is the last that has joined; nil: none has since.
	Complete  bool
	Successor *Successor
}

// begun reports whether the set removes the member: there is no way back.
func (m *Marked) begun() bool { return m.Listed && m.Step == v1alpha1.RemovalRemoving }

// mark has a MemberSet replace the member.
func (s *stepping) mark() {
	switch s.Progress.Phase {
	case Waiting:
		s.markNew()
	case Removing:
		s.markedLeaves()
	case Joining:
		s.markedReplaced()
	case Complete, Cancelled:
	}
}

// markNew lets the member go where nothing is in the way, and its set has enough members without it.
func (s *stepping) markNew() {
	m := s.Delegated.Marked
	if len(s.Unread) == 0 && (m.begun() || !m.Listed && !s.Progress.StartTime.IsZero()) { // it has begun by what the request said before
		if s.permitted() {
			s.write(Removing)
		}
		return
	}
	if s.withdrawn() {
		return
	}
	if len(s.Unread) == 0 && !m.Listed && m.Past { // for another request
		s.write(Joining)
		return
	}
	s.dispensable()
	if s.offer(); len(s.out.Blockers) > 0 {
		s.revoke()
		return
	}
	if !s.permitted() {
		return
	}
	next := s.Progress
	next.Phase, next.StartTime = Removing, s.Now
	if s.Pod != nil {
		next.PodUID, next.Node, next.NodeUID = s.Pod.UID, s.Pod.Node.Name, s.Pod.Node.UID
	}
	s.act(Action{Kind: Write, Progress: next})
}

// dispensable blocks unless the rules pass, which are about what a member has done, and the set says that it has enough members without this one,
// and that nothing of its system is on it.
func (s *stepping) dispensable() {
	m := s.Delegated.Marked
	if !m.Fresh || !m.Listed {
		s.judge()
	}
	s.out.Blockers = append(s.out.Blockers, s.Unread...)
	switch {
	case len(s.Unread) > 0:
	case !m.Listed:
		s.block(memberMissing(s.Member, m.Set))
	case m.Other != "":
		s.block(otherMark(s.Member.ID, m.Set, m.Other, s.Namespace))
	case m.Step == "":
		s.block(markUnseen(m.Set))
	case m.Step == v1alpha1.RemovalGrowing:
		s.block(setGrows(s.Member.ID, m.Set, s.Namespace))
	case m.Step == v1alpha1.RemovalEmptying:
		s.block(setEmpties(s.Member.ID, m.Set, s.Namespace))
	}
}

// markedLeaves waits until nothing is left of the member. As long as its set has not begun, what let it go must still hold, and it can be cancelled.
func (s *stepping) markedLeaves() {
	m := s.Delegated.Marked
	switch {
	case m.Gone && s.Cancelled:
		s.write(Cancelled)
	case len(s.Unread) > 0:
		s.out.Blockers = append(s.out.Blockers, s.Unread...)
	case !m.Listed:
		if s.permitted() {
			s.write(Joining)
		}
	case m.begun():
		if s.permitted() {
			s.block(setRemoves(s.Member.ID, m.Set, s.Namespace))
		}
	case s.Cancelled:
		s.write(Cancelled)
	default:
		if s.dispensable(); len(s.out.Blockers) > 0 {
			s.write(Waiting)
			return
		}
		if s.permitted() {
			s.block(setAwaited(s.Member.ID, m.Set))
		}
	}
}

// markedReplaced ends once the set is complete. The member is gone, and others may go meanwhile.
func (s *stepping) markedReplaced() {
	if s.release() {
		return
	}
	m := s.Delegated.Marked
	if len(s.Unread) == 0 && m.Complete {
		s.out.Successor = m.Successor
		s.write(Complete)
		return
	}
	if end := s.StepTime.Add(forsakenAfter); s.Cancelled {
		if !end.After(s.Now) {
			s.write(Cancelled)
			return
		}
		s.lookAt(end)
	}
	if s.out.Blockers = append(s.out.Blockers, s.Unread...); len(s.Unread) == 0 {
		s.block(setIncomplete(m.Set, s.Namespace))
	}
}
