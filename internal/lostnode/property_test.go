package lostnode

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
)

// world is one node with its machine, what controls its power, and a manager that is killed at any instruction. The apiserver's view of the
// node lags behind the machine as Kubernetes' does.
type world struct {
	t   *rapid.T
	now time.Time

	// The machine.
	powered, partitioned bool
	boot                 int
	offAt                time.Time // power goes then; zero: it was not asked to
	// What controls its power.
	lies  bool // it says Off whatever is true
	lied  bool // it has said so of a machine that ran, since the fence was begun: what was proven stays written down
	hangs bool // it does not answer
	takes time.Duration
	got   int // requests of this fence that were received
	// read is what it says where it repeats what it has read last: it reads for a request, and else by trouble.
	read v1alpha1.PowerState

	// The apiserver.
	node       Node
	renewed    time.Time
	answers    time.Time // since when its Lease is renewed; its condition follows
	seen       Lease     // by the manager
	fence      *v1alpha1.NodeFence
	policy     *Policy
	pods       []string
	volumes    []string
	overruled  bool
	released   bool // the taint was set: pods may start elsewhere
	killedNext int  // how many writes and calls the manager survives; negative: all
}

func newWorld(t *rapid.T) *world {
	fence := rapid.SampledFrom([]v1alpha1.Fence{httpFence(v1alpha1.RepeatNever), httpFence(v1alpha1.RepeatIdempotent), ironicFence}).Draw(t, "fence")
	w := &world{
		t: t, now: noon, powered: true, boot: 1, policy: policyOf(fence), read: v1alpha1.PowerOn, pods: []string{"shop/db-0"}, volumes: []string{"pv-0"}, killedNext: -1,
		takes: time.Duration(rapid.IntRange(0, 900).Draw(t, "takes")) * time.Second,
	}
	w.node = Node{Name: "n1", UID: "uid-n1", BootID: "boot-1", Ready: corev1.ConditionTrue, Since: noon.Add(-time.Hour), ResourceVersion: "1"}
	w.renewed = noon
	return w
}

// repeats reports whether what controls the power says what it has read last.
func (w *world) repeats() bool { return w.policy.Object.Spec.Fence.Ironic != nil }

func (w *world) bootID() string { return fmt.Sprintf("boot-%d", w.boot) }

// alive reports whether the boot of which the node's object speaks still runs.
func (w *world) alive() bool { return w.powered && w.node.BootID == w.bootID() }

func (w *world) touch(change func(*Node)) {
	before := w.node
	change(&w.node)
	if before.Ready != w.node.Ready || before.BootID != w.node.BootID || len(before.Taints) != len(w.node.Taints) {
		w.node.ResourceVersion += "1"
	}
}

// pass lets time go by: the machine, its kubelet and Kubernetes' controller of nodes.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(5 * time.Second) {
		if !w.offAt.IsZero() && !w.now.Before(w.offAt) {
			w.powered, w.offAt, w.read = false, time.Time{}, v1alpha1.PowerOff
		}
		switch {
		case w.powered && !w.partitioned:
			if w.now.Sub(w.renewed) > 10*time.Second {
				w.answers = w.now
			}
			if w.renewed = w.now; w.now.Sub(w.answers) < 20*time.Second {
				continue
			}
			w.touch(func(n *Node) {
				if n.BootID = w.bootID(); n.Ready != corev1.ConditionTrue {
					n.Ready, n.Since = corev1.ConditionTrue, w.now
				}
			})
		case w.now.Sub(w.renewed) > 40*time.Second && w.node.Ready == corev1.ConditionTrue:
			w.touch(func(n *Node) { n.Ready, n.Since = corev1.ConditionUnknown, w.now })
		}
	}
}

// survives reports whether the manager lives on.
func (w *world) survives() bool {
	if w.killedNext == 0 {
		w.killedNext = -1
		return false
	}
	w.killedNext--
	return true
}

// manage is a turn of both controllers, until the manager is killed or has nothing to do.
func (w *world) manage() {
	lease := Lease{Known: true, Renewed: w.renewed}
	w.seen = lease
	var fences []*v1alpha1.NodeFence
	if w.fence != nil {
		fences = append(fences, w.fence)
	}
	plan := Begin(Survey{Now: w.now, Nodes: []Node{w.node}, Policies: []Policy{*w.policy}, Fences: fences, Leases: map[string]Lease{"n1": lease}})
	for _, begun := range plan.Begin {
		if w.now.Sub(w.renewed) < 5*time.Minute {
			w.t.Fatalf("a node that is not silent is fenced: its Lease was renewed %s ago", w.now.Sub(w.renewed))
		}
		if w.survives() && (w.fence == nil || w.fence.Status.Over()) {
			w.fence, w.got, w.overruled, w.lied = begun, 0, false, false
		}
	}
	w.follow(lease)
}

