package replacement

import (
	"slices"
	"time"
)

// delegate has another controller make the successor: what it is asked for is written down first, and done only while the rules pass. How the
// predecessor goes, and in which order, is that controller's affair.
func (s *stepping) delegate() {
	switch s.Progress.Phase {
	case Waiting:
		s.delegateNew()
	case Removing:
		s.delegated()
	case Joining:
		s.takenOver()
	case Complete, Cancelled:
	}
}

// delegateNew begins where nothing is in the way, as wait does.
func (s *stepping) delegateNew() {
	gone := !s.Progress.StartTime.IsZero() && s.predecessorGone() // it may have been asked for before the rules failed
	if (s.Cancelled || !gone) && s.withdrawn() {
		return
	}
	if gone {
		if s.permitted() {
			s.write(Removing)
		}
		return
	}
	s.judge()
	s.askable()
	if s.offer(); len(s.out.Blockers) > 0 {
		s.revoke()
		return
	}
	if !s.permitted() {
		return
	}
	if s.Progress.StartTime.IsZero() && !s.Delegated.LastMade.Before(s.Now.Truncate(time.Second)) { // it would be taken for the successor
		s.lookAt(s.Now.Truncate(time.Second).Add(time.Second))
		return
	}
	next := s.Progress
	next.Phase, next.Target = Removing, s.Delegated.Target.TargetRef
	if next.StartTime.IsZero() {
		next.StartTime = s.Now
		if s.Pod != nil {
			next.PodUID, next.Node, next.NodeUID = s.Pod.UID, s.Pod.Node.Name, s.Pod.Node.UID
		}
	}
	next.StartTime = s.begun(next.StartTime)
	s.act(Action{Kind: Write, Progress: next})
}

// begun is since when pods count as successors, where that is written down as a time. Where its pod alone is deleted it is no later than that began, by the
// apiserver's clock and whatever asked for it: from then on its controller makes another, and no second one.
func (s *stepping) begun(written time.Time) time.Time {
	if s.Delegated.Patches || s.Pod == nil || s.Pod.DeletionTime.IsZero() || written.Before(s.Pod.DeletionTime) {
		return written
	}
	return s.Pod.DeletionTime
}

// askable blocks unless there is something to ask of the controller.
func (s *stepping) askable() {
	s.out.Blockers = append(s.out.Blockers, s.Unread...)
	switch d := s.Delegated; {
	case len(s.Unread) > 0:
	case d.Patches && d.Target.UID == "":
		s.block(targetMissing(&d.Target.TargetRef, s.Namespace))
	case !d.Patches && s.Pod == nil:
		s.block(podMissing(s.Member.ID))
	case !d.Patches && s.Pod.Ready && s.Pod.Node.State == NodeAlive && s.Pod.Terminating:
		s.block(podLeaving(s.Member.PodName, s.Namespace))
	case !d.Patches && s.Pod.Ready && s.Pod.Node.State == NodeAlive: // an eviction asks its budgets
		s.block(runsReady(s.Member, s.Pod.Node.Name, s.Namespace))
	}
}

// delegated asks, waits until the predecessor is gone, and takes back what was asked where that is cancelled in time.
func (s *stepping) delegated() {
	requested := s.requested()
	switch {
	case s.predecessorGone():
		if s.permitted() {
			s.write(Joining)
		}
	case s.unaccounted():
		s.write(Cancelled)
	case requested == Unknown:
		s.out.Blockers = append(s.out.Blockers, s.Unread...)
		if len(s.out.Blockers) == 0 {
			s.block(targetUnknown(&s.Progress.Target))
		}
	case s.begun(s.Progress.StartTime).Before(s.Progress.StartTime):
		next := s.Progress
		next.StartTime = s.begun(next.StartTime)
		s.act(Action{Kind: Write, Progress: next})
	case s.Cancelled:
		s.cancelDelegated(requested)
	case requested == Yes:
		s.block(s.awaited())
	default:
		s.ask()
	}
}

// ask asks as long as the rules pass, by the same look. Where they do not, which pod it was about stays written down: an operator may have noticed
// what was asked before it was taken back, and its successor is not to be replaced as well.
func (s *stepping) ask() {
	s.judge()
	if s.askable(); s.Unfounded != "" || len(s.out.Blockers) > 0 {
		s.write(Waiting)
		return
	}
	switch {
	case !s.permitted():
	case s.Delegated.Patches:
		s.act(Action{Kind: Patch})
	default:
		s.act(Action{Kind: DeletePod, Name: s.Member.PodName, UID: s.Pod.UID, Version: s.Pod.Version})
	}
}

