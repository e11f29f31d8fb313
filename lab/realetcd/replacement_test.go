package realetcd

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// TestReplacement loses nodes with the only copies of members for good, while clients write.
func TestReplacement(t *testing.T) {
	l := testlab.Get(t)
	binary := image.File{From: l.Binary(t, "etcd"), To: "/etcd"}
	nodes := l.StartRealNodes(t, join.Options{Count: size + 2, Files: []image.File{binary}})
	l.ServeServices(t)
	managers := l.Managers(t, 2)
	install := exec.CommandContext(t.Context(), l.Usher(t), "install", "--kubeconfig", l.Kubeconfig(), "--webhook-url", managers.URL(), "--replacement")
	run(t, install)
	e := startLocalEtcd(t, l, nodes)
	e.applyPolicy(t)
	defer e.release(t)
	t.Run("a node is destroyed", func(t *testing.T) { e.nodeDestroyed(t, nodes, managers) })
	t.Run("two nodes are destroyed", func(t *testing.T) { e.twoNodesDestroyed(t, nodes) })
}

// nodeDestroyed ends the leader's machine, and a manager while its member is being replaced.
func (e *etcd) nodeDestroyed(t *testing.T, nodes []*realnode.Node, managers *testlab.Managers) {
	t.Helper()
	lost := e.leads(t)
	before := e.memberIDs(t)
	var took time.Duration
	f := e.watched(t, func() {
		e.destroy(t, nodes, lost)
		began := time.Now()
		e.request(t, lost)
		managers.Kill(t, int(*seed%2))
		managers.Start(t, int(*seed%2))
		e.replaced(t, lost)
		took = time.Since(began)
	})
	f.checkData(t)
	t.Logf("%s, which led, is replaced %s after its node was deleted; acknowledged writes lost: %d of %d; longest write pause %d ms",
		lost, took.Round(time.Second), len(f.lost), f.acknowledged, f.pause.length().Milliseconds())
	after := e.memberIDs(t)
	if len(after) != size || after[lost] == before[lost] || after[lost] == 0 {
		t.Errorf("the members were %v, and are %v", before, after)
	}
	pods, err := e.lab.Client().CoreV1().Pods(e.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + plainName})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending }) {
		t.Error("no pod of the plain StatefulSet is Pending")
	}
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
	pod, err := e.lab.Client().CoreV1().Pods(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(nodes, func(n *realnode.Node) bool { return n.Name == pod.Spec.NodeName })
	if err := nodes[at].Stop(); err != nil {
		t.Fatal(err)
	}
	if err := e.lab.Client().CoreV1().Nodes().Delete(t.Context(), nodes[at].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *etcd) request(t *testing.T, name string) {
	t.Helper()
	e.requestAs(t, name, name)
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
