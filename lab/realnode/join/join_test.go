package join_test

import (
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }

var web = map[string]string{"app": "web"}

func TestPodsOfRealNodes(t *testing.T) {
	l := testlab.Get(t)
	nodes := l.RealNodes(t, 2, "a", "b")
	ns := l.Namespace(t)
	startWeb(t, l, ns, 4)
	pods := l.WaitReady(t, ns, web, 4)

	t.Run("both nodes run pods, with addresses of their own subnets", func(t *testing.T) { testPlacement(t, nodes, pods) })
	t.Run("pods reach each other over the network", func(t *testing.T) { testNetwork(t, pods) })
	t.Run("the zone is on the node", func(t *testing.T) {
		node, err := l.Client().CoreV1().Nodes().Get(t.Context(), nodes[1].Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := node.Labels[corev1.LabelTopologyZone]; got != "b" {
			t.Errorf("zone of %s is %q, want b", node.Name, got)
		}
	})
	t.Run("an evicted pod ends gracefully and is replaced", func(t *testing.T) { testEviction(t, l, ns, pods[0]) })
	t.Run("readiness can be flipped", func(t *testing.T) {
		pod := l.WaitReady(t, ns, web, 4)[0]
		post(t, pod, "/ready?value=false")
		testlab.WaitFor(t, l.Pods(ns), pod.Name+" to be unready", func(all []*corev1.Pod) bool {
			i := slices.IndexFunc(all, func(p *corev1.Pod) bool { return p.UID == pod.UID })
			return i >= 0 && !testlab.PodReady(all[i])
		})
	})
	t.Run("nothing is left", func(t *testing.T) { testNothingLeft(t, nodes) })
}

func testPlacement(t *testing.T, nodes []*realnode.Node, pods []*corev1.Pod) {
	t.Helper()
	for _, n := range nodes {
		mine := podsOn(pods, n.Name)
		if len(mine) != 2 {
			t.Errorf("%s runs %d pods, want 2", n.Name, len(mine))
		}
		for _, p := range mine {
			if ip := netip.MustParseAddr(p.Status.PodIP); !n.Slot().Subnet().Contains(ip) {
				t.Errorf("%s on %s has address %s, not in %s", p.Name, n.Name, ip, n.Slot().Subnet())
			}
		}
	}
}

func testNetwork(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	for _, from := range pods {
		for _, to := range pods {
			got := get(t, from, "/fetch?url="+url.QueryEscape(address(to)+"/"))
			if strings.TrimSpace(got) != to.Name {
				t.Errorf("%s asked %s for its name and got %q", from.Name, to.Name, got)
			}
		}
	}
}

// testEviction sees the end in the pod's status: the workload writes there which signal ended it, and an exit code of
// 0 says that it was not killed.
func testEviction(t *testing.T, l *testlab.Lab, ns string, pod *corev1.Pod) {
	t.Helper()
	logs, err := l.Client().CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || len(logs) > 0 {
		t.Errorf("logs before the eviction are %q (%v), want none", logs, err)
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: ns},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
	if err := l.Client().PolicyV1().Evictions(ns).Evict(t.Context(), eviction); err != nil {
		t.Fatal(err)
	}
	var ended *corev1.ContainerStateTerminated
	testlab.WaitFor(t, l.Pods(ns), pod.Name+" to be gone", func(all []*corev1.Pod) bool {
		for _, p := range all {
			if p.UID != pod.UID {
				continue
			}
			if s := p.Status.ContainerStatuses; len(s) == 1 && s[0].State.Terminated != nil {
				ended = s[0].State.Terminated
			}
			return false
		}
		return true
	})
	if ended == nil || ended.ExitCode != 0 || ended.Message != "ended by terminated" {
		t.Errorf("the evicted pod ended with %+v, want exit code 0 and that SIGTERM was seen", ended)
	}
	l.WaitReady(t, ns, web, 4)
}

func startWeb(t *testing.T, l *testlab.Lab, ns string, replicas int32) {
	t.Helper()
	spec := testlab.RealPod(t)
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: web},
	}}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: ns},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: web},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web}, Spec: spec},
		},
	}
	if _, err := l.Client().AppsV1().Deployments(ns).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func podsOn(pods []*corev1.Pod, node string) []*corev1.Pod {
	var found []*corev1.Pod
	for _, p := range pods {
		if p.Spec.NodeName == node {
			found = append(found, p)
		}
	}
	return found
}

func address(p *corev1.Pod) string { return "http://" + p.Status.PodIP + ":8080" }

func get(t *testing.T, p *corev1.Pod, path string) string {
	t.Helper()
	return request(t, http.MethodGet, address(p)+path)
}

func post(t *testing.T, p *corev1.Pod, path string) {
	t.Helper()
	request(t, http.MethodPost, address(p)+path)
}

func request(t *testing.T, method, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s %v", method, address, response.Status, body, err)
	}
	return string(body)
}
