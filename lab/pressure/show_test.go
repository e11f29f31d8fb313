package pressure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// showPatience ends only what hangs.
const showPatience = 5 * time.Minute

// shown is how a command ended.
type shown struct {
	code     int
	out, err string
}

// show runs usher pressure with a kubeconfig.
func show(t *testing.T, kubeconfig string, args ...string) shown {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), showPatience)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, testlab.Get(t).Usher(t), append([]string{"pressure", "--kubeconfig", kubeconfig}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("running usher pressure: %v", err)
	}
	return shown{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// look is what the tests read of usher pressure -o json.
type look struct {
	Answer     string
	ConfigFrom string
	Victim     struct {
		Name         string
		Signal       string
		GraceSeconds float64
	}
	Signals []struct {
		Signal  string
		Reading struct{ Available, Capacity int64 }
	}
	Ranking []struct {
		Name  string
		Usage *int64
	}
	OOM []struct {
		Name        string
		Container   string
		OOMScoreAdj int
	}
}

// watchUntil follows usher pressure -w until a look is as wanted, which it returns, and then sees it end cleanly on Ctrl-C.
func watchUntil(t *testing.T, kubeconfig, node, what string, wanted func(look) bool, args ...string) look {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), showPatience)
	defer cancel()
	var errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, testlab.Get(t).Usher(t), append([]string{"pressure", node, "--kubeconfig", kubeconfig, "-w", "-o", "json"}, args...)...)
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	var seen look
	found := false
	for !found && lines.Scan() {
		seen = look{}
		if err := json.Unmarshal(lines.Bytes(), &seen); err != nil {
			t.Errorf("%v: %s", err, lines.Text())
		}
		found = wanted(seen)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("interrupting usher pressure -w: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v, want exit code 0; stderr: %s", err, errOut.String())
	}
	if !found {
		t.Fatalf("waiting for %s; last: %s", what, seen.Answer)
	}
	return seen
}

// load starts three pods of three classes, greedy being the one that uses most beyond its request.
func load(t *testing.T, l *testlab.Lab, ns string) map[string]*corev1.Pod {
	t.Helper()
	labels := map[string]string{"app": "load"}
	memory := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(size), corev1.ResourceCPU: resource.MustParse("10m")}
	}
	start := func(name, use string, resources corev1.ResourceRequirements) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: testlab.RealPod(t, "-memory-mib="+use)}
		pod.Spec.Containers[0].Resources = resources
		if _, err := l.Client().CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	start("greedy", "60", corev1.ResourceRequirements{})
	start("steady", "20", corev1.ResourceRequirements{Requests: memory("64Mi")})
	start("quiet", "10", corev1.ResourceRequirements{Requests: memory("48Mi"), Limits: memory("48Mi")})
	pods := map[string]*corev1.Pod{}
	for _, pod := range l.WaitReady(t, ns, labels, 3) {
		pods[pod.Name] = pod
	}
	return pods
}

// TestPressureNamesTheVictimBeforehand asks usher which pod would go first and lets the kubelet answer.
func TestPressureNamesTheVictimBeforehand(t *testing.T) {
	l := testlab.Get(t)
	node := l.StartRealNodes(t, join.Options{
		Count: 1, Memory: resource.MustParse("400Mi"),
		Disk: realnode.Disk{Size: resource.MustParse("1Gi"), Inodes: 20000}, // the machine's may be shorter than the memory
	})[0]
	ns := l.Namespace(t)
	pods := load(t, l, ns)
	watchUntil(t, l.Kubeconfig(), node.Name, "all pods to be measured", func(seen look) bool {
		measured := map[string]int64{}
		for _, r := range seen.Ranking {
			if r.Usage != nil {
				measured[r.Name] = *r.Usage
			}
		}
		return measured["greedy"] >= 60<<20 && measured["steady"] >= 20<<20 && measured["quiet"] >= 10<<20
	})

	asked := show(t, l.Kubeconfig(), node.Name, "--what-if", "allocatableMemory.available=50Mi", "-o", "json")
	var seen look
	if err := json.Unmarshal([]byte(asked.out), &seen); asked.code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s", asked.code, err, asked.err)
	}
	if seen.Victim.Name != "greedy" || seen.Victim.Signal != "allocatableMemory.available" || seen.Victim.GraceSeconds != 1 || seen.ConfigFrom != "kubelet" {
		t.Errorf("victim %+v by the thresholds of %s, want greedy with 1s by those of the kubelet", seen.Victim, seen.ConfigFrom)
	}
	adjusted := map[string]int{}
	for _, o := range seen.OOM {
		adjusted[o.Name] = o.OOMScoreAdj
	}
	if adjusted["greedy"] != 1000 || adjusted["quiet"] != -997 || adjusted["steady"] < 3 || adjusted["steady"] > 999 {
		t.Errorf("oom_score_adj %v", adjusted)
	}
	page := show(t, l.Kubeconfig(), node.Name)
	for _, want := range []string{"allocatableMemory.available", "greedy", "Order kubelet", "hard 100Mi"} {
		if !strings.Contains(page.out, want) {
			t.Errorf("no %q in\n%s%s", want, page.out, page.err)
		}
	}
	t.Log(page.out)

	post(t, pods["greedy"], "/memory?mib=280&rate=100")
	testlab.WaitFor(t, l.Pods(ns), "the kubelet to evict a pod", func(all []*corev1.Pod) bool {
		for _, pod := range all {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonTerminationByKubelet {
					if pod.Name != seen.Victim.Name {
						t.Errorf("the kubelet evicted %s: %s", pod.Name, c.Message)
					}
					return true
				}
			}
		}
		return false
	})
}

func post(t testing.TB, pod *corev1.Pod, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), showPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+pod.Status.PodIP+":8080"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Logf("%s did not answer %s, as it may when it is evicted for it: %v", pod.Name, path, err)
		return
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestPressureSaysWhatIsInTheWay(t *testing.T) {
	l := testlab.Get(t)
	node := l.RealNodes(t, 1)[0]
	read := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list", "watch"}}}
	_, reader := l.As(t, read)
	_, unprivileged := l.As(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}}})
	check := func(got shown, want string) {
		t.Helper()
		if got.code != 1 || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("exit %d, want 1 and %q:\n%s%s", got.code, want, got.out, got.err)
		}
		t.Log(strings.TrimSpace(got.err))
	}
	check(show(t, reader, node.Name), "you may not get nodes/proxy")
	check(show(t, unprivileged, node.Name), "you may not get nodes:")
	check(show(t, l.Kubeconfig(), node.Name+"x"), "did you mean "+node.Name)
	check(show(t, l.Kubeconfig(), deaf(t, l, node.Name)), "the apiserver cannot reach it")
}

// deaf makes a node object with the address of a real one and a port on which nothing listens.
func deaf(t *testing.T, l *testlab.Lab, real string) string {
	t.Helper()
	nodes := l.Client().CoreV1().Nodes()
	object, err := nodes.Get(t.Context(), real, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: real + "-deaf"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Delete(context.WithoutCancel(t.Context()), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	made.ResourceVersion = "" // the control plane's taints may have come meanwhile, and stay
	made.Status.Addresses = object.Status.Addresses
	made.Status.DaemonEndpoints.KubeletEndpoint.Port = 1
	if _, err := nodes.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return made.Name
}
