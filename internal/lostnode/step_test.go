package lostnode

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// caseOf is a fence of n1, which is silent, on which nothing was done yet.
func caseOf(fence v1alpha1.Fence, change ...func(*Case)) Case {
	node := lostNode("n1")
	c := Case{Now: noon, Fence: NewFence(&node, "all"), Node: &node, Lease: silentLease(), Policy: policyOf(fence)}
	for _, f := range change {
		f(&c)
	}
	return c
}

func status(change func(*v1alpha1.NodeFenceStatus)) func(*Case) {
	return func(c *Case) { change(&c.Fence.Status) }
}

func look(state v1alpha1.PowerState) func(*Case) {
	return func(c *Case) {
		c.Look = &v1alpha1.FenceObservation{Time: metav1.NewTime(c.Now), State: state, Message: "PowerState"}
	}
}

// called is a fence whose request was sent, with this result, so long ago.
func called(result v1alpha1.RequestResult, ago time.Duration) func(*Case) {
	return func(c *Case) {
		s := &c.Fence.Status
		s.Step, s.Requests, s.RequestResult, s.RequestPolicy = v1alpha1.FenceCalling, 1, result, c.Policy.version()
		s.RequestTime, s.LastRequestTime = at(noon.Add(-ago)), at(noon.Add(-ago))
	}
}

// edited has the policy be of another version than the one by which the request was made.
func edited(c *Case) { c.Policy.Object.Generation++ }

func confirmation(at time.Time) func(*Case) {
	return func(c *Case) {
		c.Fence.Spec.Confirmation = &v1alpha1.FenceConfirmation{Requester: "anna", Time: metav1.NewTime(at)}
	}
}

// proven is a fence with the proof, of a node that is tainted as given.
func proven(taint v1alpha1.TaintOrigin, step v1alpha1.FenceStep, taints ...corev1.Taint) func(*Case) {
	return func(c *Case) {
		s := &c.Fence.Status
		s.Step, s.StepTime, s.ProvenTime, s.ProvenBy, s.Taint = step, at(noon.Add(-time.Minute)), at(noon.Add(-time.Minute)), "its fence", taint
		c.Node.Taints = taints
	}
}

func nodeIs(change func(*Node)) func(*Case) { return func(c *Case) { change(c.Node) } }

func ready(n *Node)   { n.Ready, n.Since = corev1.ConditionTrue, noon.Add(-time.Second) }
func flapped(n *Node) { n.Since = noon.Add(-time.Minute) }
func rebooted(n *Node) {
	n.BootID = "boot-2"
	ready(n)
}

func deleted(c *Case) { c.Fence.DeletionTimestamp = at(noon) }

func left(pods, volumes []string) func(*Case) {
	return func(c *Case) {
		c.Pods, c.Volumes = Remaining{Known: true, Names: pods}, Remaining{Known: true, Names: volumes}
	}
}

