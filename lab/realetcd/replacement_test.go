package realetcd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestReplacement loses nodes with the only copies of members for good, while clients write.
func TestReplacement(t *testing.T) {
	l := testlab.Get(t)
	binary := image.File{From: l.Binary(t, "etcd"), To: "/etcd"}
	nodes := l.StartRealNodes(t, join.Options{Count: size + 2 + longer(), Files: []image.File{binary}})
	l.ServeServices(t)
	managers := l.Managers(t, 2)
	install := exec.CommandContext(t.Context(), l.Usher(t), "install", "--kubeconfig", l.Kubeconfig(), "--webhook-url", managers.URL(), "--replacement")
	run(t, install)
	e := startLocalEtcd(t, l, nodes)
	e.applyPolicy(t)
	defer e.release(t)
	t.Run("a node is destroyed", func(t *testing.T) { e.nodeDestroyed(t, nodes, managers) })
	if longer() > 0 {
		t.Run("a disk is destroyed", func(t *testing.T) { e.diskDestroyed(t) })
		t.Run("a request is deleted in the middle", func(t *testing.T) { e.cancelled(t, nodes) })
	}
	t.Run("two nodes are destroyed", func(t *testing.T) { e.twoNodesDestroyed(t, nodes) })
}

// longer is how many nodes more are lost in long runs.
func longer() int {
	if *rounds > 1 {
		return 2
	}
	return 0
}

// nodeDestroyed ends the leader's machine, and a manager while its member is being replaced.
func (e *etcd) nodeDestroyed(t *testing.T, nodes []*realnode.Node, managers *testlab.Managers) {
	t.Helper()
	lost := e.leads(t)
	e.watchedReplacement(t, lost, func() {
		e.destroy(t, nodes, lost)
		began := time.Now()
		e.requestAs(t, lost, lost)
		e.reaches(t, lost, *seed)
		managers.Kill(t, int(*seed%2))
		managers.Start(t, int(*seed%2))
		e.replaced(t, lost)
		t.Logf("%s, which led, is replaced %s after its node was deleted", lost, time.Since(began).Round(time.Second))
	})
	pods, err := e.lab.Client().CoreV1().Pods(e.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + plainName})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending }) {
		t.Error("no pod of the plain StatefulSet is Pending")
	}
}

// diskDestroyed loses the disk of a member whose node goes on. Its pod would come back there: a person cordons the node, and has the pod evicted.
func (e *etcd) diskDestroyed(t *testing.T) {
	t.Helper()
	lost := e.follows(t)
	e.watchedReplacement(t, lost, func() {
		node := e.nodeOf(t, lost)
		if err := os.RemoveAll(filepath.Join(e.folder(node, name), "etcd")); err != nil {
			t.Fatal(err)
		}
		e.kubectl(t, "", "cordon", node)
		run(t, exec.CommandContext(t.Context(), e.lab.Usher(t), "evict", lost, "--kubeconfig", e.lab.Kubeconfig(), "-n", e.namespace))
		request := lost + "-disk"
		e.requestAs(t, request, lost)
		e.replaced(t, request)
	})
}

// cancelled deletes a request at some moment. Nothing was done for it then, or it is gone on with: half replaced is no member.
func (e *etcd) cancelled(t *testing.T, nodes []*realnode.Node) {
	t.Helper()
	lost := e.leads(t)
	before := e.memberIDs(t)[lost]
	e.watchedReplacement(t, lost, func() {
		e.destroy(t, nodes, lost)
		request := lost + "-cancelled"
		e.requestAs(t, request, lost)
		e.reaches(t, request, *seed)
		e.kubectl(t, "", "delete", "replacementrequest", request, "--timeout=5m")
		if now := e.memberIDs(t)[lost]; now != before {
			t.Logf("it had begun, and was gone on with: member %x is %x", before, now)
			return
		}
		e.requestAs(t, request+"-again", lost)
		e.replaced(t, request+"-again")
	})
}

// watchedReplacement has clients write while a member is replaced: no acknowledged write is lost, and another is in its place.
func (e *etcd) watchedReplacement(t *testing.T, lost string, do func()) {
	t.Helper()
	before := e.memberIDs(t)
	f := e.watched(t, do)
	f.checkData(t)
	t.Logf("acknowledged writes lost: %d of %d; longest write pause %d ms", len(f.lost), f.acknowledged, f.pause.length().Milliseconds())
	after := e.memberIDs(t)
	if len(after) != size || after[lost] == before[lost] || after[lost] == 0 {
		t.Errorf("the members were %v, and are %v", before, after)
	}
}

