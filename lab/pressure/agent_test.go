package pressure

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"

	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

// agent is `usher agent`, a process beside the kubelet of a real node, with the rights that config/agent gives it, or in a
// pod.
type agent struct {
	cmd     *exec.Cmd // nil in a pod
	records string
	ended   chan struct{}
	failure error // after ended

	mu   sync.Mutex
	said []string
	log  []entry
	more chan struct{} // closed with the next line of either
}

// entry is a line of the agent's log.
type entry struct {
	Time    time.Time
	Msg     string
	Action  string
	Pod     string // namespace/name
	Reason  string
	Answer  string
	Message string
	Killed  int
}

func (e entry) name() string {
	_, name, _ := strings.Cut(e.Pod, "/")
	return name
}

// begun reports whether the line says that a pod is to go.
func (e entry) begun() bool {
	return e.Answer == "" && (e.Action == "Evict" || e.Action == "Remove" || e.Action == "KillLocally")
}

// agentRights are those that are installed with the agent.
func agentRights(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "agent", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

func newAgent(records string) *agent {
	return &agent{records: records, ended: make(chan struct{}), more: make(chan struct{})}
}

// startAgent starts the agent with thresholds, and returns when it has looked at its node and its pods, as far as an agent that
// was killed there has not left its word. It ends with the test.
func startAgent(t testing.TB, l *testlab.Lab, node *realnode.Node, thresholds string) *agent {
	t.Helper()
	_, kubeconfig := l.As(t, agentRights(t))
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.yaml")
	text := fmt.Sprintf("hostRoot: /proc/%d/root\nevictionPressureTransitionPeriod: 5s\n%s\n", node.PID(), thresholds)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAgent(filepath.Join(dir, "state"))
	a.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), l.Usher(t), "agent", "--kubeconfig", kubeconfig,
		"--node", node.Name, "--config", config, "--cgroup-root", "/"+node.Slot().Name(), "--state-dir", a.records, "--metrics-address", "0")
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := a.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		a.read(out, log)
		a.failure = a.cmd.Wait()
		close(a.ended)
	}()
	t.Cleanup(func() { a.dump(t) })
	t.Cleanup(a.kill)
	a.awaitGreeting(t)
	// It greets before its pods are listed, and reports how its node is only after that.
	testlab.WaitFor(t, l.AllNodes(), "the agent to say how its node is", func(all []*corev1.Node) bool {
		return slices.ContainsFunc(all, func(n *corev1.Node) bool { return n.Name == node.Name && hasSaid(n) })
	})
	return a
}

// hasSaid reports whether an agent that has not stopped has said how the node is.
func hasSaid(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == saidCondition && c.Status != corev1.ConditionUnknown
	})
}

// awaitGreeting waits until the agent has looked at its node, and has said so.
func (a *agent) awaitGreeting(t testing.TB) {
	t.Helper()
	a.await(t, "the agent to compare itself with the kubelet", func() bool {
		return strings.Contains(strings.Join(a.said, "\n"), "The kubelet's thresholds are")
	})
}

// read takes in what the agent says until it says no more.
func (a *agent) read(from ...io.Reader) {
	var all sync.WaitGroup
	for _, one := range from {
		all.Go(func() {
			for lines := bufio.NewScanner(one); lines.Scan(); {
				a.collect(lines.Bytes())
			}
		})
	}
	all.Wait()
}

// collect separates the log, which is JSON, from what is printed for people.
func (a *agent) collect(line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var e entry
	if json.Unmarshal(line, &e) == nil {
		a.log = append(a.log, e)
	} else {
		a.said = append(a.said, string(line))
	}
	close(a.more)
	a.more = make(chan struct{})
}

// await waits until done, which is called with what the agent said so far and may read it.
func (a *agent) await(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), showPatience)
	defer cancel()
	for {
		a.mu.Lock()
		ok, more := done(), a.more
		a.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
			continue
		case <-a.ended:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
		select {
		case <-more: // its last words come before its end
		default:
			t.Fatalf("waiting for %s: the agent ended: %v", what, a.failure)
		}
	}
}

// awaitEntry waits for a line of the log, which it returns.
func (a *agent) awaitEntry(t testing.TB, what string, match func(entry) bool) entry {
	t.Helper()
	var found entry
	a.await(t, what, func() bool {
		for _, found = range a.log {
			if match(found) {
				return true
			}
		}
		return false
	})
	return found
}

// recordName is how records are named: by the time at which was decided.
const recordName = "20060102T150405.000000000Z.json"

// awaitRecord waits for a record of what was decided since then, which the agent writes after it has said what it does.
func (a *agent) awaitRecord(t testing.TB, since time.Time) {
	t.Helper()
	before := filepath.Join(a.records, since.UTC().Format(recordName))
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, showPatience, true, func(context.Context) (bool, error) {
		files, err := filepath.Glob(filepath.Join(a.records, "*.json"))
		return len(files) > 0 && files[len(files)-1] > before, err
	})
	if err != nil {
		t.Fatalf("waiting for a record of what the agent has done: %v", err)
	}
}

// saying is what the agent has said to people so far.
func (a *agent) saying() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

// acts are the lines that say that a pod is to go.
func (a *agent) acts() []entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []entry
	for _, e := range a.log {
		if e.begun() {
			found = append(found, e)
		}
	}
	return found
}

// kill ends the agent as a crash would.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	<-a.ended
}

// stop ends the agent with SIGTERM, and waits until it has ended.
func (a *agent) stop(t testing.TB) {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-a.ended
	if a.failure != nil {
		t.Errorf("the agent ended with %v", a.failure)
	}
}

// dump logs what the agent said in a test that failed.
func (a *agent) dump(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t.Logf("the agent said:\n%s", strings.Join(a.said, "\n"))
	for _, e := range a.log {
		t.Logf("%s %+v", e.Time.Format("15:04:05.000"), e)
	}
}
