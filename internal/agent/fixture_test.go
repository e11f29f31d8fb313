package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

const mib = 1 << 20

// fakeNode is a machine of 8 GiB with cgroup v2 whose pods may use 1000 MiB together.
type fakeNode struct {
	t    *testing.T
	root string
	used map[types.UID]int64
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	n := &fakeNode{t: t, root: t.TempDir(), used: map[types.UID]int64{}}
	n.write("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
	n.write("proc/self/cgroup", "0::/system.slice/usher.service\n")
	n.write("sys/fs/cgroup/system.slice/usher.service/cgroup.procs", strconv.Itoa(os.Getpid())+"\n")
	n.write("proc/meminfo", "MemTotal: 8388608 kB\nSwapTotal: 0 kB\n")
	n.write("proc/sys/kernel/pid_max", "100000\n")
	n.write("proc/sys/kernel/threads-max", "100000\n")
	n.write("proc/loadavg", "0 0 0 1/900 1\n")
	n.write("var/lib/kubelet/config.yaml", "evictionHard: {memory.available: 100Mi}\n")
	n.write("sys/fs/cgroup/cgroup.controllers", "memory pids\n")
	n.write("sys/fs/cgroup/memory.stat", "anon 1000000000\nfile 0\ninactive_file 0\n")
	n.write("sys/fs/cgroup/kubepods/memory.max", strconv.Itoa(1000*mib)+"\n")
	n.write("sys/fs/cgroup/kubepods/memory.stat", "inactive_file 0\n")
	n.sum()
	return n
}

func (n *fakeNode) write(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *fakeNode) read(name string) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, name))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// uses sets what a pod uses, in MiB.
func (n *fakeNode) uses(uid types.UID, size int64) {
	n.t.Helper()
	n.used[uid] = size * mib
	folder := n.folder(uid)
	n.write(folder+"/memory.current", strconv.FormatInt(size*mib, 10)+"\n")
	n.write(folder+"/memory.max", "max\n")
	n.write(folder+"/memory.stat", fmt.Sprintf("anon %d\ninactive_file 0\n", size*mib))
	n.write(folder+"/cgroup.procs", "")
	n.write(folder+"/cgroup.kill", "")
	n.sum()
}

func (n *fakeNode) folder(uid types.UID) string {
	return "sys/fs/cgroup/kubepods/besteffort/pod" + string(uid)
}

// ends takes a pod's cgroup away.
func (n *fakeNode) ends(uid types.UID) {
	n.t.Helper()
	delete(n.used, uid)
	if err := os.RemoveAll(filepath.Join(n.root, n.folder(uid))); err != nil {
		n.t.Fatal(err)
	}
	n.sum()
}

func (n *fakeNode) sum() {
	n.t.Helper()
	var all int64
	for _, used := range n.used {
		all += used
	}
	n.write("sys/fs/cgroup/kubepods/memory.current", strconv.FormatInt(all, 10)+"\n")
}

// fakeCluster answers as it is set up to and records what it was asked, as "verb pod".
type fakeCluster struct {
	mu      sync.Mutex
	asked   []string
	shown   []act.NodeSays
	events  []string
	answers map[string]answers.Answer     // by "verb pod"; Accepted otherwise
	lost    string                        // "verb pod" that is carried out, and whose answer does not arrive
	then    func(verb string, pod string) // after an act that is carried out
	slow    time.Duration                 // how long a request takes to be made
	hang    string                        // "verb pod" that is answered when it is given up: a removal or a withdrawal
	tardy   string                        // "verb pod" that takes a second: a withdrawal
	deaf    bool                          // it is answered a minute after that
	mending time.Duration                 // how long it takes to take an annotation back
	glass   string                        // the value of the annotation that was written last
	over    bool                          // the agent has ended, and asks for nothing any more
	late    []string                      // what it asked all the same
}

// end says that the agent has ended; the returned function returns what it asks after that.
func (c *fakeCluster) end() (late func() []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return func() []string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Clone(c.late)
	}
}

func (c *fakeCluster) ask(verb string, pod *snapshot.Pod, detail string) answers.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := verb + " " + pod.Name
	if c.over {
		c.late = append(c.late, what)
	}
	c.asked = append(c.asked, strings.TrimSpace(what+" "+detail))
	if answer, set := c.answers[what]; set {
		return answer
	}
	if c.then != nil {
		c.then(verb, pod.Name)
	}
	if c.lost == what {
		return answers.Answer{Code: answers.Unavailable, Message: "timeout"}
	}
	return answers.Answer{Code: answers.Accepted}
}

// answer says how "verb pod" is answered from now on; nil: Accepted.
func (c *fakeCluster) answer(what string, with *answers.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.answers, what); with != nil {
		c.answers[what] = *with
	}
}

func (c *fakeCluster) log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func (c *fakeCluster) givenUp(ctx context.Context) answers.Answer {
	<-ctx.Done()
	if c.deaf {
		<-time.After(time.Minute)
	}
	return answers.Answer{Code: answers.Unavailable, Message: ctx.Err().Error()}
}

func (c *fakeCluster) Evict(_ context.Context, pod *snapshot.Pod, grace time.Duration) answers.Answer {
	return c.ask("evict", pod, grace.String())
}

func (c *fakeCluster) Remove(ctx context.Context, pod *snapshot.Pod, grace time.Duration) answers.Answer {
	if c.hang == "remove "+pod.Name {
		return c.givenUp(ctx)
	}
	return c.ask("remove", pod, grace.String())
}