// requested reports whether the controller has been asked. A target that is gone has been asked as far as that is known: nothing else of it is.
func (s *stepping) requested() Tristate {
	switch target := &s.Delegated.Target; {
	case !s.Delegated.Patches:
		return yes(s.Pod != nil && s.Pod.Terminating)
	case len(s.Unread) > 0:
		return Unknown
	case target.UID != s.Progress.Target.UID:
		return Yes
	default:
		return target.Asked
	}
}

func yes(is bool) Tristate {
	if is {
		return Yes
	}
	return No
}

// unaccounted reports whether a request was deleted whose policy, which alone says how what was asked is taken back, or the object that was patched is not
// there for long: it holds its namespace otherwise.
func (s *stepping) unaccounted() bool {
	sourceless := slices.ContainsFunc(s.Unread, func(b Blocker) bool { return b.Reason == SourceMissing })
	if !s.Cancelled || !s.Delegated.Patches || !sourceless && !s.targetGone() {
		return false
	}
	end := s.StepTime.Add(forsakenAfter)
	if end.After(s.Now) {
		s.lookAt(end)
		return false
	}
	return true
}

// targetGone reports whether the object that was patched is not there any more: its kind is not served, or what has its name is another one.
func (s *stepping) targetGone() bool {
	d := s.Delegated
	return d.Patches && s.Progress.Target != TargetRef{} && (d.Unserved || len(s.Unread) == 0 && d.Target.UID != s.Progress.Target.UID)
}

// cancelDelegated takes back what was asked, where that can be, and goes on where it cannot.
func (s *stepping) cancelDelegated(requested Tristate) {
	target := &s.Delegated.Target
	switch there := target.UID == s.Progress.Target.UID; {
	case requested == No:
		s.write(Cancelled)
	case s.Delegated.Patches && there && target.Undoable && target.Undone == Yes:
		s.block(undoneInVain(&target.TargetRef))
	case s.Delegated.Patches && there && target.Undoable:
		s.act(Action{Kind: Undo})
	default:
		s.block(notTakenBack(s.awaited()))
	}
}

// predecessorGone reports whether nothing is left of the predecessor: the API does not have its pod, or, where it had none, its name has one. A pod that comes
// back under its name while an object still asks for it was made for another reason: its operator has yet to replace it.
func (s *stepping) predecessorGone() bool {
	switch {
	case s.Pod != nil && s.stillAsked():
		return false
	case s.Progress.PodUID != "":
		return s.Pod == nil || s.Pod.UID != s.Progress.PodUID
	case s.Pod != nil:
		return true
	}
	return len(s.Delegated.Successors) > 0
}

// stillAsked reports whether the object that was patched asks for the member, as far as is known. One that is another by now, as a pod that came back is, does not.
func (s *stepping) stillAsked() bool {
	requested := s.requested()
	return s.Delegated.Patches && (requested == Unknown || requested == Yes && s.Delegated.Target.UID == s.Progress.Target.UID)
}

// awaited is what the controller has still to do.
func (s *stepping) awaited() Blocker {
	if !s.Delegated.Patches {
		return podEnding(s.Member.PodName, &s.Pod.Node, s.Namespace)
	}
	if s.targetGone() {
		return targetGone(s.Member.ID, &s.Progress.Target, s.Namespace)
	}
	return operatorAwaited(s.Member.ID, &s.Progress.Target, s.Namespace)
}

// takenOver waits for the successor. Of a request that was deleted it does so for a while: its controller may make none any more. Where the predecessor comes
// back meanwhile, since its pod has gone for another reason, what was asked is still to be done.
func (s *stepping) takenOver() {
	if !s.permitted() {
		return
	}
	back := s.Pod != nil && s.stillAsked()
	if back && s.requested() == Yes {
		s.write(Removing)
		return
	}
	at := slices.IndexFunc(s.Delegated.Successors, func(p Successor) bool { return p.Ready && p.Reported == Yes })
	if at >= 0 && !back {
		s.out.Successor = &s.Delegated.Successors[at]
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
	if s.out.Blockers = append(s.out.Blockers, s.Unread...); back && len(s.out.Blockers) > 0 {
		return
	}
	s.missesSuccessor()
}

func (s *stepping) missesSuccessor() {
	if len(s.Delegated.Successors) == 0 {
		s.block(noneMade(s.Member.Role))
		return
	}
	p := &s.Delegated.Successors[0]
	s.out.Successor = p
	if !p.Ready {
		s.block(notReady(p.Name, s.Namespace))
		return
	}
	s.block(notReported(p.Name))
}