func (w *world) follow(lease Lease) {
	var look *v1alpha1.FenceObservation
	var answer *Answer
	for turn := 0; w.fence != nil; turn++ {
		if turn > 12 {
			w.t.Fatalf("the fence takes no rest: %+v", w.fence.Status)
		}
		in := Case{Now: w.now, Fence: w.fence, Node: new(w.node), Lease: lease, Policy: w.policy, Look: look, Answer: answer}
		if NeedsClearing(w.fence) {
			in.Pods, in.Volumes = Remaining{Known: true, Names: w.pods}, Remaining{Known: true, Names: w.volumes}
		}
		look, answer = nil, nil
		next := Step(in)
		if !w.survives() {
			return
		}
		w.fence.Status = next.Status
		w.named(&next)
		if !w.survives() {
			return
		}
		switch next.Do {
		case DoObserve:
			look = w.observe()
		case DoCall:
			if answer = w.call(); !w.survives() {
				return
			}
		case DoTaint:
			w.taint(in.Node)
			return
		case DoUntaint:
			w.untaint(in.Node)
			return
		case DoRelease:
			w.fence.Finalizers = nil
			if w.fence.DeletionTimestamp != nil {
				w.fence = nil
			}
			return
		case DoForget:
			w.fence = nil
			return
		case DoHold, DoDecide:
		case DoNothing:
			return
		}
	}
}

// named: every step has words, and one that waits has a moment to look again, or an event that it waits for.
func (w *world) named(next *Next) {
	if next.Do == DoObserve && next.Status.Step == "" {
		return
	}
	if message(&next.Status) == "" || next.Status.Step == "" {
		w.t.Fatalf("nothing is said: %+v", next)
	}
	byEvent := []v1alpha1.FenceStep{v1alpha1.FenceWaitingForNewBoot, v1alpha1.FenceSameBoot, v1alpha1.FenceWaitingForConfirmation}
	if next.Do == DoNothing && next.NextLook.IsZero() && !slices.Contains(byEvent, next.Status.Step) && !next.Status.Over() {
		w.t.Fatalf("%s is never looked at again", next.Status.Step)
	}
	if r := next.Status.RequestTime; r != nil && next.Do == DoNothing && next.Status.Step == v1alpha1.FenceWaitingForProof && w.now.Sub(r.Time) > 10*time.Minute+time.Second &&
		conditionOf(&next.Status, v1alpha1.ConditionStalled) != metav1.ConditionTrue {
		w.t.Fatalf("the wait has no bound: %s", message(&next.Status))
	}
}

func (w *world) observe() *v1alpha1.FenceObservation {
	state := v1alpha1.PowerOn
	switch {
	case w.hangs:
		state = v1alpha1.PowerUnknown
	case w.lies:
		state = v1alpha1.PowerOff
		w.lied = w.lied || w.alive()
	case w.repeats() && !w.offAt.IsZero():
		state = v1alpha1.PowerUnknown
	case w.repeats():
		state = w.read
	case !w.powered:
		state = v1alpha1.PowerOff
	}
	return &v1alpha1.FenceObservation{Time: *stamp(w.now), State: state, Message: string(state)}
}

// call may be received whatever is answered.
func (w *world) call() *Answer {
	if http := w.policy.Object.Spec.Fence.HTTP; http != nil && http.Repeat == v1alpha1.RepeatNever && w.got > 0 {
		w.t.Fatal("a request that may have been received was sent again")
	}
	switch rapid.SampledFrom([]string{"taken", "refused", "lost before", "lost after"}).Draw(w.t, "call") {
	case "refused":
		return &Answer{Result: v1alpha1.RequestRefused}
	case "lost before":
		return &Answer{Result: v1alpha1.RequestNotSent}
	case "lost after":
		w.receive()
		return &Answer{Result: v1alpha1.RequestUnknown}
	}
	w.receive()
	return &Answer{Result: v1alpha1.RequestAccepted}
}

func (w *world) receive() {
	w.got++
	if w.powered && w.offAt.IsZero() {
		w.offAt = w.now.Add(w.takes)
	}
	if !w.powered {
		w.read = v1alpha1.PowerOff
	}
}

