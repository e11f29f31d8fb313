package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"usher.sh/usher/lab/testlab"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnknownNode(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := usher(t, "drain", s.node, s.node+"x").wantCode(t, 1)
	r.says(t, `no node "`+s.node+`x"`, "did you mean "+s.node)
	if s.cordoned(t) {
		t.Error("the node that exists was cordoned")
	}
}

func TestNoPermission(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "a", podOn(s.node))
	s.settled(t, 1)
	tests := map[string]struct {
		rules []rbacv1.PolicyRule
		says  []string
	}{
		"to read":   {nil, []string{"list", "forbidden"}},
		"to cordon": {reading, []string{"patch", "nodes"}},
		"to evict":  {slices.Concat(reading, nodes), []string{"create", "pods/eviction", s.ns}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, kubeconfig := s.As(t, tt.rules)
			usherIn(t, kubeconfig, "drain", s.node, "--force", "--uncordon-on-failure").wantCode(t, 1).says(t, tt.says...)
			same(t, "left", s.names(t), []string{"a"})
		})
	}
}

func TestUnreachableAPIServer(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:1" // a port that is never given to a program that asks for any
	config, err := clientcmd.LoadFromFile(testlab.Get(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Clusters {
		c.Server = "https://" + address
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	usherIn(t, path, "drain", "a").wantCode(t, 1).says(t, address)
}

func TestBadKubeconfig(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none")
	garbage := writeFile(t, "\tnot: [yaml")
	usherIn(t, "", "drain", "a", "--kubeconfig", missing).wantCode(t, 1).says(t, missing)
	usherIn(t, garbage, "drain", "a").wantCode(t, 1).says(t, "kubeconfig", garbage)
	usherIn(t, "", "drain", "a").wantCode(t, 1).says(t, "no cluster is configured")
}

func TestBadDump(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 10<<20)
	source := rand.NewChaCha8([32]byte{1})
	if _, err := source.Read(noise); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"missing file":    "",
		"not yaml":        "\t{no: yaml",
		"no objects":      "hello: world\n",
		"10 MB of noise":  string(noise),
		"10 MB of braces": strings.Repeat("{", 10<<20),
		"10 MB of words":  strings.Repeat("drain all the nodes\n", 10<<20/20),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "missing")
			if text != "" {
				path = writeFile(t, text)
			}
			r := usherIn(t, "", "plan", "a", "-f", path).wantCode(t, 1).says(t, path)
			if len(r.Err) > 1000 || strings.Contains(r.Err, "goroutine") || r.Out != "" {
				t.Errorf("not a clear sentence: %d bytes out, stderr %.1000q", len(r.Out), r.Err)
			}
		})
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"drain"},
		{"drain", "a", "-l", "b=c"},
		{"drain", "pod/a"},
		{"drain", "a", "--surge=perhaps"},
		{"drain", "a", "--deadline=yesterday"},
		{"drain", "a", "--at-deadline=delete"},
		{"drain", "a", "--timeout=-1s"},
		{"drain", "a", "--no-such-flag"},
		{"drain", "a", "--pod-selector", "=="},
		{"dry"},
	} {
		r := usher(t, args...).wantCode(t, 1)
		if !strings.HasPrefix(r.Err, "error: ") || r.Out != "" {
			t.Errorf("usher %v: %q %q", args, r.Out, r.Err)
		}
	}
}

// Not parallel: it takes the apiserver away from all tests.
func TestAPIServerRestartsInTheMiddle(t *testing.T) {
	s := held(t)
	s.Nodes(t, 1)
	s.cordonSeen(t)
	p := start(t, "drain", s.node)
	p.blocked(t, "BudgetExhausted")
	s.RestartAPIServer(t)
	s.release(t)
	p.wait(t).want(t, 0, "drained")
	same(t, "left", s.names(t), nil)
	if lowest := s.rec.lowestReady(t, "db"); lowest != 1 {
		t.Errorf("at the lowest %d pods were ready, want the 1 of the beginning", lowest)
	}
}

// cordonSeen cordons the node and returns once the scheduler knows. A scheduler that learns of a cordon only after the apiserver
// was restarted binds pods to the node meanwhile, and a drain leaves those where they are.
func (s *stage) cordonSeen(t *testing.T) {
	t.Helper()
	_, err := s.Client().CoreV1().Nodes().Patch(t.Context(), s.node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, bound := 0, true; bound; i++ {
		name := fmt.Sprint("probe-", i)
		s.Pod(t, s.ns, name, func(p *corev1.Pod) { hostOnly(&p.Spec, s.node) })
		testlab.WaitFor(t, s.Pods(s.ns), "the scheduler to look at a pod", func(all []*corev1.Pod) bool {
			at := slices.IndexFunc(all, func(p *corev1.Pod) bool { return p.Name == name })
			if at < 0 {
				return false
			}
			bound = all[at].Spec.NodeName != ""
			return bound || slices.ContainsFunc(all[at].Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
			})
		})
		if err := s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// Not parallel, likewise. With no apiserver nothing can be tidied up: a user who presses Ctrl-C twice wants to leave at once.
func TestSecondInterruptLeavesAtOnce(t *testing.T) {
	s := held(t)
	p := start(t, "drain", s.node)
	p.blocked(t, "BudgetExhausted")
	s.StopAPIServer(t)
	p.signal(t, os.Interrupt)
	p.signal(t, syscall.SIGTERM)
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	s.StartAPIServer(t)
	s.release(t)
	s.Nodes(t, 1)
	drainNode(t, s.node).want(t, 0, "drained")
}
