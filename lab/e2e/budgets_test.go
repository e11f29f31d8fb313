package e2e

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/testlab"
)

// Not parallel: the requests of every usher and kubectl of that time are counted.
func TestRequestsPerPod(t *testing.T) {
	const replicas = 20
	for _, tool := range both() {
		t.Run(tool.name, func(t *testing.T) {
			s := newStage(t)
			s.Deployment(t, s.ns, "web", replicas)
			s.MaxUnavailable(t, s.ns, "web", "2")
			s.settled(t, replicas)
			s.Nodes(t, 2)
			since := time.Now()
			tool.run(t, "drain", s.node).wantCode(t, 0)
			requests := s.Requests(t, tool.name+"/", since)
			per := float64(requests.Total()) / replicas
			t.Logf("%s: %.1f requests a pod: %v", tool.name, per, requests)
			if tool.name == "usher" && (per > 4 || requests.Of("get", "pods") > 0) {
				t.Errorf("%.1f requests a pod, want 4 at most and no GET of a pod: %v", per, requests)
			}
			if evictions := requests.Of("create", "pods/eviction"); evictions < replicas {
				t.Errorf("%d evictions were counted, there must have been %d", evictions, replicas)
			}
			if lowest := s.rec.lowestReady(t, "web"); lowest < replicas-2 {
				t.Errorf("only %d pods were ready, the budget needs %d", lowest, replicas-2)
			}
		})
	}
}

func TestBudgetIsSharedAcrossNodes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	nodes := append(s.Nodes(t, 2), s.node)
	s.Deployment(t, s.ns, "web", 9, spread)
	s.MinAvailable(t, s.ns, "web", "8")
	s.settled(t, 9)
	s.Nodes(t, 3)
	drainNode(t, nodes...).want(t, 0, "drained")
	if lowest := s.rec.lowestReady(t, "web"); lowest != 8 {
		t.Errorf("at the lowest %d pods were ready, want 8", lowest)
	}
	for _, node := range nodes {
		same(t, "left on "+node, s.rec.left(t, node), []string{})
	}
}

// spread deals the pods out over the nodes.
func spread(d *appsv1.Deployment) {
	d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: d.Spec.Selector,
	}}
}

// A pod that came back elsewhere under the same name is another pod. kubectl reads the name again and evicts that one
// too.
func TestPodRecreatedElsewhere(t *testing.T) {
	t.Parallel()
	t.Run("usher leaves it alone", func(t *testing.T) {
		s := heldByName(t)
		p := start(t, "drain", s.node)
		p.blocked(t, "BudgetExhausted")
		again := s.recreate(t, "db-0")
		s.release(t)
		p.wait(t).want(t, 0, "drained")
		if now := podNow(t, s.Lab, s.ns, "db-0"); now.UID != again.UID {
			t.Errorf("db-0 was removed from %s, which is not drained", again.Spec.NodeName)
		}
	})
	t.Run("kubectl evicts it", func(t *testing.T) {
		s := heldByName(t)
		ended := kubectlSays(t, "will retry", "drain", s.node)
		again := s.recreate(t, "db-0")
		s.release(t)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		s.WaitReady(t, s.ns, nil, 3) // it ends when db-0 is gone, perhaps before there is the next one
		// Not a failure: kubectl may become better, or have been slow this once.
		t.Logf("kubectl evicted the db-0 that had come back on %s: %t", again.Spec.NodeName, podNow(t, s.Lab, s.ns, "db-0").UID != again.UID)
	})
}

// recreate deletes a pod of the StatefulSet of held and waits until it is ready on another node.
func (s *stage) recreate(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	s.Nodes(t, 1)
	before := podNow(t, s.Lab, s.ns, name)
	if err := s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var after *corev1.Pod
	testlab.WaitFor(t, s.Pods(s.ns), name+" to come back", func(all []*corev1.Pod) bool {
		i := slices.IndexFunc(all, func(p *corev1.Pod) bool { return p.Name == name })
		if i < 0 || all[i].UID == before.UID || !testlab.PodReady(all[i]) {
			return false
		}
		after = all[i]
		return true
	})
	if after.Spec.NodeName == s.node {
		t.Fatalf("%s came back on the node that is drained", name)
	}
	return after
}

