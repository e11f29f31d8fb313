package lostnode

import (
	"cmp"
	"fmt"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// unproven is a fence of a machine that may still run.
func (s *step) unproven() {
	if why := s.answered(); why != "" {
		s.end(v1alpha1.FenceCancelled, why+s.mayHaveBeenCalled())
		return
	}
	if s.hold() {
		return
	}
	if word := s.Fence.Spec.Confirmation; word != nil {
		s.confirmed(word)
		return
	}
	if why := s.policyMissing(); why != "" {
		s.stall(v1alpha1.FenceWaitingForPolicy, why, lookLate)
		return
	}
	if !s.silent(s.Now.Add(-s.Policy.window())) {
		return
	}
	means, called := meansOf(&s.Policy.Object.Spec.Fence)
	if !called {
		s.stall(v1alpha1.FenceWaitingForConfirmation, "waiting for a person to say that the machine is off; make sure that it is, then: usher fence "+
			s.Fence.Spec.NodeName+" --confirm", 0)
		return
	}
	s.byCall(means)
}

// means is what is decided by of a fence that is called for.
type means struct {
	idempotent bool // the request may be sent again where it may have been received
	within     time.Duration
	// repeats: what is observed is what was read last, however long ago. A request that is accepted has it read anew.
	repeats bool
}

// meansOf returns false for a fence that waits for a person.
func meansOf(fence *v1alpha1.Fence) (means, bool) {
	switch {
	case fence.HTTP != nil:
		return means{idempotent: fence.HTTP.Repeat == v1alpha1.RepeatIdempotent, within: fence.HTTP.ProvenWithin.Duration}, true
	case fence.Ironic != nil:
		return means{idempotent: true, within: fence.Ironic.ProvenWithin.Duration, repeats: true}, true
	}
	return means{}, false
}

// mayHaveBeenCalled is added to the end of a fence whose request may be carried out yet: it cannot be called back.
func (s *step) mayHaveBeenCalled() string {
	if r := s.status.RequestResult; r == v1alpha1.RequestUnknown || r == v1alpha1.RequestAccepted {
		return "; the request to turn it off was sent before, and may still be carried out"
	}
	return ""
}

func (s *step) policyMissing() string {
	if s.Policy == nil {
		return fmt.Sprintf("policy %s is gone; make it anew, confirm that the machine is off (usher fence %s --confirm), or delete the fence", s.Fence.Spec.Policy, s.Fence.Spec.NodeName)
	}
	return s.Policy.unusable()
}

// silent reports whether the node's Lease was not renewed since then; where it was, or that is not known, nothing goes on.
func (s *step) silent(since time.Time) bool {
	silence, known := s.Lease.silence(s.Now)
	switch {
	case !known:
		s.stall(v1alpha1.FenceWaitingForSilence, "whether the node's Lease is renewed is not known: "+cmp.Or(s.Lease.Error, "it was not read yet"), lookAgain)
		return false
	case silence < s.Now.Sub(since):
		s.wait(v1alpha1.FenceWaitingForSilence, renewed(s.Fence.Spec.NodeName, silence), s.Now.Add(lookLate))
		return false
	}
	return true
}

// confirmed takes a person's word, unless the node has renewed its Lease after it.
func (s *step) confirmed(word *v1alpha1.FenceConfirmation) {
	silence, known := s.Lease.silence(s.Now)
	switch {
	case !known:
		s.stall(v1alpha1.FenceWaitingForSilence, "whether the node's Lease is renewed is not known: "+cmp.Or(s.Lease.Error, "it was not read yet"), lookAgain)
	case !s.Lease.Renewed.IsZero() && s.Lease.Renewed.After(word.Time.Time):
		s.stall(v1alpha1.FenceWaitingForSilence, fmt.Sprintf("%s said that the machine is off, and after that %s. If the machine is off and its clock was wrong: kubectl delete lease -n kube-node-lease %s; "+
			"if it is not: kubectl delete nodefence %s", word.Requester, renewed(s.Fence.Spec.NodeName, silence), s.Fence.Spec.NodeName, s.Fence.Name), lookLate)
	default:
		s.prove("the word of " + word.Requester)
	}
}

// prove writes the proof down. What follows is decided on what is written.
func (s *step) prove(by string) {
	s.enter(v1alpha1.FenceTainting)
	s.status.ProvenTime, s.status.ProvenBy = stamp(s.Now), brief(by)
	s.work("the machine is proven off by " + by)
	s.next.Do = DoDecide
}

// byCall observes before it asks for anything: the machine may be off, and a request that was cut off may have been carried out.
func (s *step) byCall(fence means) {
	switch {
	case s.Answer != nil:
		s.waitForProof(fence)
		s.next.NextLook = s.Now.Add(lookAgain)
	case s.Look == nil && s.lookDue(fence):
		s.next.Do = DoObserve
	case s.Look == nil:
		s.waitForProof(fence)
	case s.Look.State == v1alpha1.PowerOff && s.current(fence):
		s.prove("its fence: " + s.Look.Message)
	case s.mayCall(fence):
		s.call(fence)
	default:
		s.waitForProof(fence)
	}
}

// current reports whether what is observed was read after the node had fallen silent.
func (s *step) current(fence means) bool {
	return !fence.repeats || s.status.RequestResult == v1alpha1.RequestAccepted && !s.unasked(fence)
}

// unasked reports whether the machine was not asked to go off: nothing was sent, or by another version of the policy, which may have meant another machine. A
// request that must not be sent twice counts for all versions.
func (s *step) unasked(fence means) bool {
	return s.status.RequestTime == nil || fence.repeats && s.status.RequestPolicy != s.Policy.version()
}

// lookDue: whatever wakes the fence, the machine is not asked again at once, and once the bound has passed only now and then. A time in
// the future, from a clock that was set back, keeps nothing waiting.
func (s *step) lookDue(fence means) bool {
	last := s.Fence.Status.Observation
	if last == nil || s.Now.Before(last.Time.Time) {
		return true
	}
	wait := lookAgain - time.Second // times are kept in whole seconds
	if s.late(fence) != "" {
		wait = lookLate - time.Second
	}
	return s.Now.Sub(last.Time.Time) >= wait
}

// late says that the bound of the proof has passed.
func (s *step) late(fence means) string {
	within := max(time.Minute, fence.within)
	if s.unasked(fence) || !s.passed(s.status.RequestTime, within) {
		return ""
	}
	return fmt.Sprintf("the machine was not proven off within %s (provenWithin)", within)
}

// mayCall reports whether the request may be sent, first or again.
func (s *step) mayCall(fence means) bool {
	if s.unasked(fence) {
		return len(s.Others) < s.Policy.mostPerZone()
	}
	if s.late(fence) != "" {
		return false
	}
	switch s.status.RequestResult {
	case v1alpha1.RequestNotSent, v1alpha1.RequestRefused:
		return s.passed(s.status.LastRequestTime, askRefused)
	case v1alpha1.RequestUnknown:
		return fence.idempotent && s.passed(s.status.LastRequestTime, askRefused)
	case v1alpha1.RequestAccepted:
		return fence.idempotent && s.passed(s.status.LastRequestTime, askAccepted)
	}
	return false
}

// call writes down that the request is sent, before it is: what has no answer after that is unknown.
func (s *step) call(fence means) {
	s.enter(v1alpha1.FenceCalling)
	now := stamp(s.Now)
	if s.unasked(fence) {
		s.status.RequestTime = now
	}
	s.status.RequestPolicy = s.Policy.version()
	s.status.LastRequestTime, s.status.RequestResult, s.status.RequestMessage = now, v1alpha1.RequestUnknown, ""
	s.status.Requests++
	s.work("the machine is being asked to go off")
	s.next.Do = DoCall
}

// waitForProof says what is waited for, and what became of the request.
func (s *step) waitForProof(fence means) {
	if s.unasked(fence) && len(s.Others) >= s.Policy.mostPerZone() {
		crowd := append([]string{s.Fence.Spec.NodeName}, s.Others...)
		s.stall(v1alpha1.FenceWaitingForZone, crowded(s.status.Zone, crowd, s.Policy.mostPerZone()), lookLate)
		return
	}
	text := "waiting for the proof that the machine is off; " + s.seen() + s.asked(fence)
	if look := s.status.Observation; look != nil && look.State == v1alpha1.PowerOff && !s.current(fence) {
		text += "; what was observed may have been read long ago, and counts once the request is accepted"
	}
	if late := s.late(fence); late != "" {
		s.stall(v1alpha1.FenceWaitingForProof, late+": "+text+". Nothing with a disk goes anywhere before. If it is certainly off: usher fence "+
			s.Fence.Spec.NodeName+" --confirm", lookLate)
		return
	}
	s.wait(v1alpha1.FenceWaitingForProof, text, s.Now.Add(lookAgain))
}

func (s *step) seen() string {
	if s.status.Observation == nil {
		return "it was not observed yet"
	}
	return fmt.Sprintf("observed %s: %s", s.status.Observation.State, s.status.Observation.Message)
}

// asked says what became of the request.
func (s *step) asked(fence means) string {
	switch s.status.RequestResult {
	case v1alpha1.RequestAccepted:
		return "; the request to turn it off was accepted"
	case v1alpha1.RequestRefused:
		return "; the request to turn it off was refused: " + s.status.RequestMessage
	case v1alpha1.RequestNotSent:
		return "; the request to turn it off could not be sent: " + s.status.RequestMessage
	case v1alpha1.RequestUnknown:
		text := "; whether the request to turn it off was received is not known"
		if s.status.RequestMessage != "" {
			text += " (" + s.status.RequestMessage + ")"
		}
		if !fence.idempotent {
			text += ", and repeat is Never, so it is not sent again"
		}
		return text
	}
	return ""
}
