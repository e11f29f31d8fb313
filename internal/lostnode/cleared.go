package lostnode

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

const taintName = corev1.TaintNodeOutOfService

// proven is a fence whose machine is off, and whose node is not tainted. What contradicts the proof until then ends the fence: nothing
// was released.
func (s *step) proven() {
	if why := s.answered(); why != "" {
		s.end(v1alpha1.FenceCancelled, why+", although the machine was proven off by "+s.status.ProvenBy+": nothing was released")
		return
	}
	if _, known := s.Lease.silence(s.Now); !known {
		s.stall(v1alpha1.FenceTainting, "whether the node's Lease was renewed after the proof is not known: "+cmp.Or(s.Lease.Error, "it was not read yet"), lookAgain)
		return
	}
	if s.Lease.Renewed.After(s.status.ProvenTime.Time) {
		s.end(v1alpha1.FenceCancelled, "the node has renewed its Lease after it was proven off by "+s.status.ProvenBy+": that was wrong, and nothing was released")
		return
	}
	if p := s.Policy; p != nil && p.Object.Spec.Suspend && s.Fence.Spec.Confirmation == nil {
		s.stall(v1alpha1.FenceTainting, "the machine is proven off, and the node is not tainted: "+p.unusable(), lookLate)
		return
	}
	if s.Node.outOfService() != nil {
		s.status.Taint = v1alpha1.TaintByOther
		s.next.Do = DoDecide
		s.work("the machine is proven off; another client has tainted the node with " + taintName)
		return
	}
	s.status.Taint = v1alpha1.TaintByUsher
	s.taint()
}

func (s *step) taint() {
	s.enter(v1alpha1.FenceTainting)
	s.work("the machine is proven off; tainting the node with " + taintName)
	s.next.Do = DoTaint
}

// tainted is a fence of a node whose taint was set, or is about to be.
func (s *step) tainted() {
	node := s.Node
	switch {
	case node == nil || !of(s.Fence, node):
		s.end(v1alpha1.FenceEnded, "its Node was deleted")
	case node.BootID != s.Fence.Spec.BootID:
		s.undo(v1alpha1.FenceEnded, "the machine has booted anew")
	case node.outOfService() == nil && s.untouched():
		s.aboutToTaint()
	case node.outOfService() == nil:
		s.end(v1alpha1.FenceEnded, "another client has removed the taint "+taintName)
	case !sameSilence(s.Fence, node):
		s.sameBoot()
	default:
		s.release()
	}
}

// untouched reports whether the taint was never seen on the node.
func (s *step) untouched() bool {
	return s.status.Taint == v1alpha1.TaintByUsher && s.status.Step == v1alpha1.FenceTainting
}

// aboutToTaint looks once more: between the note and the write a process may have been killed, for any time.
func (s *step) aboutToTaint() {
	s.status.Taint = ""
	s.proven()
}

// sameBoot is a node that answers, or has answered, although it was proven off: its pods may run twice now.
func (s *step) sameBoot() {
	s.stall(v1alpha1.FenceSameBoot, fmt.Sprintf("the node has answered with the boot that was proven off by %s: either the proof was wrong or its power was never cut, "+
		"and what ran on it may run elsewhere as well. It stays tainted until it boots anew: reboot it; to overrule that: kubectl delete nodefence %s",
		s.status.ProvenBy, s.Fence.Name), 0)
}

// release waits until nothing of the node is left.
func (s *step) release() {
	if s.status.ClearedTime != nil {
		s.cleared()
		return
	}
	const pods, volumes = "pods that are still bound to the node", "volumes that are still attached to it"
	why := "; usher why POD says what keeps a pod, and kubectl get events -A what Kubernetes does about it"
	if !s.left(v1alpha1.FenceWaitingForPods, pods, why, s.Pods) {
		return
	}
	why = "; look at the driver's controller, which detaches them: kubectl get volumeattachments"
	if !s.left(v1alpha1.FenceWaitingForVolumes, volumes, why, s.Volumes) {
		return
	}
	s.status.ClearedTime = stamp(s.Now)
	s.cleared()
}

// left reports whether nothing remains.
func (s *step) left(at v1alpha1.FenceStep, what, remedy string, remaining Remaining) bool {
	if remaining.Known && len(remaining.Names) == 0 {
		return true
	}
	s.enter(at)
	text := fmt.Sprintf("the machine is off and the node tainted; waiting for %s (%d): %s", what, len(remaining.Names), listed(remaining.Names))
	if !remaining.Known {
		text = "the machine is off and the node tainted; which " + what + " is not known: " + cmp.Or(remaining.Error, "they were not looked at yet")
	}
	if s.passed(s.status.StepTime, clearWithin) {
		s.stall(at, text+fmt.Sprintf("; they took longer than %s", clearWithin)+remedy, lookLate)
		return false
	}
	s.wait(at, text, s.Now.Add(lookAgain))
	return false
}

func (s *step) cleared() {
	s.enter(v1alpha1.FenceWaitingForNewBoot)
	s.settle("Cleared", "the machine is off, and its pods and volumes are free; the node stays tainted until the machine has booted anew or its Node is deleted")
	s.next.NextLook = time.Time{}
}