// reaches waits until a request has come to a step that a seed draws, at which something is done to it.
func (e *etcd) reaches(t *testing.T, request string, seed uint64) {
	t.Helper()
	steps := []v1alpha1.ReplacementStep{v1alpha1.ReplacementWaiting, v1alpha1.ReplacementRemoving, v1alpha1.ReplacementJoining}
	step := steps[seed%uint64(len(steps))]
	e.kubectl(t, "", "wait", "--for=jsonpath={.status.step}="+string(step), "--timeout=5m", "replacementrequest/"+request)
	t.Logf("request %s is %s", request, step)
}

// replaced waits until a member is.
func (e *etcd) replaced(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.kubectl(t, "", "get", "replacementrequest", name, "-o", "jsonpath={.status}"))
			t.Log(e.kubectl(t, "", "get", "pods", "-o", "wide"))
			t.Log(e.kubectl(t, "", "logs", name, "--tail=60"))
		}
	})
	e.kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=5m", "replacementrequest/"+name)
}

// twoNodesDestroyed: of three members two are lost, and nothing of them is touched.
func (e *etcd) twoNodesDestroyed(t *testing.T, nodes []*realnode.Node) {
	t.Helper()
	lost := []string{member(0), member(1)}
	for _, name := range lost {
		e.destroy(t, nodes, name)
	}
	request := lost[0] + "-of-two"
	e.requestAs(t, request, lost[0])
	e.kubectl(t, "", "wait", "--for=jsonpath={.status.step}=Waiting", "--timeout=5m", "replacementrequest/"+request)
	testlab.WaitFor(t, e.lab.Pods(e.namespace), "both to find no node", func(all []*corev1.Pod) bool {
		found := 0
		for _, p := range all {
			if slices.Contains(lost, p.Name) && p.Spec.NodeName == "" && p.Status.Phase == corev1.PodPending {
				found++
			}
		}
		return found == len(lost)
	})
	e.kubectl(t, "", "wait", "--for=jsonpath={.status.blockers[0].reason}", "--timeout=5m", "replacementrequest/"+request)
	t.Log(e.kubectl(t, "", "get", "replacementrequest", request, "-o", "jsonpath={range .status.blockers[*]}{.rule} {.reason}: {.message}{\"\\n\"}{end}"))
	for _, name := range lost {
		if phase := e.kubectl(t, "", "get", "pvc", "data-"+name, "-o", "jsonpath={.status.phase}{.metadata.deletionTimestamp}"); phase != string(corev1.ClaimBound) {
			t.Errorf("the claim of %s is %s", name, phase)
		}
	}
	e.kubectl(t, "", "delete", "replacementrequest", request, "--timeout=5m")
}

// destroy ends the machine of a member's pod, and has the cluster forget it.
func (e *etcd) destroy(t *testing.T, nodes []*realnode.Node, name string) {
	t.Helper()
	of := e.nodeOf(t, name)
	at := slices.IndexFunc(nodes, func(n *realnode.Node) bool { return n.Name == of })
	if err := nodes[at].Stop(); err != nil {
		t.Fatal(err)
	}
	if err := e.lab.Client().CoreV1().Nodes().Delete(t.Context(), nodes[at].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *etcd) nodeOf(t *testing.T, name string) string {
	t.Helper()
	pod, err := e.lab.Client().CoreV1().Pods(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Spec.NodeName
}

func (e *etcd) requestAs(t *testing.T, request, name string) {
	t.Helper()
	e.kubectl(t, fmt.Sprintf(`
apiVersion: usher.sh/v1alpha1
kind: ReplacementRequest
metadata: {name: %[2]s}
spec:
  requester: test.usher.sh/realetcd
  source: {kind: EvictionPolicy, name: etcd}
  member: {role: etcd-member, id: %[1]s}
`, name, request), "create", "-f", "-")
}

// memberIDs are the voters that have started, by name.
func (e *etcd) memberIDs(t *testing.T) map[string]uint64 {
	t.Helper()
	list, err := e.client(t, e.endpoints()...).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]uint64{}
	for _, m := range list.Members {
		if !m.IsLearner && m.Name != "" {
			ids[m.Name] = m.ID
		}
	}
	return ids
}

// follows is the name of a member that does not lead.
func (e *etcd) follows(t *testing.T) string {
	t.Helper()
	leader := e.leads(t)
	for i := range size {
		if member(i) != leader {
			return member(i)
		}
	}
	return ""
}

// leads is the name of the member that leads.
func (e *etcd) leads(t *testing.T) string {
	t.Helper()
	status, err := e.client(t, e.endpoints()...).Status(t.Context(), e.endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range e.memberIDs(t) {
		if id == status.Leader {
			return strings.TrimSpace(name)
		}
	}
	t.Fatal("no member leads")
	return ""
}
