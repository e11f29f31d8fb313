package replacement

import (
	"slices"
	"time"
)

// settle is how long, beside its grace, a pod must have been seen gone from a node that has been alive for as long: where it was deleted by
// force, or while the node did not report, its kubelet still ends it.
const settle = 30 * time.Second

// Step says what is to be done next for a replacement.
func Step(in StepInput) StepResult {
	s := stepping{StepInput: &in}
	switch delegated := in.Delegated; {
	case delegated == nil || in.Progress.Phase.Over():
	case delegated.Marked != nil:
		s.mark()
		return s.out
	default:
		s.delegate()
		return s.out
	}
	switch in.Progress.Phase {
	case Waiting:
		s.wait()
	case Removing:
		s.remove()
	case Joining:
		s.join()
	case Complete, Cancelled:
		s.release()
	}
	return s.out
}

type stepping struct {
	*StepInput

	out StepResult
}

func (s *stepping) act(a Action) { s.out.Actions = append(s.out.Actions, a) }

func (s *stepping) block(b Blocker) { s.out.Blockers = append(s.out.Blockers, b) }

// write has the phase written down. What it allows is done after the next look.
func (s *stepping) write(phase Phase) {
	next := s.Progress
	next.Phase = phase
	s.act(Action{Kind: Write, Progress: next})
}

// wait begins where nothing is in the way, by a look that was taken after the permit was written: no other member can go on the same facts.
func (s *stepping) wait() {
	if s.withdrawn() {
		return
	}
	if s.examine(); len(s.out.Blockers) > 0 {
		s.revoke()
		return
	}
	if s.retains() { // one that is being deleted by another client may go at any time
		return
	}
	if !s.permitted() {
		return
	}
	claims, node := s.present(), s.where()
	if s.succeeded() {
		s.act(Action{Kind: Write, Progress: Progress{Phase: Joining, Node: node.Name, NodeUID: node.UID, Registration: s.System.Member}})
		return
	}
	next := Progress{Phase: Removing, Node: node.Name, NodeUID: node.UID, Registration: s.System.Member}
	if s.Pod != nil && s.Pod.Node.Name != "" { // one that is on no node may be the successor, once it has other claims
		next.PodUID = s.Pod.UID
	}
	for _, c := range claims {
		next.Claims = append(next.Claims, ClaimRef{Name: c.Name, UID: c.UID, Volume: c.Volume})
	}
	s.act(Action{Kind: Write, Progress: next})
}

// unwanted reports whether what was begun is taken back while all of the member is there. What was asked of its system by steps is not, without a person.
func (s *stepping) unwanted() bool { return s.Cancelled || s.Unfounded != "" && !s.leavesBySteps() }

// withdrawn reports whether the request is being deleted before anything was done for it, or has no reason any more, and ends it then: its permit first.
func (s *stepping) withdrawn() bool {
	over := s.Cancelled || s.Unfounded != ""
	if over && !s.release() {
		s.write(Cancelled)
	}
	return over
}

// lookAt notes a time at which to look again.
func (s *stepping) lookAt(at time.Time) {
	if s.out.NextLook.IsZero() || at.Before(s.out.NextLook) {
		s.out.NextLook = at
	}
}

// examine blocks unless the rules pass, the predecessor is known to be gone, and all that goes with it is known.
func (s *stepping) examine() {
	s.judge()
	if s.Member.PodName == "" || s.Set.Name == "" { // nothing is known of it, and the rules say why
		return
	}
	s.out.Blockers = append(s.out.Blockers, s.Unread...)
	s.producible()
	s.departed()
	s.unreadVolumes(s.present())
	s.listed()
	s.offer()
}

// Untouched reports whether everything of a predecessor is there that cannot be brought back: then what let its removal begin must still hold.
func Untouched(in *StepInput) bool {
	s := stepping{StepInput: in}
	return s.untouched()
}

// Expelled reports whether the predecessor is off its system's list, so that what is left of it goes wherever it may run by now.
func Expelled(in *StepInput) bool {
	s := stepping{StepInput: in}
	return s.expelled()
}

