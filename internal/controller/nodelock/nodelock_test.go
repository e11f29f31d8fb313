package nodelock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/observe"
)

// A cloud that runs is labelled and locked as it is, each node by one write, and nothing else is touched.
func TestARunningCloudIsAdopted(t *testing.T) {
	g := newRig(t, policy(), pod("a1", "agent", "n1"), pod("r1", "router", "n1"), pod("r2", "router", "n1"), pod("a2", "agent", "n2"), pod("web", "web", "n2"))
	g.look(t)
	g.wantNode(t, "n1", "False", own)
	g.wantNode(t, "n2", "False")
	if diff := cmp.Diff([]string{"stack/agents", "stack/agents"}, g.users); diff != "" {
		t.Errorf("nodes are written by %s", diff)
	}
	if p := g.stored(t); !slices.Contains(p.Finalizers, v1alpha1.UndoFinalizer) || p.Status.NodeLock != nil {
		t.Errorf("finalizers %v, status %+v", p.Finalizers, p.Status.NodeLock)
	}
	if asked := g.asked(t); asked != nil {
		t.Errorf("asked to leave: %v", asked)
	}
	if g.look(t); len(g.users) != 2 {
		t.Errorf("the next look has written: %v", g.users[2:])
	}
}

// An update of the agent: the label says so, its holders are asked to leave, and the label says that it serves once it is back.
func TestHoldersLeaveAheadOfTheirWaiter(t *testing.T) {
	g := newRig(t, policy(), pod("a1", "agent", "n1"), pod("r1", "router", "n1"), pod("r2", "router", "n2"))
	g.look(t)
	g.create(t, requestFor("a1"))
	g.look(t)
	g.wantNode(t, "n1", "True", own)
	g.look(t)
	if diff := cmp.Diff([]string{"r1"}, g.asked(t)); diff != "" {
		t.Fatalf("asked to leave: %s", diff)
	}
	g.mark(t, "n1", func(n *corev1.Node) { n.Annotations[prefix+"/nova-compute"] = "" })
	g.remove(t, pod("r1", "router", "n1"))
	g.look(t)
	g.wantNode(t, "n1", "True", prefix+"/nova-compute")
	g.remove(t, pod("a1", "agent", "n1"))
	g.remove(t, requestFor("a1"))
	g.look(t)
	g.wantNode(t, "n1", "True", prefix+"/nova-compute")
	g.create(t, pod("a1b", "agent", "n1"))
	g.look(t)
	g.wantNode(t, "n1", "False", prefix+"/nova-compute")
	g.wantNode(t, "n2", "", own)
}

// A waiter of another operator's has the policy's holders leave by the label, and they stay where the label is set back before they have left.
func TestAnotherOperatorsWaiter(t *testing.T) {
	g := newRig(t, policy(func(p *v1alpha1.EvictionPolicy) { p.Spec.NodeLock.Waiter = "" }), pod("a1", "agent", "n1"), pod("r1", "router", "n1"))
	g.look(t)
	g.wantNode(t, "n1", "", own)
	g.mark(t, "n1", func(n *corev1.Node) { n.Labels[state] = "True" })
	g.look(t)
	if diff := cmp.Diff([]string{"r1"}, g.asked(t)); diff != "" {
		t.Fatalf("asked to leave: %s", diff)
	}
	g.mark(t, "n1", func(n *corev1.Node) { n.Labels[state] = "False" })
	if g.look(t); g.asked(t) != nil {
		t.Errorf("asked although the label was set back: %v", g.asked(t))
	}
	g.mark(t, "n1", func(n *corev1.Node) { n.Labels[state] = "True" })
	g.look(t)
	if diff := cmp.Diff([]string{"r1"}, g.asked(t)); diff != "" {
		t.Errorf("asked anew: %s", diff)
	}
	g.wantNode(t, "n1", "True", own)
}