func TestStep(t *testing.T) {
	manual, never, idempotent := v1alpha1.Fence{Manual: &v1alpha1.ManualFence{}}, httpFence(v1alpha1.RepeatNever), httpFence(v1alpha1.RepeatIdempotent)
	foreign := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	usher, other := v1alpha1.TaintByUsher, v1alpha1.TaintByOther
	for name, c := range map[string]struct {
		in      Case
		step    v1alpha1.FenceStep
		do      Deed
		says    string
		stalled bool
		proven  bool
	}{
		"held first":                {in: caseOf(never, func(c *Case) { c.Fence.Finalizers = nil }), step: v1alpha1.FenceBegun, do: DoHold, says: "begun"},
		"observed before the call":  {in: caseOf(never), step: "", do: DoObserve},
		"off already":               {in: caseOf(never, look(v1alpha1.PowerOff)), step: v1alpha1.FenceTainting, do: DoDecide, says: "proven off", proven: true},
		"on":                        {in: caseOf(never, look(v1alpha1.PowerOn)), step: v1alpha1.FenceCalling, do: DoCall, says: "asked to go off"},
		"nothing is known of it":    {in: caseOf(never, look(v1alpha1.PowerUnknown)), step: v1alpha1.FenceCalling, do: DoCall, says: "asked to go off"},
		"its zone is silent":        {in: caseOf(never, look(v1alpha1.PowerOn), func(c *Case) { c.Others = []string{"n2"} }), step: v1alpha1.FenceWaitingForZone, says: "broken network", stalled: true},
		"its lease was renewed":     {in: caseOf(never, func(c *Case) { c.Lease.Renewed = noon.Add(-time.Minute) }), step: v1alpha1.FenceWaitingForSilence, says: "renewed 1m0s ago"},
		"its lease is not known":    {in: caseOf(never, func(c *Case) { c.Lease = Lease{Error: "forbidden"} }), step: v1alpha1.FenceWaitingForSilence, says: "forbidden", stalled: true},
		"its policy is gone":        {in: caseOf(never, func(c *Case) { c.Policy = nil }), step: v1alpha1.FenceWaitingForPolicy, says: "policy all is gone", stalled: true},
		"its policy is suspended":   {in: caseOf(never, func(c *Case) { c.Policy.Object.Spec.Suspend = true }), step: v1alpha1.FenceWaitingForPolicy, says: "suspended", stalled: true},
		"a person is to say so":     {in: caseOf(manual), step: v1alpha1.FenceWaitingForConfirmation, says: "usher fence n1 --confirm", stalled: true},
		"a person has":              {in: caseOf(manual, confirmation(noon)), step: v1alpha1.FenceTainting, do: DoDecide, says: "the word of anna", proven: true},
		"without a policy":          {in: caseOf(manual, confirmation(noon), func(c *Case) { c.Policy = nil }), step: v1alpha1.FenceTainting, do: DoDecide, says: "the word of anna", proven: true},
		"while the policy rests":    {in: caseOf(manual, confirmation(noon), func(c *Case) { c.Policy.Object.Spec.Suspend = true }), step: v1alpha1.FenceTainting, do: DoDecide, proven: true},
		"a person errs":             {in: caseOf(manual, confirmation(noon.Add(-12*time.Minute))), step: v1alpha1.FenceWaitingForSilence, says: "after that its Lease was renewed", stalled: true},
		"the word is not checked":   {in: caseOf(manual, confirmation(noon), func(c *Case) { c.Lease = Lease{Error: "forbidden"} }), step: v1alpha1.FenceWaitingForSilence, says: "forbidden", stalled: true},
		"cut off: observed":         {in: caseOf(never, called(v1alpha1.RequestUnknown, time.Minute)), step: v1alpha1.FenceCalling, do: DoObserve},
		"cut off: not sent again":   {in: caseOf(never, called(v1alpha1.RequestUnknown, time.Minute), look(v1alpha1.PowerOn)), step: v1alpha1.FenceWaitingForProof, says: "repeat is Never"},
		"cut off: sent again":       {in: caseOf(idempotent, called(v1alpha1.RequestUnknown, time.Minute), look(v1alpha1.PowerOn)), step: v1alpha1.FenceCalling, do: DoCall},
		"Ironic, cut off":           {in: caseOf(ironicFence, called(v1alpha1.RequestUnknown, time.Minute), look(v1alpha1.PowerOn)), step: v1alpha1.FenceCalling, do: DoCall},
		"Ironic, never off":         {in: caseOf(ironicFence, called(v1alpha1.RequestAccepted, time.Hour), look(v1alpha1.PowerOn)), step: v1alpha1.FenceWaitingForProof, says: "not proven off within 10m0s", stalled: true},
		"Ironic, off at some time":  {in: caseOf(ironicFence, look(v1alpha1.PowerOff)), step: v1alpha1.FenceCalling, do: DoCall},
		"Ironic, off, zone silent":  {in: caseOf(ironicFence, look(v1alpha1.PowerOff), func(c *Case) { c.Others = []string{"n2"} }), step: v1alpha1.FenceWaitingForZone, stalled: true},
		"Ironic, off, cut off":      {in: caseOf(ironicFence, called(v1alpha1.RequestUnknown, time.Minute), look(v1alpha1.PowerOff)), step: v1alpha1.FenceCalling, do: DoCall},
		"Ironic, off, refused":      {in: caseOf(ironicFence, called(v1alpha1.RequestRefused, time.Second), look(v1alpha1.PowerOff)), step: v1alpha1.FenceWaitingForProof, says: "counts once the request is accepted"},
		"Ironic, off, never taken":  {in: caseOf(ironicFence, called(v1alpha1.RequestRefused, time.Hour), look(v1alpha1.PowerOff)), step: v1alpha1.FenceWaitingForProof, says: "counts once the request is accepted", stalled: true},
		"Ironic, off":               {in: caseOf(ironicFence, called(v1alpha1.RequestAccepted, 5*time.Second), look(v1alpha1.PowerOff)), step: v1alpha1.FenceTainting, do: DoDecide, proven: true},
		"Ironic, off by an edit":    {in: caseOf(ironicFence, called(v1alpha1.RequestAccepted, 5*time.Second), edited, look(v1alpha1.PowerOff)), step: v1alpha1.FenceCalling, do: DoCall},
		"Ironic, edited late":       {in: caseOf(ironicFence, called(v1alpha1.RequestAccepted, time.Hour), edited, look(v1alpha1.PowerOn)), step: v1alpha1.FenceCalling, do: DoCall},
		"Ironic, made anew":         {in: caseOf(ironicFence, called(v1alpha1.RequestAccepted, time.Second), func(c *Case) { c.Policy.Object.UID = "2" }, look(v1alpha1.PowerOff)), step: v1alpha1.FenceCalling, do: DoCall},
		"Ironic, edited, crowded":   {in: caseOf(ironicFence, called(v1alpha1.RequestAccepted, time.Second), edited, look(v1alpha1.PowerOff), func(c *Case) { c.Others = []string{"n2"} }), step: v1alpha1.FenceWaitingForZone, stalled: true},
		"edited: not sent again":    {in: caseOf(never, called(v1alpha1.RequestUnknown, time.Minute), edited, look(v1alpha1.PowerOn)), step: v1alpha1.FenceWaitingForProof, says: "repeat is Never"},
		"cut off: not at once":      {in: caseOf(idempotent, called(v1alpha1.RequestUnknown, time.Second), look(v1alpha1.PowerOn)), step: v1alpha1.FenceWaitingForProof, says: "not known"},
		"refused: sent again":       {in: caseOf(never, called(v1alpha1.RequestRefused, time.Minute), look(v1alpha1.PowerOn)), step: v1alpha1.FenceCalling, do: DoCall},
		"not sent: sent again":      {in: caseOf(never, called(v1alpha1.RequestNotSent, time.Minute), look(v1alpha1.PowerUnknown)), step: v1alpha1.FenceCalling, do: DoCall},
		"accepted: waited for":      {in: caseOf(never, called(v1alpha1.RequestAccepted, 5*time.Minute), look(v1alpha1.PowerOn)), step: v1alpha1.FenceWaitingForProof, says: "was accepted"},
		"accepted: sent again":      {in: caseOf(idempotent, called(v1alpha1.RequestAccepted, 5*time.Minute), look(v1alpha1.PowerOn)), step: v1alpha1.FenceCalling, do: DoCall},
		"never off":                 {in: caseOf(idempotent, called(v1alpha1.RequestAccepted, time.Hour), look(v1alpha1.PowerOn)), step: v1alpha1.FenceWaitingForProof, says: "not proven off within 10m0s", stalled: true},
		"off, late":                 {in: caseOf(never, called(v1alpha1.RequestAccepted, time.Hour), look(v1alpha1.PowerOff)), step: v1alpha1.FenceTainting, do: DoDecide, proven: true},
		"back before the proof":     {in: caseOf(never, called(v1alpha1.RequestAccepted, time.Minute), nodeIs(ready)), step: v1alpha1.FenceCancelled, do: DoDecide, says: "may still be carried out"},
		"back, and silent anew":     {in: caseOf(never, nodeIs(flapped)), step: v1alpha1.FenceCancelled, do: DoDecide, says: "another loss"},
		"booted anew":               {in: caseOf(never, nodeIs(rebooted)), step: v1alpha1.FenceCancelled, do: DoDecide, says: "booted anew"},
		"its Node is gone":          {in: caseOf(never, func(c *Case) { c.Node = nil }), step: v1alpha1.FenceCancelled, do: DoDecide, says: "deleted"},
		"its Node is another":       {in: caseOf(never, nodeIs(func(n *Node) { n.UID = "other" })), step: v1alpha1.FenceCancelled, do: DoDecide, says: "deleted"},
		"deleted":                   {in: caseOf(never, deleted), step: v1alpha1.FenceCancelled, do: DoDecide, says: "the fence was deleted"},
		"the taint is set":          {in: caseOf(never, proven("", v1alpha1.FenceTainting)), step: v1alpha1.FenceTainting, do: DoTaint, proven: true},
		"it was about to be":        {in: caseOf(never, proven(usher, v1alpha1.FenceTainting)), step: v1alpha1.FenceTainting, do: DoTaint, proven: true},
		"contradicted by the lease": {in: caseOf(never, proven("", v1alpha1.FenceTainting), func(c *Case) { c.Lease.Renewed = noon }), step: v1alpha1.FenceCancelled, do: DoDecide, says: "renewed its Lease after", proven: true},
		"by the lease, noted":       {in: caseOf(never, proven(usher, v1alpha1.FenceTainting), func(c *Case) { c.Lease.Renewed = noon }), step: v1alpha1.FenceCancelled, do: DoDecide, proven: true},
		"contradicted by the node":  {in: caseOf(never, proven("", v1alpha1.FenceTainting), nodeIs(ready)), step: v1alpha1.FenceCancelled, do: DoDecide, says: "nothing was released", proven: true},
		"lease not known":           {in: caseOf(never, proven("", v1alpha1.FenceTainting), func(c *Case) { c.Lease = Lease{} }), step: v1alpha1.FenceTainting, says: "not known", stalled: true, proven: true},
		"suspended after the proof": {in: caseOf(never, proven("", v1alpha1.FenceTainting), func(c *Case) { c.Policy.Object.Spec.Suspend = true }), step: v1alpha1.FenceTainting, says: "not tainted", stalled: true, proven: true},
		"policy gone after it":      {in: caseOf(never, proven("", v1alpha1.FenceTainting), func(c *Case) { c.Policy = nil }), step: v1alpha1.FenceTainting, do: DoTaint, proven: true},
		"tainted by another":        {in: caseOf(never, proven("", v1alpha1.FenceTainting, foreign)), step: v1alpha1.FenceTainting, do: DoDecide, says: "another client", proven: true},
		"pods are left":             {in: caseOf(never, proven(usher, v1alpha1.FenceTainting, usherTaint), left([]string{"shop/db-0"}, nil)), step: v1alpha1.FenceWaitingForPods, says: "shop/db-0", proven: true},
		"pods are not known":        {in: caseOf(never, proven(usher, v1alpha1.FenceTainting, usherTaint)), step: v1alpha1.FenceWaitingForPods, says: "not known", proven: true},
		"pods stay": {
			in:   caseOf(never, proven(usher, v1alpha1.FenceWaitingForPods, usherTaint), left([]string{"shop/db-0"}, nil), func(c *Case) { c.Now = noon.Add(time.Hour) }),
			step: v1alpha1.FenceWaitingForPods, says: "usher why POD", stalled: true, proven: true,
		},
		"volumes are left":          {in: caseOf(never, proven(usher, v1alpha1.FenceWaitingForPods, usherTaint), left(nil, []string{"pv-1"})), step: v1alpha1.FenceWaitingForVolumes, says: "pv-1", proven: true},
		"nothing is left":           {in: caseOf(never, proven(usher, v1alpha1.FenceWaitingForVolumes, usherTaint), left(nil, nil)), step: v1alpha1.FenceWaitingForNewBoot, says: "free", proven: true},
		"back with its boot":        {in: caseOf(never, proven(usher, v1alpha1.FenceWaitingForNewBoot, usherTaint), nodeIs(ready)), step: v1alpha1.FenceSameBoot, says: "reboot it", stalled: true, proven: true},
		"and silent anew":           {in: caseOf(never, proven(usher, v1alpha1.FenceSameBoot, usherTaint), nodeIs(flapped)), step: v1alpha1.FenceSameBoot, says: "reboot it", stalled: true, proven: true},
		"back with a new boot":      {in: caseOf(never, proven(usher, v1alpha1.FenceSameBoot, usherTaint), nodeIs(rebooted)), step: v1alpha1.FenceUntainting, do: DoUntaint, proven: true},
		"a new boot, silent":        {in: caseOf(never, proven(usher, v1alpha1.FenceWaitingForNewBoot, usherTaint), nodeIs(func(n *Node) { n.BootID = "boot-2" })), step: v1alpha1.FenceUntainting, do: DoUntaint, proven: true},
		"untainted":                 {in: caseOf(never, proven(usher, v1alpha1.FenceUntainting), nodeIs(rebooted)), step: v1alpha1.FenceEnded, do: DoDecide, says: "booted anew", proven: true},
		"another's taint stays":     {in: caseOf(never, proven(other, v1alpha1.FenceWaitingForNewBoot, foreign), nodeIs(rebooted)), step: v1alpha1.FenceEnded, do: DoDecide, proven: true},
		"the value is another's":    {in: caseOf(never, proven(usher, v1alpha1.FenceWaitingForNewBoot, foreign), nodeIs(rebooted)), step: v1alpha1.FenceEnded, do: DoDecide, proven: true},
		"removed by another":        {in: caseOf(never, proven(usher, v1alpha1.FenceWaitingForPods)), step: v1alpha1.FenceEnded, do: DoDecide, says: "another client has removed", proven: true},
		"cleared, its Node deleted": {in: caseOf(never, proven(usher, v1alpha1.FenceWaitingForNewBoot), func(c *Case) { c.Node = nil }), step: v1alpha1.FenceEnded, do: DoDecide, says: "deleted", proven: true},
		"overruled":                 {in: caseOf(never, proven(usher, v1alpha1.FenceSameBoot, usherTaint), nodeIs(ready), deleted), step: v1alpha1.FenceUntainting, do: DoUntaint, says: "was deleted", proven: true},
		"over":                      {in: caseOf(never, status(func(s *v1alpha1.NodeFenceStatus) { s.Step, s.EndTime = v1alpha1.FenceEnded, at(noon) })), step: v1alpha1.FenceEnded, do: DoRelease},
		"kept for a day": {
			in:   caseOf(never, status(func(s *v1alpha1.NodeFenceStatus) { s.Step, s.EndTime = v1alpha1.FenceEnded, at(noon) }), func(c *Case) { c.Fence.Finalizers = nil }),
			step: v1alpha1.FenceEnded,
		},
		"for no longer": {
			in:   caseOf(never, status(func(s *v1alpha1.NodeFenceStatus) { s.Step, s.EndTime = v1alpha1.FenceEnded, at(noon.Add(-kept)) }), func(c *Case) { c.Fence.Finalizers = nil }),
			step: v1alpha1.FenceEnded, do: DoForget,
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := Step(c.in)
			if next.Status.Step != c.step || next.Do != c.do {
				t.Errorf("%s, does %q; want %s, %q", next.Status.Step, next.Do, c.step, c.do)
			}
			if !strings.Contains(message(&next.Status), c.says) {
				t.Errorf("says %q, want %q", message(&next.Status), c.says)
			}
			if stalled := conditionOf(&next.Status, v1alpha1.ConditionStalled) == metav1.ConditionTrue; stalled != c.stalled {
				t.Errorf("stalled %t: %s", stalled, message(&next.Status))
			}
			if (next.Status.ProvenTime != nil) != c.proven {
				t.Errorf("proven %v", next.Status.ProvenTime)
			}
			if next.Do == DoCall && (next.Status.RequestResult != v1alpha1.RequestUnknown || !next.Status.LastRequestTime.Equal(at(noon))) {
				t.Errorf("the request is not written down: %+v", next.Status)
			}
			if next.Do == DoTaint && next.Status.Taint != usher {
				t.Errorf("the taint is not written down: %+v", next.Status)
			}
		})
	}
}