func (c *fakeCluster) Ask(ctx context.Context, pod *snapshot.Pod) answers.Answer {
	select {
	case <-ctx.Done():
		return c.givenUp(ctx)
	case <-time.After(c.slow):
	}
	return c.ask("request", pod, "")
}

func (c *fakeCluster) Withdraw(ctx context.Context, pod *snapshot.Pod) answers.Answer {
	if c.hang == "withdraw "+pod.Name {
		return c.givenUp(ctx)
	}
	if c.tardy == "withdraw "+pod.Name {
		<-time.After(time.Second)
	}
	return c.ask("withdraw", pod, "")
}

func (c *fakeCluster) BreakGlass(_ context.Context, pod *snapshot.Pod, value string, force bool) answers.Answer {
	c.mu.Lock()
	c.glass = value
	c.mu.Unlock()
	if force {
		return c.ask("break", pod, "forced")
	}
	return c.ask("break", pod, "")
}

func (c *fakeCluster) Unbreak(ctx context.Context, pod *snapshot.Pod, _ string) answers.Answer {
	select {
	case <-ctx.Done():
		return c.givenUp(ctx)
	case <-time.After(c.mending):
	}
	return c.ask("mend", pod, "")
}

func (c *fakeCluster) Disrupted(context.Context, *snapshot.Pod, time.Time, string) answers.Answer {
	return answers.Answer{Code: answers.Accepted}
}

func (c *fakeCluster) Show(_ context.Context, says act.NodeSays) answers.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = append(c.shown, says)
	return answers.Answer{Code: answers.Accepted}
}

func (c *fakeCluster) Record(_ context.Context, e act.Event) answers.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e.Reason)
	return answers.Answer{Code: answers.Accepted}
}

// world is a node with its agent, in a bubble of time.
type world struct {
	*fakeNode

	cluster *fakeCluster
	agent   *agent
}

// config is close to the limit of the fake node's pods: soft 200 MiB after 10 s, hard 100 MiB.
func config(root string) Config {
	c := Config{HostRoot: root}
	c.EvictionHard = map[string]string{"memory.available": "100Mi"}
	c.EvictionSoft = map[string]string{"allocatableMemory.available": "200Mi"}
	c.EvictionSoftGracePeriod = map[string]string{"allocatableMemory.available": "10s"}
	c.EvictionPressureTransitionPeriod = metav1.Duration{Duration: 20 * time.Second}
	return c.withDefaults()
}

// inWorld runs test beside an agent whose loop runs until test returns.
func inWorld(t *testing.T, prepare func(*world), test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		w := &world{fakeNode: n, cluster: &fakeCluster{answers: map[string]answers.Answer{}}}
		m, err := machine.Open(machine.Options{Root: n.root, HostRoot: n.root})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Node: "worker-1", Config: config(n.root), Cluster: w.cluster, Log: slog.New(slog.DiscardHandler)}
		thresholds, err := o.Config.Thresholds()
		if err != nil {
			t.Fatal(err)
		}
		if w.agent, err = newAgent(o, m, nil, thresholds); err != nil {
			t.Fatal(err)
		}
		w.agent.policies = newPolicies(func(context.Context, string) ([]v1alpha1.EvictionPolicy, error) {
			return []v1alpha1.EvictionPolicy{{Spec: v1alpha1.EvictionPolicySpec{Members: []v1alpha1.MemberSelector{{}}}}}, nil // selects all pods
		})
		w.agent.loop.podUsage.policyOf, w.agent.loop.podUsage.stays = w.agent.policies.of, w.agent.policies.stays
		w.agent.records = &records{dir: t.TempDir()}
		prepare(w)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.agent.decideBeside(ctx, w.agent.diskScanner.run, w.agent.statusWriter.run) }()
		test(w)
		stop()
		stopped := time.Now()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		longest := w.cluster.mending
		if w.cluster.deaf {
			longest = goodbyePatience + givenUpWithin
		}
		if took := time.Since(stopped); took > longest {
			t.Errorf("the agent took %s to end", took)
		}
		late := w.cluster.end()
		pass(time.Minute)
		if asked := late(); len(asked) > 0 {
			t.Errorf("the agent has ended, and asks %q", asked)
		}
	})
}

// pod makes one that runs here and uses so many MiB.
func (w *world) pod(name string, size int64, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBestEffort},
	}
	for _, f := range change {
		f(p)
	}
	w.uses(p.UID, size)
	if err := w.agent.podCache.Add(p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// synced says that all pods were listed.
func (w *world) synced(all ...*corev1.Pod) {
	w.t.Helper()
	objects := make([]any, 0, len(all))
	for _, p := range all {
		objects = append(objects, p)
	}
	if err := w.agent.podCache.Replace(objects, ""); err != nil {
		w.t.Fatal(err)
	}
}

// gone is what happens when a pod leaves: its memory comes back, and the apiserver knows it no more.
func (w *world) gone(name string) {
	w.t.Helper()
	uid := types.UID("uid-" + name)
	w.ends(uid)
	if err := w.agent.podCache.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}); err != nil {
		w.t.Fatal(err)
	}
}

func requesting(memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		p.Status.QOSClass = corev1.PodQOSBurstable
	}
}

func governedBy(policy string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.PolicyLabel: policy, "app": policy} }
}