// What a person has withdrawn stays so.
func TestARequestThatAPersonHasWithdrawn(t *testing.T) {
	g := newRig(t, policy(func(p *v1alpha1.EvictionPolicy) { p.Spec.NodeLock.Waiter = "" }), pod("r1", "router", "n1"))
	g.mark(t, "n1", func(n *corev1.Node) { n.Labels[state] = "True" })
	g.look(t)
	var list api.EvictionRequestList
	if err := g.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d requests; %v", len(list.Items), err)
	}
	list.Items[0].Spec.Intent = api.EvictionRequestIntentWithdrawn
	if err := g.Update(t.Context(), &list.Items[0], client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	if g.look(t); g.asked(t) != nil {
		t.Errorf("asked anew: %v", g.asked(t))
	}
}

// A lock goes when its holder was seen gone by the apiserver: the cache may not show the next one yet.
func TestALockStaysForAHolderThatTheCacheLacks(t *testing.T) {
	g := newRig(t, policy(), pod("a1", "agent", "n1"), pod("r1", "router", "n1"))
	g.look(t)
	g.cached.pod = "r1"
	g.look(t)
	g.wantNode(t, "n1", "False", own)
	g.remove(t, pod("r1", "router", "n1"))
	g.look(t)
	g.wantNode(t, "n1", "False")
}

func TestWhatIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.EvictionPolicy)
		locks  []string
		asked  []string
	}{
		"nothing, while it is suspended":  {func(p *v1alpha1.EvictionPolicy) { p.Spec.Suspend = true }, []string{own, prefix + "/x"}, []string{"r1"}},
		"nothing, while it is unusable":   {func(p *v1alpha1.EvictionPolicy) { p.Spec.Members[0].Role = "x" }, []string{own, prefix + "/x"}, []string{"r1"}},
		"its own, in mode Audit":          {func(p *v1alpha1.EvictionPolicy) { p.Spec.Mode = v1alpha1.ModeAudit }, []string{prefix + "/x"}, nil},
		"its own, without a nodeLock":     {func(p *v1alpha1.EvictionPolicy) { p.Spec.NodeLock = nil }, []string{prefix + "/x"}, nil},
		"its own, where the role is none": {func(p *v1alpha1.EvictionPolicy) { p.Spec.NodeLock.Holders = []string{} }, []string{prefix + "/x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, policy(func(p *v1alpha1.EvictionPolicy) { p.Spec.NodeLock.Waiter = "" }), pod("r1", "router", "n1"))
			g.mark(t, "n1", func(n *corev1.Node) { n.Labels[state], n.Annotations[prefix+"/x"] = "True", "" })
			g.look(t)
			g.wantNode(t, "n1", "True", own, prefix+"/x")
			g.respecify(t, c.change)
			g.look(t)
			g.wantNode(t, "n1", "True", c.locks...)
			if diff := cmp.Diff(c.asked, g.asked(t)); diff != "" {
				t.Errorf("asked: %s", diff)
			}
		})
	}
	g := newRig(t, policy(func(p *v1alpha1.EvictionPolicy) { p.Spec.Suspend = true }), pod("a1", "agent", "n1"), pod("r1", "router", "n1"))
	g.look(t)
	g.wantNode(t, "n1", "")
	g.respecify(t, func(p *v1alpha1.EvictionPolicy) { p.Spec.Suspend = false })
	g.look(t)
	g.remove(t, g.stored(t)) // the finalizer holds it
	g.look(t)
	g.wantNode(t, "n1", "False")
}