// untouched reports whether everything is there that cannot be brought back, so that nothing is lost if the replacement is not gone on with. A
// pod that is gone is made anew with its claims.
func (s *stepping) untouched() bool {
	left := s.oldClaims()
	if s.leavesFirst() && s.System.Left != No || !s.Progress.LeftTime.IsZero() || len(left) < len(s.Progress.Claims) {
		return false
	}
	if slices.ContainsFunc(left, func(c *Claim) bool { return c.Terminating }) {
		return false
	}
	return s.leavesFirst() || s.leavesBySteps() || len(left) > 0 || s.Pod != nil && s.Pod.UID == s.Progress.PodUID && !s.Pod.Terminating
}

// retains has the volumes of claims that another client is deleting stay, before anything else is done.
func (s *stepping) retains() bool {
	acts := false
	for _, c := range s.present() {
		if c.Terminating && s.retain(c) {
			acts = true
		}
	}
	return acts
}

// retain has a claim's volume, which may be the last copy, stay when the claim goes, and reports whether it does not yet.
func (s *stepping) retain(c *Claim) bool {
	if !s.Retain || c.Volume == "" || c.Retained {
		return false
	}
	s.act(Action{Kind: RetainVolume, Name: c.Volume, UID: c.VolumeUID})
	return true
}

// present are the claims that exist.
func (s *stepping) present() []*Claim {
	var all []*Claim
	for i := range s.Claims {
		if s.Claims[i].UID != "" {
			all = append(all, &s.Claims[i])
		}
	}
	return all
}

