package pressure

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/image"
	"usher.sh/usher/lab/realnode"
	"usher.sh/usher/lab/testlab"
)

// agentsMemory is what agentsConfig says of memory.
const agentsMemory = 300 * mib

// TestAgentsInPods runs the agents as usher install --agent does, on nodes whose kubelets have different cgroup roots.
func TestAgentsInPods(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	l := testlab.Start(t)
	archive, program := l.UsherImage(t)
	s := storm{
		name: "agents in pods", node: ownDisk(),
		pods: append(innocents(), resident{name: "leak", uses: 60}, resident{name: "late", uses: 60}, resident{name: "filler"}, resident{name: "scratch", scratch: true}),
		// So that both kinds of disk use are known: filler writes to its writable layer.
		before: map[string]string{"scratch": "/disk?mib=60&dir=" + scratchDir},
	}
	s.node.Count, s.node.Memory, s.node.Images = 2, resource.MustParse("1Gi"), []string{archive}
	nodes := l.StartRealNodes(t, s.node)
	l.ServeServices(t)
	beside := startAgent(t, l, nodes[0], hardMemory(1))
	beside.stop(t)

	i := &installation{lab: l, program: program}
	i.run(t, "", i.program, "install", "--image", image.UsherName, "--agent")
	i.configure(t)
	agents := i.agents(t, nodes)
	for _, node := range nodes {
		agents[node.Name].greets(t, node)
		agents[node.Name].missesNothing(t, beside)
	}
	if t.Failed() {
		t.FailNow() // what it cannot see is waited for in vain
	}

	st := s.settle(t, l, nodes[0])
	st.await(t)
	i.alone(t, st, agents[nodes[0].Name].pod)
	agents = i.agents(t, nodes) // their logs were followed through the apiserver
	i.memory(t, st, agents[nodes[0].Name])
	i.disk(t, st, agents[nodes[0].Name])
	if acts := names(agents[nodes[1].Name].acts()); len(acts) > 0 {
		t.Errorf("on the other node %v were asked to go", acts)
	}
	for _, node := range nodes {
		agents[node.Name].readsEverything(t)
	}
	i.uninstall(t, nodes)
}

// greets compares what the agent says of its node with how the node is.
func (p *podAgent) greets(t *testing.T, node *realnode.Node) {
	t.Helper()
	p.awaitGreeting(t)
	folder, _ := podsCgroup(node)
	said := strings.Join(p.saying(), "\n")
	for _, want := range []string{
		"looks after node " + node.Name + ":",
		"pods in " + folder + ".",
		"at once below 300Mi of memory.available, which is",
		"at once below 25% of nodefs.available, which is",
		"It runs in the pod with the UID " + string(p.pod.UID),
		"Without the apiserver it can kill pods on the node.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the agent does not say %q:\n%s", want, said)
		}
	}
	for _, wrong := range []string{"cannot be read", "cannot read"} {
		if strings.Contains(said, wrong) {
			t.Errorf("the agent says %q:\n%s", wrong, said)
		}
	}
}

// missesNothing compares with an agent that is a process of root on the same machine, which has all that there is to have.
func (p *podAgent) missesNothing(t *testing.T, beside *agent) {
	t.Helper()
	here := p.saying()
	for _, line := range beside.saying() {
		has := strings.HasPrefix(line, "It is woken") || strings.HasPrefix(line, "For itself")
		if has && !slices.Contains(here, line) {
			t.Errorf("a process beside the kubelet says %q, and the agent in a pod says %q", line, here)
		}
	}
}

// readsEverything looks for readings that failed.
func (p *podAgent) readsEverything(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.log {
		if strings.Contains(e.Msg, "could not be read") {
			t.Errorf("%s: %+v", p.pod.Spec.NodeName, e)
		}
	}
}