// What is refused is said in the policy's status, with what gives the right, and is not tried for each node.
func TestRefusedWritesAreNamed(t *testing.T) {
	g := newRig(t, policy(), pod("a1", "agent", "n1"), pod("a2", "agent", "n2"))
	g.refuse = forbidden("system:serviceaccount:stack:agents")
	if result := g.look(t); result.RequeueAfter != afterRefusal || len(g.users) != 1 {
		t.Errorf("after %s, %d writes", result.RequeueAfter, len(g.users))
	}
	status := g.stored(t).Status.NodeLock
	if status == nil || len(status.Blockers) != 1 || status.Blockers[0].Reason != "WriteRefused" ||
		!strings.Contains(status.Blockers[0].Remedy, "ServiceAccount agents of namespace stack the verb patch on nodes") {
		t.Fatalf("status %+v", status)
	}
	g.refuse = forbidden("system:serviceaccount:usher-system:usher-manager cannot impersonate")
	g.look(t)
	if remedy := g.stored(t).Status.NodeLock.Blockers[0].Remedy; remedy != "kubectl create rolebinding usher-node-locks-impersonate -n stack --clusterrole=usher-node-locks-impersonate --serviceaccount=usher-system:usher-manager" {
		t.Errorf("remedy %q", remedy)
	}
	g.refuse = apierrors.NewTimeoutError("the apiserver has been away", 1)
	if result := g.look(t); result.RequeueAfter != afterSilence {
		t.Errorf("what was not answered is tried again after %s", result.RequeueAfter)
	}
	g.refuse = nil
	g.look(t)
	g.wantNode(t, "n1", "False")
	g.wantNode(t, "n2", "False")
	if status := g.stored(t).Status.NodeLock; status != nil {
		t.Errorf("status %+v", status)
	}
}

// A lock of a policy that is deleted during the look would be left for ever.
func TestNothingIsLockedForAPolicyThatIsBeingDeleted(t *testing.T) {
	g := newRig(t, policy(), pod("r1", "router", "n1"), pod("r2", "router", "n2"))
	g.wrote = func() { g.remove(t, g.stored(t)) }
	g.look(t)
	if len(g.users) != 1 {
		t.Errorf("%d nodes were written", len(g.users))
	}
	g = newRig(t, policy(func(p *v1alpha1.EvictionPolicy) { p.Finalizers = []string{v1alpha1.UndoFinalizer} }), pod("r1", "router", "n1"))
	g.cached.kept = g.stored(t)
	gone := g.stored(t)
	gone.Finalizers = nil
	if err := g.Update(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	g.remove(t, gone)
	g.mark(t, "n1", func(n *corev1.Node) { n.Labels[state] = "True" })
	g.cached.kept.Spec.NodeLock.Waiter = ""
	if g.look(t); len(g.users) != 0 || g.asked(t) != nil {
		t.Errorf("for a policy that is gone and that the cache shows %d nodes were written, and these asked to leave: %v", len(g.users), g.asked(t))
	}
}

// Two policies with one label on a node write the same.
func TestAnotherPolicysWaiterCounts(t *testing.T) {
	other := policy(func(p *v1alpha1.EvictionPolicy) {
		p.Namespace, p.UID, p.Spec.NodeLock.Holders = "other", "other-uid", nil
	})
	foreign := pod("o1", "agent", "n1")
	foreign.Namespace = "other"
	g := newRig(t, policy(), other, pod("a1", "agent", "n1"), foreign)
	request := evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "other", Name: "o1", UID: foreign.UID}, evictionrequest.Requester("jane"))
	g.create(t, request)
	g.look(t)
	g.wantNode(t, "n1", "True")
	g.remove(t, request)
	g.look(t)
	g.wantNode(t, "n1", "False")
}

// A node whose label another client sets back is written again, but not as fast as that client can.
func TestALabelThatIsSetBack(t *testing.T) {
	g := newRig(t, policy(), pod("a1", "agent", "n1"))
	g.look(t)
	g.create(t, requestFor("a1"))
	g.look(t)
	g.mark(t, "n1", func(n *corev1.Node) { n.Labels[state] = "False" })
	result := g.look(t)
	g.wantNode(t, "n1", "False")
	if status := g.stored(t).Status.NodeLock; status == nil || status.Blockers[0].Reason != "NodeLockContested" || result.RequeueAfter <= 0 {
		t.Fatalf("after %s; status %+v", result.RequeueAfter, status)
	}
	g.now = g.now.Add(result.RequeueAfter)
	g.look(t)
	g.wantNode(t, "n1", "True")
}

