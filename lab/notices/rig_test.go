package notices

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

const (
	nodeCount       = 3
	systemNamespace = "usher-system"
	agentsNamespace = systemNamespace + "-agent"
)

// agentsConfig has agents take no notice of a machine that is short of something, as the one that the lab is on may be.
const agentsConfig = `
apiVersion: v1
kind: Namespace
metadata: {name: usher-system-agent}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: usher-agent, namespace: usher-system-agent}
data:
  agent.yaml: |
    evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi}
    evictionSoft: {}
`

// rig is a lab of real machines with Usher on them, as usher install --node-notices installs it.
type rig struct {
	*testlab.Lab

	program      string
	namespace    string
	machines     []*machine
	maintenances await.Source[*v1alpha1.NodeMaintenance]
	dice         *rand.Rand
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Lab: testlab.Get(t), dice: rand.New(rand.NewPCG(*seed, 0))} //nolint:gosec // a seed gives the same again
	archive, program := r.UsherImage(t)
	r.program = program
	etcd := image.File{From: r.Binary(t, "etcd"), To: "/etcd"}
	nodes := r.StartRealNodes(t, join.Options{Count: nodeCount, OwnNetwork: true, Files: []image.File{etcd}, Images: []string{archive}})
	for _, node := range nodes {
		r.machines = append(r.machines, newMachine(t, node))
	}
	r.ServeServices(t)
	r.mustGiven(t, agentsConfig, r.Binary(t, "kubectl"), "apply", "-f", "-")
	r.must(t, r.program, "install", "--image", image.UsherName, "--node-notices=ec2,gce", "--timeout", "10m")
	t.Cleanup(func() { r.logSystem(t) })
	r.maintenances = await.Source[*v1alpha1.NodeMaintenance]{Client: r.UsherAPI(t), Resource: "nodemaintenances"}
	r.namespace = r.Namespace(t)
	return r
}

// must runs a program of the lab's users, also when the test has ended, and returns what it says.
func (r *rig) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	return r.mustGiven(t, "", program, args...)
}

func (r *rig) mustGiven(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), program, append([]string{"--kubeconfig", r.Kubeconfig()}, args...)...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command.Args, " "), err, out)
	}
	return string(out)
}

// logSystem shows what managers and agents have logged last, when the test has failed.
func (r *rig) logSystem(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	const most = 8 << 10
	for _, m := range r.machines {
		logs, _ := filepath.Glob(filepath.Join(m.Dir, "var/log/pods", systemNamespace+"*", "*", "*.log"))
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			t.Logf("%s:\n%s", strings.TrimPrefix(log, m.Dir), text[max(0, len(text)-most):])
		}
	}
}

// machineOf is that of a node.
func (r *rig) machineOf(node string) *machine {
	return r.machines[slices.IndexFunc(r.machines, func(m *machine) bool { return m.Name == node })]
}

// drains are the pods on a node that a drain for a notice is about.
func drains(all []*corev1.Pod, node string) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(all), func(p *corev1.Pod) bool {
		owner := metav1.GetControllerOf(p)
		return p.Spec.NodeName != node || owner != nil && owner.Kind == "DaemonSet"
	})
}

// givenBack waits until nothing of a notice is left on a node.
func (r *rig) givenBack(t *testing.T, node string) {
	t.Helper()
	testlab.WaitFor(t, r.maintenances, "the NodeMaintenance of "+node+" to go", func(all []*v1alpha1.NodeMaintenance) bool {
		return !slices.ContainsFunc(all, func(m *v1alpha1.NodeMaintenance) bool { return slices.Contains(m.Spec.Nodes.Names, node) })
	})
	testlab.WaitFor(t, r.AllNodes(), node+" to be given back", func(all []*corev1.Node) bool {
		at := slices.IndexFunc(all, func(n *corev1.Node) bool { return n.Name == node })
		return at >= 0 && !all[at].Spec.Unschedulable && len(all[at].Spec.Taints) == 0 && isReady(all[at])
	})
	testlab.WaitFor(t, r.Pods(agentsNamespace), "the agent of "+node, func(all []*corev1.Pod) bool {
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Spec.NodeName == node && testlab.PodReady(p) })
	})
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