// What is answered in a turn is written down, and looked at again.
func TestStepNotesTheAnswer(t *testing.T) {
	in := caseOf(httpFence(v1alpha1.RepeatNever), called(v1alpha1.RequestUnknown, 0))
	in.Answer = &Answer{Result: v1alpha1.RequestRefused, Message: strings.Repeat("ä", maxMessage)}
	next := Step(in)
	if next.Do != DoNothing || next.Status.RequestResult != v1alpha1.RequestRefused || next.NextLook.Sub(noon) != lookAgain || len(next.Status.RequestMessage) > maxMessage {
		t.Errorf("%+v", next)
	}
	if !strings.Contains(message(&next.Status), "was refused") {
		t.Error(message(&next.Status))
	}
}

func TestProvenOff(t *testing.T) {
	cleared := caseOf(httpFence(v1alpha1.RepeatNever), proven(v1alpha1.TaintByUsher, v1alpha1.FenceWaitingForPods, usherTaint))
	for name, c := range map[string]struct {
		node  func(*Node)
		fence func(*v1alpha1.NodeFence)
		want  bool
	}{
		"off":                 {want: true},
		"ready again":         {node: ready},
		"silent anew":         {node: flapped},
		"booted anew":         {node: func(n *Node) { n.BootID = "boot-2" }},
		"not ready":           {node: func(n *Node) { n.Ready = corev1.ConditionFalse }},
		"another Node":        {node: func(n *Node) { n.UID = "other" }},
		"another's fence":     {fence: func(f *v1alpha1.NodeFence) { f.Spec.NodeName = "n2" }},
		"no proof":            {fence: func(f *v1alpha1.NodeFence) { f.Status.ProvenTime = nil }},
		"proof not looked at": {fence: func(f *v1alpha1.NodeFence) { f.Status.Taint = "" }},
		"over":                {fence: func(f *v1alpha1.NodeFence) { f.Status.Step = v1alpha1.FenceEnded }},
		"overruled":           {fence: func(f *v1alpha1.NodeFence) { f.DeletionTimestamp = at(noon) }},
		"a mere label":        {fence: func(f *v1alpha1.NodeFence) { f.Status = v1alpha1.NodeFenceStatus{} }, node: func(n *Node) { n.Labels = map[string]string{"off": "true"} }},
	} {
		node, fence := *cleared.Node, cleared.Fence.DeepCopy()
		if c.node != nil {
			c.node(&node)
		}
		if c.fence != nil {
			c.fence(fence)
		}
		if got := ProvenOff(&node, []*v1alpha1.NodeFence{fence}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