// memory has leak use up what pods may have together.
func (i *installation) memory(t *testing.T, st *stage, a *podAgent) {
	t.Helper()
	st.removes(t, a, "leak", "/memory?mib=1000&rate=20", func() { st.awaitSaid(t, true) })
	st.awaitSaid(t, false)
	st.awaitEvent(t, st.space, "RemovedForPressure", "leak")
	st.awaitEvent(t, metav1.NamespaceDefault, "UnderPressure", st.node.Name)
	if seen := i.explain(t, a); seen.Victim.Name != "leak" || seen.Victim.Signal != memory {
		t.Errorf("the agent's record names %+v, want leak for %s", seen.Victim, memory)
	}
	metrics := scrape(t, a.pod)
	for _, want := range []string{
		`usher_agent_answers_total{answer="Accepted",kind="Remove"} 1`, "usher_agent_apiserver_reachable 1", `usher_agent_available{signal="nodefs.available"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the agent's metrics:\n%s", want, metrics)
		}
	}
}

// disk has filler use up the node's disk with its writable layer.
func (i *installation) disk(t *testing.T, st *stage, a *podAgent) {
	t.Helper()
	st.removes(t, a, "filler", "/disk?mib=1000&rate=15", func() {})
	used := map[string]int64{}
	seen := i.explain(t, a) // before the runtime has given the space back, which may take it longer than the agent waits
	for _, r := range seen.Ranking {
		if r.Usage != nil {
			used[r.Name] = *r.Usage
		}
	}
	if seen.Victim.Name != "filler" || used["filler"] <= 60*mib || used["scratch"] < 60*mib {
		t.Errorf("the agent's record names %+v, of which filler and scratch have written %d and %d bytes", seen.Victim, used["filler"], used["scratch"])
	}
}

// removes lets a load loose and sees the agent remove the pod that causes it, and the kubelet do nothing. The load is slow
// enough for a busy machine: at a fast one the agent kills, and the kubelet acts as well. Meanwhile waits for what passes.
func (st *stage) removes(t *testing.T, a *podAgent, name, load string, meanwhile func()) {
	t.Helper()
	began := time.Now()
	var loads sync.WaitGroup
	defer loads.Wait()
	cause := st.pods[name]
	loads.Go(func() { _ = send(t.Context(), cause, load) }) // it ends with the pod
	meanwhile()
	e := a.awaitEntry(t, "a pod to be removed", func(e entry) bool { return e.begun() && e.Time.After(began) })
	if e.name() != name || e.Action != "Remove" {
		t.Fatalf("%+v, want %s removed", e, name)
	}
	st.awaitGone(t, name)
	a.awaitRecord(t, began)
	delete(st.pods, name)
	if dead := st.dead(st.list(t)); len(dead) > 0 {
		t.Errorf("%v came to harm as well", dead)
	}
	if at := kubeletDecided(t, st.node, began); !at.IsZero() {
		t.Errorf("the kubelet decided as well, at %s", at)
	}
}

// awaitEvent waits for an event of the agent.
func (st *stage) awaitEvent(t *testing.T, namespace, reason, about string) {
	t.Helper()
	source := await.Source[*eventsv1.Event]{Client: st.lab.Client().EventsV1().RESTClient(), Resource: "events", Namespace: namespace}
	testlab.WaitFor(t, source, reason+" of "+about, func(all []*eventsv1.Event) bool {
		return slices.ContainsFunc(all, func(e *eventsv1.Event) bool {
			return e.ReportingController == "usher-agent" && e.Reason == reason && e.Regarding.Name == about
		})
	})
}

// awaitRelief waits until a limit is not met any more.
func awaitRelief(t *testing.T, m meter, l limit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), showPatience)
	defer cancel()
	if _, err := m.until(ctx, func(a amount) bool { return !l.met(a) }); err != nil {
		t.Fatalf("waiting for the end of the shortage: %v", err)
	}
}

// alone brings the node into trouble while the apiserver is away: late's processes are killed on the node.
func (i *installation) alone(t *testing.T, st *stage, pod *corev1.Pod) {
	t.Helper()
	i.lab.StopAPIServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), showPatience)
	defer cancel()
	// It is the end of late that is waited for: the shortage may pass before the test sees it.
	if err := send(ctx, st.pods["late"], "/memory?mib=1000&rate=50"); err == nil || ctx.Err() != nil {
		t.Fatalf("late has taken all memory, or hangs, and was to be killed: %v", err)
	}
	awaitRelief(t, memoryOf(st.node), limit{amount: agentsMemory})
	i.lab.StartAPIServer(t)
	testlab.WaitFor(t, i.lab.Pods(st.space), "the kubelet to report the end of late", func(all []*corev1.Pod) bool {
		return len(st.dead(all)) > 0
	})
	if dead := sorted(st.dead(st.list(t))); !slices.Equal(dead, []string{"late"}) {
		t.Errorf("%v came to harm, want late alone", dead)
	}
	killed := i.follow(t, pod).awaitEntry(t, "the agent to have killed", func(e entry) bool { return e.Action == "KillLocally" && e.Answer != "" })
	if killed.name() != "late" || killed.Killed == 0 {
		t.Errorf("%+v, want processes of late killed", killed)
	}
	st.awaitSaid(t, false)
	// Its kubelet has started it again, and looked for the apiserver more and more seldom: until it observes removals
	// again, no pod that is removed would end.
	if err := i.lab.Client().CoreV1().Pods(st.space).Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	st.awaitGone(t, "late")
	delete(st.pods, "late")
}
