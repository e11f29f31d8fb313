package lostnode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

const (
	// lookAgain is when to look again at what is not known, and at a machine that is not off.
	lookAgain = 5 * time.Second
	// lookLate is the same once the bound of a wait has passed.
	lookLate = time.Minute
	// askRefused is how long after a request that was not carried out it is sent again, askAccepted after one that was accepted and had no
	// effect.
	askRefused, askAccepted = 15 * time.Second, 2 * time.Minute
	// clearWithin is how long pods and volumes may take to go once the node is tainted. Kubernetes' garbage collector of pods looks every
	// 20 s, its attach-detach controller at once.
	clearWithin = 10 * time.Minute
	// kept is how long the record of a fence that is over stays.
	kept = 24 * time.Hour
)

// Case is everything that the next step of one fence rests on.
type Case struct {
	Now   time.Time
	Fence *v1alpha1.NodeFence
	// Node is read past any cache; nil: there is none of the name.
	Node  *Node
	Lease Lease
	// Policy is the fence's; nil: it is gone.
	Policy *Policy
	// Others are the other nodes of the zone that are silent (OthersSilent).
	Others []string
	// Look is what the machine's observation said in this turn, Answer what became of the request that was sent in this turn; nil: it
	// was not made.
	Look   *v1alpha1.FenceObservation
	Answer *Answer
	// Pods are bound to the node and do not tolerate its taint, Volumes are attached to it. They are needed from NeedsClearing on.
	Pods, Volumes Remaining
}

// Answer is what became of a request.
type Answer struct {
	Result  v1alpha1.RequestResult
	Message string
}

// Remaining is what is still on a node.
type Remaining struct {
	Known bool
	Error string // why it is not known
	Names []string
}

// Deed is what is done about a fence.
type Deed string

// The deeds.
const (
	DoNothing Deed = ""
	DoHold    Deed = "hold"    // the fence's deletion waits from then on
	DoObserve Deed = "observe" // look at the machine, and decide anew
	DoCall    Deed = "call"    // send the request, and decide anew
	DoTaint   Deed = "taint"   // at the node's version
	DoUntaint Deed = "untaint" // Usher's taint only, at the node's version
	DoRelease Deed = "release" // the fence's deletion waits no more
	DoForget  Deed = "forget"  // delete the fence
	DoDecide  Deed = "decide"  // nothing but to decide anew
)

// Next is the next step of a fence. The status is written first, at the fence's version; where that fails nothing is done.
type Next struct {
	Status v1alpha1.NodeFenceStatus
	Do     Deed
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
}

// NeedsClearing reports whether Pods and Volumes of a case are looked at.
func NeedsClearing(fence *v1alpha1.NodeFence) bool {
	s := &fence.Status
	return s.Taint != "" && s.ClearedTime == nil && !s.Over() && fence.DeletionTimestamp == nil
}

// Step says what is next.
func Step(in Case) Next {
	s := &step{Case: in, next: Next{Status: *in.Fence.Status.DeepCopy()}}
	s.status = &s.next.Status
	s.status.ObservedGeneration = in.Fence.Generation
	if in.Node != nil && in.Fence.Status.Step == "" {
		s.status.Zone = in.Node.Zone
	}
	s.learn()
	switch {
	case s.status.Over():
		s.over()
	case in.Fence.DeletionTimestamp != nil:
		s.undo(v1alpha1.FenceCancelled, "the fence was deleted")
	case s.status.Taint != "":
		s.tainted()
	case s.status.ProvenTime != nil:
		s.proven()
	default:
		s.unproven()
	}
	return s.next
}

type step struct {
	Case

	status *v1alpha1.NodeFenceStatus
	next   Next
}

// learn takes in what was found out in this turn.
func (s *step) learn() {
	if s.Answer != nil {
		s.status.RequestResult, s.status.RequestMessage = s.Answer.Result, brief(s.Answer.Message)
	}
	if s.Look == nil {
		return
	}
	last, look := s.status.Observation, *s.Look
	look.Message = brief(look.Message)
	if last != nil && last.State == look.State && last.Message == look.Message && look.Time.Sub(last.Time.Time) < lookLate {
		look.Time = last.Time // nothing new: it need not be written
	}
	s.status.Observation = &look
}

// maxMessage is how many bytes of what others answer are kept.
const maxMessage = 1024

func brief(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-len("…")], "") + "…"
}

// over lets go of a fence, and forgets it a day later.
func (s *step) over() {
	if slices.Contains(s.Fence.Finalizers, v1alpha1.FenceFinalizer) {
		s.next.Do = DoRelease
		return
	}
	if s.Fence.DeletionTimestamp != nil || s.status.EndTime == nil {
		return
	}
	if at := s.status.EndTime.Add(kept); at.After(s.Now) {
		s.next.NextLook = at
		return
	}
	s.next.Do = DoForget
}

// end writes down that nothing more is done.
func (s *step) end(last v1alpha1.FenceStep, why string) {
	s.enter(last)
	s.status.EndTime = stamp(s.Now)
	s.settle(string(last), why)
	s.next.Do = DoDecide
}

// undo takes Usher's taint away, if it is there, and ends.
func (s *step) undo(last v1alpha1.FenceStep, why string) {
	if s.status.Taint == v1alpha1.TaintByUsher && s.Node != nil && of(s.Fence, s.Node) && s.ownTaint() {
		s.enter(v1alpha1.FenceUntainting)
		s.work(why + ": taking away the taint " + taintName + " that Usher has set")
		s.next.Do = DoUntaint
		return
	}
	s.end(last, why)
}

// ownTaint reports whether the node has the taint as Usher sets it.
func (s *step) ownTaint() bool {
	taint := s.Node.outOfService()
	return taint != nil && taint.Value == v1alpha1.OutOfServiceValue
}

// enter begins a step, unless that is where the fence is.
func (s *step) enter(next v1alpha1.FenceStep) {
	if s.status.Step != next {
		s.status.Step, s.status.StepTime = next, stamp(s.Now)
	}
}

// hold puts the finalizer on, before anything is there that would have to be undone.
func (s *step) hold() bool {
	if slices.Contains(s.Fence.Finalizers, v1alpha1.FenceFinalizer) {
		return false
	}
	s.wait(v1alpha1.FenceBegun, "the fence is begun", time.Time{})
	s.next.Do = DoHold
	return true
}

// answered says why the fence of a node that is there no more, or that has answered, ends before it was tainted; "" while neither is so.
func (s *step) answered() string {
	switch node := s.Node; {
	case node == nil || !of(s.Fence, node):
		return "its Node was deleted"
	case node.BootID != s.Fence.Spec.BootID:
		return "the machine has booted anew"
	case !node.Unreachable():
		return fmt.Sprintf("the node answers: its condition Ready is %s", node.Ready)
	case !sameSilence(s.Fence, node):
		return "the node has answered in between, and is unreachable anew; that is another loss"
	}
	return ""
}

// passed reports whether the bound of a wait that began then is over.
func (s *step) passed(began *metav1.Time, within time.Duration) bool {
	return began != nil && !s.Now.Before(began.Add(within))
}

// stamp is a time as the API keeps it: in whole seconds.
func stamp(t time.Time) *metav1.Time {
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}
