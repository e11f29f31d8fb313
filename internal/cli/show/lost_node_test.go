package show

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// evacuation is a step for the hypervisor of a lost node.
func evacuation() drain.Blocker {
	return drain.Blocker{
		Reason: "PreparationPending", Node: "node-7", Since: noon.Add(-8 * time.Minute), Remedy: "wait until it is done, or do what it says",
		Message: "EvacuateServers for nova-compute node-7 of policy openstack/cloud, for its lost node: 3 of 5 left",
	}
}

const finished = "MoveRouters for neutron-l3-agent node-7 of policy openstack/cloud, for its lost node: done; it stands until the node answers again"

// Of a node it is said what its fence waits for, what is done for its members, and in which order they leave it.
func TestLostNodeLines(t *testing.T) {
	fence := &v1alpha1.NodeFence{ObjectMeta: metav1.ObjectMeta{Name: "node-7-x"}}
	fence.Status.Step, fence.Status.ProvenBy = v1alpha1.FenceWaitingForNewBoot, "policy racks"
	proven := metav1.NewTime(noon.Add(-9 * time.Minute))
	fence.Status.ProvenTime, fence.Status.ClearedTime = &proven, &proven
	fence.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Message: "the node is cleared"}}
	dead := LostNode{Name: "node-7", Ready: corev1.ConditionUnknown, Since: noon.Add(-12 * time.Minute), Fence: fence, Now: noon}
	with := func(change func(*LostNode)) LostNode {
		n := dead
		change(&n)
		return n
	}
	const head = "node node-7: Ready is Unknown since 12m\nfence node-7-x, WaitingForNewBoot: the node is cleared\nproven off 9m ago by policy racks\n"
	for name, c := range map[string]struct {
		node  LostNode
		width int
		want  string
		waits bool
	}{
		"nothing is done": {dead, 0, head, false},
		"steps": {with(func(n *LostNode) { n.Steps, n.Done = []drain.Blocker{evacuation()}, []string{finished} }), 0, head + `waits  node node-7
       PreparationPending: EvacuateServers for nova-compute node-7 of policy openstack/cloud, for its lost node: 3 of 5 left (for 8m)
       remedy: wait until it is done, or do what it says
done   ` + finished + "\n", true},
		"all are done": {with(func(n *LostNode) { n.Done = []string{finished} }), 0, head + "done   " + finished + "\n", false},
		"narrow": {with(func(n *LostNode) { n.Steps, n.Done = []drain.Blocker{evacuation()}, []string{finished} }), 40, `node node-7: Ready is Unknown since 12m
fence node-7-x, WaitingForNewBoot: the
node is cleared
proven off 9m ago by policy racks
waits  node node-7
       PreparationPending:
       EvacuateServers for nova-compute
       node-7 of policy openstack/cloud,
       for its lost node: 3 of 5 left
       (for 8m)
       remedy: wait until it is done, or
       do what it says
done   MoveRouters for neutron-l3-agent
       node-7 of policy openstack/cloud,
       for its lost node: done; it
       stands until the node answers
       again
`, true},
		"policies cannot be read": {with(func(n *LostNode) { n.Unread = "reading policies: forbidden" }), 0, head + "reading policies: forbidden\n", false},
		"an order": {LostNode{Name: "node-7", Ready: corev1.ConditionTrue, Now: noon, Orders: hypervisorOrder()[:1:1]}, 0, `node node-7: Ready is True
it is not lost: no fence is under way

Order of roles
  policy openstack/cloud: what is below a role leaves before it
  ovs: ovs-x2x7l
  ├─ l2: l2-x2x7l
  │  ├─ l3: l3-x2x7l (emptied, stays)
  │  │  └─ bgp: bgp-x2x7l (emptied, stays)
  │  └─ vm: vm-x2x7l (emptied, stays)
  └─ l3 (see above)
`, false},
		"typed with a context": {LostNode{Name: "node-7", Ready: corev1.ConditionUnknown, Now: noon, Commands: Commands{Program: "kubectl usher"}}, 0, `node node-7: Ready is Unknown
no LostNodePolicy selects it, and nothing with a disk leaves it. When the machine is certainly off: usher fence node-7 --confirm
`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, strings.Join(c.node.Lines(c.width, Paint{}), "\n")+"\n"); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if c.node.Waits() != c.waits {
				t.Errorf("it waits: %t", !c.waits)
			}
		})
	}
}

// What is done for a pod's member since its node is lost keeps the pod from nothing.
func TestWhyOfALostMember(t *testing.T) {
	page := Why{
		Pod: &snapshot.Pod{Namespace: "openstack", Name: "nova-x", Node: "node-7"}, Now: noon, Fence: "fence node-7-x, WaitingForPods",
		Lost: []drain.Blocker{evacuation()}, LostDone: []string{finished},
	}
	want := `openstack/nova-x on node-7 may be evicted now
its node is lost: fence node-7-x, WaitingForPods
since its node is lost:
waits  node node-7
       PreparationPending: EvacuateServers for nova-compute node-7 of policy openstack/cloud, for its lost node: 3 of 5 left (for 8m)
       remedy: wait until it is done, or do what it says
done   ` + finished
	if diff := cmp.Diff(want, strings.Join(page.Lines(0, Paint{}), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := WhyPods{One: true, Pods: []Why{page}}.JSON()
	for _, part := range []string{`"mayGo": true`, `"lost": [`, `"reason": "PreparationPending"`, `"lostDone": [`} {
		if err != nil || !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s, %v", part, text, err)
		}
	}
	page.Lost, page.LostDone = nil, nil
	if text, err := (WhyPods{One: true, Pods: []Why{page}}).JSON(); err != nil || strings.Contains(string(text), "lost") {
		t.Errorf("%s, %v", text, err)
	}
	page.Blockers = []drain.Blocker{{Reason: "PolicySuspended", Pod: page.Pod.Key(), Message: "it is suspended"}}
	page.LostDone = []string{finished}
	if got := page.Lines(0, Paint{}); got[len(got)-2] != "since its node is lost:" || got[len(got)-1] != "done   "+finished {
		t.Errorf("%q", got)
	}
}
