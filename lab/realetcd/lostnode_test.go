package realetcd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

const (
	// unhealthyAfter is the window: how long a member must be unhealthy before repair asks for its replacement.
	unhealthyAfter = 30 * time.Second
	// idle is how long the managers are watched while nothing is lost.
	idle = time.Minute
	// The limits of what is measured.
	mostRest     = time.Minute // beside the window and the fence
	mostRequests = 25
	mostMemory   = 300 // MB
)

// TestLostNode loses the machine of a member's node for good, without a person's help: the node is fenced, repair asks for the member's
// replacement, and clients write meanwhile. It prints how long that takes and what it costs.
func TestLostNode(t *testing.T) {
	if !*figured {
		t.Skip("it takes minutes: make bench-replacement")
	}
	l := testlab.Get(t)
	nodes := l.StartRealNodes(t, join.Options{Count: size + 2, Zones: []string{"a", "b", "c", "d", "e"}, Files: []image.File{{From: l.Binary(t, "etcd"), To: "/etcd"}}})
	l.ServeServices(t)
	managers := l.Managers(t, 2)
	run(t, exec.CommandContext(t.Context(), l.Usher(t), "install", "--kubeconfig", l.Kubeconfig(), "--webhook-url", managers.URL(), "--replacement"))
	e := startLocalEtcd(t, l, nodes)
	e.fenceLostNodes(t, startPower(t).URL)
	e.applyPolicy(t)
	e.kubectl(t, "", "patch", "evictionpolicy", "etcd", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"repair":{"mode":"Automatic","unhealthyAfter":"%s"}}}`, unhealthyAfter))
	defer e.release(t)
	loss := &loss{member: e.leads(t)}
	loss.idle = e.idles(t)
	e.loseEmpty(t, nodes, loss)
	before := e.memberIDs(t)
	f := e.watched(t, func() { e.lose(t, nodes, loss) })
	f.checkData(t)
	if after := e.memberIDs(t); len(after) != size || after[loss.member] == before[loss.member] || after[loss.member] == 0 {
		t.Errorf("the members were %v, and are %v", before, after)
	}
	e.plainIsPending(t)
	loss.report(t)
	memory := max(resident(t, managers.PID(0)), resident(t, managers.PID(1)))
	fmt.Printf("manager memory: %d MB\nacknowledged writes lost: %d of %d\n", memory, len(f.lost), f.acknowledged)
	if memory > mostMemory {
		t.Errorf("a manager takes more than %d MB", mostMemory)
	}
	t.Logf("longest write pause %d ms; %d writes failed", f.pause.length().Milliseconds(), f.failed)
}

// loss is what was seen of one.
type loss struct {
	member   string
	began    time.Time // the machine was destroyed
	silent   time.Time // the node's Ready is Unknown
	proven   time.Time // the machine is proven off
	replaced time.Time // the successor does its work
	// What the managers asked of the apiserver: in a minute in which nothing was lost, for another node that was lost with no member on it, from its proof
	// on, and for the one with the member, since it was lost and from its proof on.
	idle, fence, all, requests testlab.Requests
}

// idles counts what the managers ask in a minute in which nothing is lost.
func (e *etcd) idles(t *testing.T) testlab.Requests {
	t.Helper()
	from := time.Now()
	<-time.After(idle)
	return e.lab.RequestsAbout(t, managerAccount, from, e.namespace)
}

// loseEmpty destroys the machine of a node that has no member, for what its fence alone asks of the apiserver.
func (e *etcd) loseEmpty(t *testing.T, nodes []*realnode.Node, l *loss) {
	t.Helper()
	var members []string
	for i := range size {
		members = append(members, e.nodeOf(t, member(i)))
	}
	at := slices.IndexFunc(nodes, func(n *realnode.Node) bool { return !slices.Contains(members, n.Name) })
	_, proven := e.destroyed(t, nodes[at])
	fences := await.Source[*v1alpha1.NodeFence]{Client: e.lab.UsherAPI(t), Resource: "nodefences"}
	testlab.WaitFor(t, fences, "the empty node to be cleared", func(all []*v1alpha1.NodeFence) bool {
		return slices.ContainsFunc(all, func(f *v1alpha1.NodeFence) bool {
			return f.Spec.NodeName == nodes[at].Name && f.Status.Step == v1alpha1.FenceWaitingForNewBoot
		})
	})
	<-time.After(settled)
	l.fence = e.lab.RequestsAbout(t, managerAccount, proven, "", nodes[at].Name)
}

// destroyed ends a node's machine for good, and returns when Kubernetes calls the node silent and when it is proven off.
func (e *etcd) destroyed(t *testing.T, node *realnode.Node) (silent, proven time.Time) {
	t.Helper()
	if err := syscall.Kill(node.PID(), syscall.SIGKILL); err != nil { // with which all its processes end
		t.Fatal(err)
	}
	testlab.WaitFor(t, e.lab.AllNodes(), "the node to be silent", func(all []*corev1.Node) bool {
		return slices.ContainsFunc(all, func(n *corev1.Node) bool {
			return n.Name == node.Name && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
			})
		})
	})
	silent = time.Now()
	fences := await.Source[*v1alpha1.NodeFence]{Client: e.lab.UsherAPI(t), Resource: "nodefences"}
	testlab.WaitFor(t, fences, "the node to be proven off", func(all []*v1alpha1.NodeFence) bool {
		return slices.ContainsFunc(all, func(f *v1alpha1.NodeFence) bool { return f.Spec.NodeName == node.Name && f.Status.ProvenTime != nil })
	})
	return silent, time.Now()
}

// lose destroys the machine of a member's node, and returns when the member is replaced.
func (e *etcd) lose(t *testing.T, nodes []*realnode.Node, l *loss) {
	t.Helper()
	of := e.nodeOf(t, l.member)
	at := slices.IndexFunc(nodes, func(n *realnode.Node) bool { return n.Name == of })
	l.began = time.Now()
	l.silent, l.proven = e.destroyed(t, nodes[at])
	client := e.lab.UsherAPI(t)
	requests := await.Source[*v1alpha1.ReplacementRequest]{Client: client, Resource: "replacementrequests", Namespace: e.namespace}
	testlab.WaitFor(t, requests, "the member to be replaced", func(all []*v1alpha1.ReplacementRequest) bool {
		return slices.ContainsFunc(all, func(q *v1alpha1.ReplacementRequest) bool {
			return q.Spec.Member.ID == l.member && q.Status.Step == v1alpha1.ReplacementComplete
		})
	})
	l.replaced = time.Now()
	policies := await.Source[*v1alpha1.EvictionPolicy]{Client: client, Resource: "evictionpolicies", Namespace: e.namespace}
	testlab.WaitFor(t, policies, "the policy to say that all are well", func(all []*v1alpha1.EvictionPolicy) bool {
		return slices.ContainsFunc(all, func(p *v1alpha1.EvictionPolicy) bool { return len(p.Status.Unhealthy)+len(p.Status.Replacing) == 0 })
	})
	<-time.After(settled)
	names := []string{e.namespace} // with which the names of its volumes begin
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	l.all = e.lab.RequestsAbout(t, managerAccount, l.began, e.namespace, names...)
	l.requests = e.lab.RequestsAbout(t, managerAccount, l.proven, e.namespace, names...)
}

// settled is how long the managers are watched after a replacement for what they do about it.
const settled = 10 * time.Second

// permits are the writes of the policy's status that a replacement needs: that the member is being replaced, and that it is no more. All others say what is
// seen of the members, whether they are replaced or not.
const permits = 2

// managerAccount is who the managers are.
const managerAccount = "system:serviceaccount:usher-system:usher-manager"

// report prints how long the loss took. The window begins when Kubernetes says that the node is silent, which is no part of what Usher does; the
// fence counts as far as it takes longer than the window.
func (l *loss) report(t *testing.T) {
	t.Helper()
	all, silence := l.replaced.Sub(l.began), l.silent.Sub(l.began)
	window := silence + unhealthyAfter
	fence := max(0, l.proven.Sub(l.began)-window)
	rest := all - window - fence
	background := l.idle.Total() * int((l.replaced.Sub(l.proven)+settled)/idle)
	reports := l.requests.Of("patch", "evictionpolicies/status") - permits
	count := l.requests.Total() - l.fencing() - background - reports
	t.Logf("window %.1f s (until Kubernetes calls the node silent %.1f s, then %.1f s), fence %.1f s more", window.Seconds(), silence.Seconds(), unhealthyAfter.Seconds(), fence.Seconds())
	t.Logf("requests in an idle minute: %d (%s)", l.idle.Total(), l.idle)
	t.Logf("requests of the fence of a node without members, from its proof on: %d (%s)", l.fence.Total(), l.fence)
	t.Logf("requests since the loss, with window and fence: %d (%s)", l.all.Total(), l.all)
	t.Logf("requests from the proof on: %d, %d of them reports in the policy's status (%s)", l.requests.Total(), reports, l.requests)
	fmt.Printf("lost node to full strength: %.1f s (window + fence + %.1f s)\n", all.Seconds(), rest.Seconds())
	fmt.Printf("requests per replaced member: %d\n", count)
	if rest > mostRest {
		t.Errorf("beside the window and the fence it took more than %s", mostRest)
	}
	if count > mostRequests {
		t.Errorf("more than %d requests for a member", mostRequests)
	}
}

// fencing is what the fence of the member's node has asked for: what that of the empty node did, and at each look that it took more, until the member's pod was
// gone, what every look asks for: the fence, the node, and the pods on it.
func (l *loss) fencing() int {
	const perLook = 3
	return l.fence.Total() + perLook*(l.requests.Of("get", "nodefences")-l.fence.Of("get", "nodefences"))
}

// fenceLostNodes has silent nodes turned off by what controls their power, as an admin of the cluster does.
func (e *etcd) fenceLostNodes(t *testing.T, power string) {
	t.Helper()
	e.kubectl(t, "", "create", "clusterrolebinding", "usher-lost-nodes", "--clusterrole=usher-lost-nodes", "--serviceaccount="+managerNamespace+":usher-manager")
	e.kubectl(t, fmt.Sprintf(`
apiVersion: usher.sh/v1alpha1
kind: LostNodePolicy
metadata: {name: real}
spec:
  nodeSelector: {}
  unreachableAfter: 1m
  fence:
    http:
      method: POST
      url: %[1]s/off/{{node.name}}
      observe: {url: "%[1]s/{{node.name}}", until: answer.PowerState == "Off"}
      provenWithin: 1m
`, power), "create", "-f", "-")
	t.Cleanup(func() {
		e.kubectl(t, "", "delete", "lostnodepolicy", "real")
		e.kubectl(t, "", "delete", "clusterrolebinding", "usher-lost-nodes")
	})
}

// plainIsPending fails the test unless the pod of the plain StatefulSet that was on the lost node waits for its volume there.
func (e *etcd) plainIsPending(t *testing.T) {
	t.Helper()
	pods, err := e.lab.Client().CoreV1().Pods(e.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + plainName})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending && p.Spec.NodeName == "" }) {
		t.Error("no pod of the plain StatefulSet is Pending")
	}
}

// resident is how many MB of memory a process has.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kB, found := strings.CutPrefix(line, "VmRSS:"); found {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kB), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n * 1024 / 1e6
		}
	}
	t.Fatal("the process says nothing of its memory")
	return 0
}