// kubectlSays starts kubectl and returns once it has said that on stderr; the channel gets how it ended.
func kubectlSays(t *testing.T, say string, args ...string) <-chan error {
	t.Helper()
	l := testlab.Get(t)
	cmd := exec.CommandContext(t.Context(), l.Binary(t, "kubectl"), args...)
	cmd.Env = environment(l.Kubeconfig())
	errOut, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(errOut)
	for !strings.Contains(lines.Text(), say) {
		if !lines.Scan() {
			t.Fatalf("kubectl ended (%v) and did not say %q", cmd.Wait(), say)
		}
	}
	ended := make(chan error, 1)
	go func() {
		for lines.Scan() { // so that it can go on writing
		}
		ended <- cmd.Wait()
	}()
	return ended
}

func TestEvictionFollowsTheBudgetAtOnce(t *testing.T) {
	t.Parallel()
	s := held(t)
	s.Nodes(t, 1)
	p := start(t, "drain", s.node)
	b := p.blocked(t, "BudgetExhausted")
	contains(t, b.Message, append(s.unready, "budget db", "needs 2", "has 1")...)
	if b.Dead {
		t.Error("the blocker is called dead, but ready pods clear it")
	}
	s.release(t)
	free := time.Now()
	p.wait(t).want(t, 0, "drained")
	t.Logf("three pods under maxUnavailable 1 took %s from the moment the budget allowed one", time.Since(free))
	if lowest := s.rec.lowestReady(t, "db"); lowest != 1 {
		t.Errorf("at the lowest %d pods were ready, want the 1 of the beginning", lowest)
	}
	same(t, "left", s.rec.left(t, s.node), []string{})
}

func TestDeadBudgetsAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	budgets := map[string]func(name string){
		"single":  func(name string) { s.MinAvailable(t, s.ns, name, "1") },
		"percent": func(name string) { s.MinAvailable(t, s.ns, name, "51%") },
		"none":    func(name string) { s.MaxUnavailable(t, s.ns, name, "0") },
	}
	for name, budget := range budgets {
		s.Deployment(t, s.ns, name, map[string]int32{"single": 1, "percent": 1, "none": 2}[name])
		budget(name)
	}
	s.settled(t, 4)
	f := drainNode(t, s.node, "--surge=never").want(t, 2, "blocked")
	dead := f.blockers("BudgetNeverAllows")
	if len(dead) != 4 {
		t.Errorf("%d pods are held for good, want 4: %+v", len(dead), dead)
	}
	for _, b := range dead {
		contains(t, b.Message, "can never allow")
		if b.Remedy == "" || !b.Dead {
			t.Errorf("no remedy, or not called dead: %+v", b)
		}
	}
	same(t, "gone", s.rec.ends(t, s.node), nil)
	text := usher(t, "drain", s.node, "--surge=never").wantCode(t, 2).Out
	for name := range budgets {
		contains(t, text, fmt.Sprintf("budget %s can never allow it", name))
	}
}

func TestTwoBudgets(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 2)
	s.MaxUnavailable(t, s.ns, "web", "1")
	s.WaitBudget(t, s.ns, "web", 2) // pods that the controller sees ready later are counted for one budget only
	s.MaxUnavailable(t, s.ns, "other", "1", func(b *policyv1.PodDisruptionBudget) {
		b.Spec.Selector.MatchLabels = testlab.Labels("web")
	})
	s.settled(t, 2)
	f := drainNode(t, s.node).want(t, 2, "blocked")
	if several := f.blockers("SeveralBudgets"); len(several) != 2 {
		t.Errorf("%d pods are under two budgets, want 2: %+v", len(several), f.End.Blockers)
	} else {
		contains(t, several[0].Message, "other", "web")
	}
	// kubectl gives the pod up at the server's 500.
	kubectl(t, "drain", s.node, "--timeout=5s").wantCode(t, 1).says(t, "more than one PodDisruptionBudget")
}