func (w *world) taint(seen *Node) {
	if rapid.IntRange(0, 3).Draw(w.t, "late") == 0 {
		w.pass(15 * time.Second) // the write takes its time
	}
	if seen.ResourceVersion != w.node.ResourceVersion {
		return // a conflict
	}
	if !w.lied && w.alive() {
		w.t.Fatalf("a machine that runs is released: %+v", w.fence.Status)
	}
	if w.node.Ready != corev1.ConditionUnknown || w.fence.Status.ProvenTime == nil || w.seen.Renewed.After(w.fence.Status.ProvenTime.Time) {
		w.t.Fatalf("released against what the node shows: %+v", w.fence.Status)
	}
	w.released = true
	w.touch(func(n *Node) { n.Taints = append(n.Taints, usherTaint) })
}

func (w *world) untaint(seen *Node) {
	if seen.ResourceVersion != w.node.ResourceVersion {
		return
	}
	if !w.overruled && w.node.BootID == w.fence.Spec.BootID {
		w.t.Fatalf("a node is trusted in the boot that was proven off: %+v", w.fence.Status)
	}
	w.touch(func(n *Node) { n.Taints = nil })
}

// trouble is one thing that happens beside the manager.
func (w *world) trouble() {
	switch rapid.SampledFrom([]string{"partition", "heal", "power", "boot", "read", "lie", "hang", "kill", "clear", "suspend", "word", "overrule", "none"}).Draw(w.t, "trouble") {
	case "partition":
		w.partitioned = true
	case "heal":
		w.partitioned = false
	case "power":
		w.powered = false
	case "boot":
		if !w.powered {
			w.powered, w.boot = true, w.boot+1
		}
	case "read":
		w.read = map[bool]v1alpha1.PowerState{true: v1alpha1.PowerOn, false: v1alpha1.PowerOff}[w.powered]
	case "lie":
		w.lies = rapid.Bool().Draw(w.t, "lies")
	case "hang":
		w.hangs = rapid.Bool().Draw(w.t, "hangs")
	case "kill":
		w.killedNext = rapid.IntRange(0, 8).Draw(w.t, "kill")
	case "clear":
		if w.released {
			w.pods, w.volumes = nil, nil
		}
	case "suspend":
		w.policy.Object.Spec.Suspend = rapid.Bool().Draw(w.t, "suspend")
	case "word":
		if w.fence != nil && w.fence.Spec.Confirmation == nil && !w.alive() && w.node.Ready == corev1.ConditionUnknown {
			w.fence.Spec.Confirmation = &v1alpha1.FenceConfirmation{Requester: "anna", Time: *stamp(w.now)}
		}
	case "overrule":
		if w.fence != nil && w.fence.DeletionTimestamp == nil {
			w.fence.DeletionTimestamp, w.overruled = stamp(w.now), true
			if len(w.fence.Finalizers) == 0 {
				w.fence = nil
			}
		}
	}
}

// Whatever lies, hangs, answers late or is killed: no machine that runs is released, unless what controls its power lies; no request that
// may have been received is sent again unless that is declared; no node is trusted in the boot that was proven off; and once everything is
// well again nothing of Usher's is left on the node.
func TestHistoriesOfLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			w.trouble()
			w.pass(time.Duration(rapid.SampledFrom([]int{0, 5, 20, 60, 360}).Draw(t, "pass")) * time.Second)
			w.manage()
		}
		w.lies, w.hangs, w.partitioned, w.killedNext, w.policy.Object.Spec.Suspend, w.offAt = false, false, false, -1, false, time.Time{}
		w.powered, w.boot = true, w.boot+1
		for range 20 {
			w.pass(time.Minute)
			w.manage()
		}
		if len(w.node.Taints) > 0 || w.fence != nil && !w.fence.Status.Over() {
			t.Fatalf("taints %v, fence %+v", w.node.Taints, w.fence)
		}
	})
}

// A machine that stays off is cleared, whenever the manager is killed.
func TestALossEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.partitioned = true
		w.takes = 0
		w.pass(7 * time.Minute)
		for range rapid.IntRange(0, 5).Draw(t, "kills") {
			w.killedNext = rapid.IntRange(0, 10).Draw(t, "kill")
			w.manage()
			w.pass(20 * time.Second)
		}
		w.killedNext = -1
		for range 60 {
			w.manage()
			w.pass(20 * time.Second)
			if w.released {
				w.pods, w.volumes = nil, nil
			}
		}
		s := &w.fence.Status
		if s.ClearedTime == nil && conditionOf(s, v1alpha1.ConditionStalled) != metav1.ConditionTrue {
			t.Fatalf("neither cleared nor stalled: %s: %s", s.Step, message(s))
		}
		if s.ClearedTime == nil && w.got > 0 && (!w.repeats() || s.RequestResult == v1alpha1.RequestAccepted) {
			t.Fatalf("it is off, and not cleared: %s: %s", s.Step, message(s))
		}
	})
}
