package replacement

import (
	"slices"
	"strings"
	"time"
)

// listed blocks unless it is known what the system's list has for the member.
func (s *stepping) listed() {
	switch {
	case !s.asked():
	case s.System.Elsewhere:
		s.block(listElsewhere(s.System.Unread))
	case s.System.Unread != "" || s.System.Left == Unknown:
		s.block(listUnknown(s.System.Unread))
	case s.Progress.Phase != Waiting || s.System.Order == BySteps:
	case s.System.Member == nil:
		s.block(notListed(s.Member.ID))
	case !ownAddresses(s.System.Member.Addresses, s.Member.PodName, s.Namespace):
		s.block(foreignEntry(s.System.Member, s.Member.PodName, s.Namespace))
	}
}

// ownAddresses reports whether all addresses of an entry are those of a pod by their names, as a headless Service gives them: POD.SERVICE.NAMESPACE.svc,
// or of a Service of the pod's name: POD.NAMESPACE.svc. Without the label svc a Service of another namespace, whose name is that of this one, would be taken for
// it. Ids alone are claims: members of several systems have the same. And at an address that goes with the pod no successor would be found.
func ownAddresses(addresses []string, pod, namespace string) bool {
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(address string) bool {
		labels := strings.Split(hostOf(address), ".")
		return labels[0] != pod || namespaceOf(labels) != namespace
	})
}

// namespaceOf is the namespace in the labels of a Service's name, with a pod's before it: the label before svc; "": it is no such name.
func namespaceOf(labels []string) string {
	for _, at := range []int{3, 2} { // a namespace may be called svc itself
		if len(labels) > at && labels[at] == "svc" {
			return labels[at-1]
		}
	}
	return ""
}

// asked reports whether what the system's list has decides what is done next.
func (s *stepping) asked() bool {
	return s.System.Order != "" && (s.System.Order != BySteps || s.Progress.Phase != Removing || s.leavesBySteps())
}

// leavesBySteps reports whether the predecessor is still to leave by the policy's steps. They are not asked for once a pod that may be its
// successor is on a node: they would take that one off, which has its id.
func (s *stepping) leavesBySteps() bool {
	return s.System.Order == BySteps && s.Progress.LeftTime.IsZero() && (!s.successor() || s.Pod.Node.Name == "")
}

// leave has the predecessor leave its system's list by the policy's steps, and notes that it has.
func (s *stepping) leave() {
	if s.System.Left != Yes {
		s.act(Action{Kind: Leave, Registration: s.Progress.Registration})
		return
	}
	next := s.Progress
	next.LeftTime = s.Now
	s.act(Action{Kind: Write, Progress: next})
}

// hasLeftBySteps reports whether the predecessor is off its system's list by the policy's steps, and that is still to be written down: whatever holds by now.
func (s *stepping) hasLeftBySteps() bool {
	if !s.leavesBySteps() || s.System.Left != Yes || s.Cancelled {
		return false
	}
	if s.permitted() {
		s.leave()
	}
	return true
}

// stepsStay says what is not taken back where a request is deleted while its member leaves.
func (s *stepping) stepsStay() {
	if s.Cancelled && s.leavesBySteps() {
		s.block(leaveStays(s.Member.ID))
	}
}

// expelled reports whether the predecessor is off its system's list, so that whatever comes back of it is no member.
func (s *stepping) expelled() bool { return s.leavesFirst() && s.System.Left == Yes }

// hostOf returns the host of a URL, "" where it has none. Of an IPv6 address it is no name.
func hostOf(address string) string {
	_, host, _ := strings.Cut(address, "://")
	if at := strings.IndexAny(host, ":/"); at >= 0 {
		host = host[:at]
	}
	return host
}

// leavesFirst reports whether the predecessor leaves its system's list before anything else of it goes.
func (s *stepping) leavesFirst() bool { return s.System.Order == LeavesFirst }

// takeOver gives the successor its part in its system's list, and has the predecessor leave that where it has not yet.
func (s *stepping) takeOver() {
	switch last := s.System.Order == LeavesLast; {
	case s.System.Order == "":
	case last && s.System.Joined == No:
		s.block(notJoined(s.Member.ID))
	case last && s.System.Joined == Yes && s.System.Left == No:
		s.act(Action{Kind: Leave, Registration: s.Progress.Registration})
	case s.System.Order == BySteps && !s.Pod.Ready:
	case !last && s.System.Joined == No:
		s.act(Action{Kind: Join, Registration: s.Progress.Registration})
	}
}

// withdraw takes a successor that never comes off its system's list again.
func (s *stepping) withdraw() {
	switch {
	case s.System.Order != "" && s.System.Order != BySteps && s.System.Joined == Unknown && !s.forsaken():
		s.block(listUnknown(s.System.Unread))
	case s.leavesFirst() && s.System.Successor != nil:
		s.act(Action{Kind: Leave, Registration: s.System.Successor})
	default:
		s.write(Cancelled)
	}
}

// forsakenAfter is how long a system is waited for that is not to make a successor any more: it may be gone as a whole.
const forsakenAfter = 10 * time.Minute

// forsaken reports whether a request was deleted whose set makes no successor, or for whose system another one answers, and whose list is not known for long.
func (s *stepping) forsaken() bool {
	if s.StepTime.IsZero() || !s.Cancelled || s.Set.Makes != No && !s.System.Elsewhere || !s.asked() || s.System.Left != Unknown {
		return false
	}
	end := s.StepTime.Add(forsakenAfter)
	if end.After(s.Now) {
		s.lookAt(end)
		return false
	}
	return true
}
