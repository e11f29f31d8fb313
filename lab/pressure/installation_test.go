package pressure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

const (
	agentsNamespace = "usher-system-agent"
	agentsConfig    = `
apiVersion: v1
kind: ConfigMap
metadata: {name: usher-agent, namespace: usher-system-agent}
data:
  agent.yaml: |
    evictionHard: {memory.available: 300Mi, nodefs.available: 25%}
    evictionSoft: {}
    evictionPressureTransitionPeriod: 5s
`
)

// runPatience is longer than the programs' own, which say what they wait for.
const runPatience = 11 * time.Minute

// installation is Usher in a lab, as its program has installed it.
type installation struct {
	lab     *testlab.Lab
	program string
}

// run runs a program of the lab's users, and returns what it says.
func (i *installation) run(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", i.lab.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// configure gives the agents thresholds, in the way that the documentation shows.
func (i *installation) configure(t *testing.T) {
	t.Helper()
	kubectl := i.lab.Binary(t, "kubectl")
	i.run(t, agentsConfig, kubectl, "apply", "-f", "-")
	i.run(t, "", kubectl, "-n", agentsNamespace, "rollout", "restart", "daemonset/usher-agent")
	i.run(t, "", kubectl, "-n", agentsNamespace, "rollout", "status", "daemonset/usher-agent", "--timeout=5m")
}

// podAgent is an agent in a pod.
type podAgent struct {
	*agent
	pod *corev1.Pod
}

// agents follows what the agents say, by their nodes.
func (i *installation) agents(t *testing.T, nodes []*realnode.Node) map[string]*podAgent {
	t.Helper()
	all := map[string]*podAgent{}
	for _, pod := range i.lab.WaitReady(t, agentsNamespace, nil, len(nodes)) {
		all[pod.Spec.NodeName] = &podAgent{agent: i.follow(t, pod), pod: pod}
	}
	for _, node := range nodes {
		if all[node.Name] == nil {
			t.Fatalf("%s has no agent", node.Name)
		}
		// The node's own folder, behind the agent's mount.
		all[node.Name].records = fmt.Sprintf("/proc/%d/root/var/lib/usher-agent", node.PID())
	}
	return all
}

// follow reads the log of an agent's pod from its beginning until the pod, or the apiserver, ends.
func (i *installation) follow(t *testing.T, pod *corev1.Pod) *agent {
	t.Helper()
	pods := i.lab.Client().CoreV1().Pods(pod.Namespace)
	log, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent("")
	go func() {
		a.read(log)
		a.failure = log.Close()
		close(a.ended)
	}()
	t.Cleanup(func() { a.dump(t) })
	return a
}

// explain reads the latest record that the agent has left on its node.
func (i *installation) explain(t *testing.T, a *podAgent) look {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(a.records, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no record in %s (%v)", a.records, err)
	}
	var seen look
	if err := json.Unmarshal([]byte(i.run(t, "", i.program, "pressure", "-f", files[len(files)-1], "-o", "json")), &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

func scrape(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+pod.Status.PodIP+":9754/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// uninstall looks for what is left after usher uninstall.
func (i *installation) uninstall(t *testing.T, nodes []*realnode.Node) {
	t.Helper()
	if left := i.left(t); len(left) != len(nodes) {
		t.Errorf("before: agents have written on %v, want all nodes", left)
	}
	t.Log(i.run(t, "", i.program, "uninstall"))
	if left := i.left(t); len(left) > 0 {
		t.Errorf("the agents' conditions or taints are left on %v", left)
	}
	kubectl := i.lab.Binary(t, "kubectl")
	everything := "daemonsets,pods,serviceaccounts,configmaps,clusterroles,clusterrolebindings,namespaces,customresourcedefinitions"
	left := i.run(t, "", kubectl, "get", everything, "--all-namespaces", "-o", "name")
	for line := range strings.Lines(left) {
		if strings.Contains(line, "usher") {
			t.Errorf("left: %s", line)
		}
	}
}

// left are the nodes on which an agent's condition or taint is.
func (i *installation) left(t *testing.T) []string {
	t.Helper()
	list, err := i.lab.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, node := range list.Items {
		condition := func(c corev1.NodeCondition) bool { return strings.HasPrefix(string(c.Type), "usher.sh/") }
		taint := func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "usher.sh/") }
		if slices.ContainsFunc(node.Status.Conditions, condition) || slices.ContainsFunc(node.Spec.Taints, taint) {
			found = append(found, node.Name)
		}
	}
	return found
}