// unbound are the names of the claims that exist and have no volume.
func (s *stepping) unbound() []string {
	var names []string
	for _, c := range s.present() {
		if c.Volume == "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// producible: the set makes a pod under the member's name.
func (s *stepping) producible() {
	switch s.Set.Makes {
	case Yes:
		if s.Set.After != "" {
			s.block(afterAnother(&s.Set, s.Member.PodName, s.Namespace, s.Progress.Phase == Joining))
		}
	case No:
		s.block(noSet(s.Set.Name, s.Member.PodName))
	case Unknown:
		if len(s.Unread) == 0 {
			s.block(setUnknown(s.Set.Name))
		}
	}
}

// where is the node on which the member is, or was last.
func (s *stepping) where() Node {
	switch last := len(s.Places) - 1; {
	case s.Pod != nil && s.Pod.Node.Name != "" && !s.succeeded():
		return s.Pod.Node
	case last >= 0:
		return s.Places[last].Node
	}
	return Node{}
}

// departed: nothing of the predecessor runs any more, wherever it was.
func (s *stepping) departed() {
	bound := s.Pod != nil && s.Pod.Node.Name != "" && !s.successor() && !s.succeeded()
	if !bound && len(s.Places) == 0 && s.Progress.Node == "" {
		s.block(nodeNotKnown(s.Member.ID))
	}
	switch {
	case !bound || !s.mayRun(&s.Pod.Node) || s.Pod.Node.State != NodeAlive:
	case s.Pod.Terminating: // an eviction that would be advised is under way
		s.block(podLeaving(s.Member.PodName, s.Namespace))
	default:
		s.block(s.stillRuns())
	}
	for i := range s.Places {
		if place := &s.Places[i]; s.mayRun(&place.Node) && place.Node.State == NodeAlive {
			s.gone(place)
			s.maintained(&place.Node)
		}
	}
}

// Gone reports whether nothing of a member that has no pod runs any more, wherever it was.
func Gone(in StepInput) bool {
	s := stepping{StepInput: &in}
	s.departed()
	return in.Pod == nil && len(s.out.Blockers) == 0
}

// maintained blocks what repair has asked for where the node may only be worked on, and the member comes back with its data afterwards.
func (s *stepping) maintained(node *Node) {
	if s.Repair && node.Cordoned {
		s.block(requestPaused(s.Member, node.Name, replaceCommand(s.Member, s.Namespace, s.Policy)))
	}
}

// mayRun reports whether a node may run what it has, and blocks where that cannot be said.
func (s *stepping) mayRun(node *Node) bool {
	switch node.State {
	case NodeOff, NodeDeleted:
		return false
	case NodeLost:
		s.block(nodeLost(node.Name, node.Fence))
	case NodeNotReady:
		s.block(nodeNotReady(node.Name))
	case NodeUnknown:
		s.block(nodeNotRead(node.Name))
	case NodeAlive:
	}
	return true
}

// gone blocks until the kubelet of a node has had the time to end a pod that is gone from the API, and has reported since: a node that has
// fallen silent looks alive for a while.
func (s *stepping) gone(place *Place) {
	if place.GoneTime.IsZero() {
		s.block(goneUnseen(s.Member.PodName, place.Node.Name))
		return
	}
	since := place.GoneTime
	if place.Node.Since.After(since) {
		since = place.Node.Since
	}
	at := since.Add(settle + s.Grace)
	switch {
	case at.After(s.Now):
		s.block(settling(s.Member.PodName, place.Node.Name, settle+s.Grace))
		s.lookAt(at)
	case place.Node.Until.Before(at):
		s.block(unreported(s.Member.PodName, place.Node.Name))
		s.lookAt(s.Now.Add(settle))
	}
}

// unreadVolumes blocks where it is not known what becomes of the volumes of claims that go.
func (s *stepping) unreadVolumes(claims []*Claim) {
	for _, c := range claims {
		if s.Retain && c.Volume != "" && !c.Known {
			s.block(volumeUnread(c.Name, c.Volume))
		}
	}
}

// remove removes what is left of the predecessor. As long as all of it is there, what let it begin must still hold, and as long as any is,
// nothing of the predecessor may run. It leaves its system's list first, so that no successor meets it there, and the successor is on that list
// before it can start, since some end where they are not.
func (s *stepping) remove() {
	left := s.oldClaims()
	switch {
	case s.forsaken():
		s.write(Cancelled)
		return
	case s.hasLeftBySteps():
		return
	case s.untouched():
		if s.examine(); s.unwanted() || len(s.out.Blockers) > 0 {
			s.stepsStay()
			s.act(Action{Kind: Write})
			return
		}
	case s.runs() && s.expelled(): // it does no work any more, and cannot
		s.out.Blockers = append(s.out.Blockers, s.Unread...)
		s.unreadVolumes(left)
		s.listed()
	case s.runs() && s.Pod.Terminating:
		s.block(podLeaving(s.Member.PodName, s.Namespace))
		return
	case s.runs():
		s.block(cameBack(s.Member, s.Pod.Node.Name, s.Namespace))
		return
	case s.leavesBySteps(): // another client has begun to remove it
		s.examine()
	case !s.leavesFirst() && len(s.Unread) == 0 && s.nothingLeft():
		if s.permitted() {
			s.write(Joining)
		}
		return
	default:
		s.out.Blockers = append(s.out.Blockers, s.Unread...)
		s.departed()
		s.unreadVolumes(left)
		s.listed()
	}
	if len(s.out.Blockers) > 0 || !s.permitted() {
		return
	}
	switch {
	case s.leavesBySteps():
		s.leave()
	case s.leavesFirst() && s.System.Left != Yes:
		s.act(Action{Kind: Leave, Registration: s.Progress.Registration})
	case s.leavesFirst() && s.System.Successor == nil:
		s.act(Action{Kind: Join, Registration: s.Progress.Registration})
	default:
		s.removeRest(left)
	}
}

// removeRest deletes the claims before the pod: a pod that its set makes anew meanwhile finds no node while they go.
func (s *stepping) removeRest(left []*Claim) {
	for _, c := range left {
		s.retain(c)
	}
	for _, c := range left {
		if c.Terminating {
			s.block(claimLeaving(c.Name, s.Namespace))
			continue
		}
		s.act(Action{Kind: DeleteClaim, Name: c.Name, UID: c.UID})
	}
	switch old := s.Pod != nil && !s.successor() && (s.expelled() || !s.mayStillRun()); {
	case old && s.becomesSuccessor(left): // the claims that go are waited for
	case old && s.Pod.Terminating:
		s.block(podEnding(s.Member.PodName, &s.Pod.Node, s.Namespace))
	case old:
		s.act(Action{Kind: DeletePod, Name: s.Member.PodName, UID: s.Pod.UID, Version: s.Pod.Version})
	case s.nothingLeft():
		s.write(Joining)
	}
}

// becomesSuccessor reports whether the pod is the successor as soon as the predecessor's claims are gone, which are being deleted: it is a later one and on no
// node, so that it holds none of them, and finds none before others are made for it.
func (s *stepping) becomesSuccessor(left []*Claim) bool {
	going := len(left) > 0 && !slices.ContainsFunc(left, func(c *Claim) bool { return !c.Terminating })
	return going && s.Pod.UID != s.Progress.PodUID && s.Pod.Node.Name == "" && !s.Pod.Terminating
}

// nothingLeft reports whether neither the predecessor's claims nor its pod are there any more.
func (s *stepping) nothingLeft() bool {
	return len(s.oldClaims()) == 0 && (s.Pod == nil || s.successor())
}

// successor reports whether the pod of the name is not the predecessor's any more: it is another, and none of the old claims is left that
// it could have.
func (s *stepping) successor() bool {
	return s.Progress.Phase != Waiting && s.Pod != nil && s.Pod.UID != s.Progress.PodUID && len(s.oldClaims()) == 0
}

// runs reports whether the predecessor, or a pod with its claims, has come back to a node that reports.
func (s *stepping) runs() bool {
	return s.Pod != nil && !s.successor() && s.Pod.Node.Name != "" && s.Pod.Node.State == NodeAlive
}

// mayStillRun reports whether the pod with the member's name is on a node where something may run in it.
func (s *stepping) mayStillRun() bool {
	return s.Pod != nil && s.Pod.Node.Name != "" && s.Pod.Node.State != NodeOff && s.Pod.Node.State != NodeDeleted
}

// oldClaims are those of the predecessor that still exist.
func (s *stepping) oldClaims() []*Claim {
	return slices.DeleteFunc(s.present(), func(c *Claim) bool {
		return !slices.ContainsFunc(s.Progress.Claims, func(r ClaimRef) bool { return r.Name == c.Name && r.UID == c.UID })
	})
}

// join waits for the successor, which has its whole part in its system's list once it runs where it may.
func (s *stepping) join() {
	if !s.permitted() {
		return
	}
	switch {
	case s.System.Elsewhere && s.forsaken():
		s.write(Cancelled)
		return
	case s.Cancelled && s.Set.Makes == No: // it is not to be there any more
		s.withdraw()
		return
	}
	s.out.Blockers = append(s.out.Blockers, s.Unread...)
	s.listed()
	if s.leavesFirst() && s.System.Left == Yes && s.System.Successor == nil {
		s.act(Action{Kind: Join, Registration: s.Progress.Registration})
		return
	}
	if !s.placed() {
		return
	}
	if !s.Pod.Ready {
		s.block(notReady(s.Member.PodName, s.Namespace))
	}
	if s.System.Reported != Yes {
		s.block(notReported(s.Member.ID))
	}
	s.takeOver()
	if len(s.out.Blockers) == 0 && len(s.out.Actions) == 0 {
		s.write(Complete)
	}
}

// placed reports whether the successor is on a node where it may be.
func (s *stepping) placed() bool {
	switch {
	case s.Pod == nil:
		s.producible()
		s.block(noSuccessor(s.Set.Name, s.Member.PodName, s.Namespace))
	case s.Pod.Node.Name == "" && slices.ContainsFunc(s.Claims, func(c Claim) bool { return c.UID == "" }): // its set makes them with a pod
		s.act(Action{Kind: DeletePod, Name: s.Member.PodName, UID: s.Pod.UID, Version: s.Pod.Version})
	case s.Pod.Node.Name == "":
		s.block(unscheduled(s.Member.PodName, s.Pod.Unscheduled, s.unbound(), s.Namespace, s.System.Order))
	case s.Pod.Node.State == NodeOff || s.Pod.Node.State == NodeDeleted:
		s.block(successorLost(s.Member.PodName, s.Pod.Node.Name, s.System.Order))
	case s.Progress.NodeUID != "" && s.Pod.Node.UID == s.Progress.NodeUID && !s.Cancelled: // who deletes the request accepts it there
		s.block(sameNode(s.Member.PodName, s.Progress.Node))
	default:
		return true
	}
	return false
}