// A policy is woken by what concerns it, and by nothing else.
func TestWhatWakes(t *testing.T) {
	g := newRig(t, policy())
	for name, c := range map[string]struct {
		from client.Object
		want int
	}{
		"a pod of its namespace":    {pod("r1", "router", "n1"), 1},
		"a pod of another":          {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "r1"}}, 0},
		"a request of its own":      {requestFor("r1"), 1},
		"a policy without nodeLock": {&v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "x"}}, 0},
	} {
		keys := g.r.inNamespace(t.Context(), c.from)
		if p, ok := c.from.(*v1alpha1.EvictionPolicy); ok {
			keys = g.r.itself(t.Context(), p)
		}
		if len(keys) != c.want {
			t.Errorf("%s wakes %v", name, keys)
		}
	}
	heartbeat, other := node("n1"), node("n1")
	heartbeat.ResourceVersion, heartbeat.Annotations = "2", nil
	other.Labels = map[string]string{state: "True"}
	locked := node("n1")
	locked.Annotations = map[string]string{own: ""}
	for name, c := range map[string]struct {
		after *corev1.Node
		want  bool
	}{
		"nothing that matters": {heartbeat, false}, "a label": {other, true}, "a lock": {locked, true},
	} {
		if got := marked().Update(event.UpdateEvent{ObjectOld: node("n1"), ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: wakes %t", name, got)
		}
	}
	g.look(t)
	g.now = g.now.Add(time.Millisecond)
	if wait := g.r.early(key); wait <= 0 || wait >= pause {
		t.Errorf("it may be looked at again after %s", wait)
	}
}

// pages is an apiserver that gives as many pods at a time as it is asked for, and whose lists must not be asked for whole.
type pages struct{ client.Client }

func (p pages) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if asked.Limit == 0 || asked.Limit > observe.AtOnce {
		return fmt.Errorf("%T is asked for whole", list)
	}
	pods, is := list.(*corev1.PodList)
	if !is {
		return fmt.Errorf("%T is not served", list)
	}
	if err := p.Client.List(ctx, pods, &client.ListOptions{Namespace: asked.Namespace, FieldSelector: asked.FieldSelector}); err != nil {
		return err
	}
	first, _ := strconv.Atoi(asked.Continue)
	last := min(len(pods.Items), first+int(asked.Limit))
	if last < len(pods.Items) {
		pods.Continue = strconv.Itoa(last)
	}
	pods.Items = pods.Items[first:last]
	return nil
}

// The pods on a node, each of which its owner may make as large as the apiserver takes it, are never read all at once, and a holder on any page keeps its lock.
func TestPodsOnANodeAreReadInPages(t *testing.T) {
	for name, c := range map[string]struct {
		others int
		holder bool
	}{
		"one page":                 {0, true},
		"the last of two pages":    {observe.AtOnce, true},
		"the last of many":         {3*observe.AtOnce + 1, true},
		"several, without holders": {2 * observe.AtOnce, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, policy(), pod("a1", "agent", "n1"), pod("r1", "router", "n1"))
			for i := range c.others {
				g.create(t, pod(fmt.Sprint("other-", i), "other", "n1"))
			}
			g.r.live = pages{g.Client}
			g.look(t)
			g.wantNode(t, "n1", "False", own)
			if g.cached.pod = "r1"; !c.holder {
				g.remove(t, pod("r1", "router", "n1"))
			}
			g.look(t)
			if c.holder {
				g.wantNode(t, "n1", "False", own)
			} else {
				g.wantNode(t, "n1", "False")
			}
		})
	}
}
