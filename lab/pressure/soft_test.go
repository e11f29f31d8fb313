package pressure

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.sh/usher/lab/realnode/join"
	"usher.sh/usher/lab/testlab"
)

// softly makes the agent act at a soft threshold long before the hard one.
const softly = "evictionHard: {memory.available: 150Mi}\nevictionSoft: {" + memory + ": 300Mi}\nevictionSoftGracePeriod: {" + memory + ": 2s}"

// crowd is a node with room for the first of its pods, guarded, to bring it into a soft shortage that the end of the
// second, next, relieves.
func crowd(t *testing.T, l *testlab.Lab, lingers time.Duration) *stage {
	t.Helper()
	s := storm{
		name: "a soft breach", node: join.Options{Count: 1, Memory: resource.MustParse("600Mi")}, thresholds: softly,
		pods: append(innocents(), resident{name: "guarded", uses: 60}, resident{name: "next", uses: 100, lingers: lingers}),
	}
	st := s.settle(t, l, l.StartRealNodes(t, s.node)[0])
	st.await(t)
	return st
}

// swell makes guarded take what brings the node below the soft threshold, and the first in order.
func (st *stage) swell(t *testing.T) {
	t.Helper()
	if err := send(t.Context(), st.pods["guarded"], "/memory?mib=180&rate=50"); err != nil {
		t.Fatal(err)
	}
}

func TestBudgetsHoldAtASoftThreshold(t *testing.T) {
	t.Parallel()
	l := testlab.Get(t)
	st := crowd(t, l, 0)
	l.MinAvailable(t, st.space, "guarded", "1")
	l.WaitBudget(t, st.space, "guarded", 1)
	a := startAgent(t, l, st.node, st.storm.thresholds)
	st.swell(t)

	st.awaitSaid(t, true) // before all else: it passes
	refused := a.awaitEntry(t, "guarded to be refused", func(e entry) bool { return e.name() == "guarded" && e.Answer != "" })
	if refused.Action != "Evict" || refused.Answer != "RefusedByBudget" {
		t.Errorf("guarded: %+v, want an eviction that its budget refused", refused)
	}
	st.awaitGone(t, "next")
	st.awaitSaid(t, false)
	if got := names(a.acts()); !slices.Equal(got, []string{"guarded", "next"}) {
		t.Errorf("asked to go: %v, want guarded and then next", got)
	}
	if dead := sorted(st.dead(st.list(t))); !slices.Equal(dead, []string{"next"}) {
		t.Errorf("%v went, want next alone", dead)
	}
	a.explains(t)
	a.stop(t)
	st.nothingLeft(t)
}

// A pod that an agent before this one has asked to go counts as leaving.
func TestAgentStartedAgainWaitsForWhoIsLeaving(t *testing.T) {
	t.Parallel()
	l := testlab.Get(t)
	st := crowd(t, l, 8*time.Second)
	l.MinAvailable(t, st.space, "guarded", "1")
	l.WaitBudget(t, st.space, "guarded", 1)
	first := startAgent(t, l, st.node, st.storm.thresholds)
	st.swell(t)
	first.awaitEntry(t, "next to be asked to go", func(e entry) bool { return e.name() == "next" && e.Answer == "Accepted" })
	first.kill()

	second := startAgent(t, l, st.node, st.storm.thresholds)
	st.awaitGone(t, "next")
	st.awaitSaid(t, false)
	for _, name := range names(second.acts()) {
		if name != "guarded" {
			t.Errorf("the second agent asked %s to go, and one pod was leaving", name)
		}
	}
	if dead := sorted(st.dead(st.list(t))); !slices.Equal(dead, []string{"next"}) {
		t.Errorf("%v went, want next alone", dead)
	}
	second.stop(t)
	st.nothingLeft(t)
}

func names(acts []entry) []string {
	var out []string
	for _, e := range acts {
		if !slices.Contains(out, e.name()) {
			out = append(out, e.name())
		}
	}
	return out
}

// awaitGone waits until a pod is not in the API any more.
func (st *stage) awaitGone(t *testing.T, name string) {
	t.Helper()
	testlab.WaitFor(t, st.lab.Pods(st.space), name+" to be gone", func(all []*corev1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.UID == st.pods[name].UID })
	})
}

const (
	saidCondition = "usher.sh/MemoryPressure"
	saidTaint     = "usher.sh/memory-pressure"
)

// awaitSaid waits until the agent's condition and its taint are on the node, or until neither is.
func (st *stage) awaitSaid(t *testing.T, pressed bool) {
	t.Helper()
	testlab.WaitFor(t, st.lab.AllNodes(), "the agent to say how its node is", func(all []*corev1.Node) bool {
		for _, n := range all {
			if n.Name == st.node.Name {
				condition, taint := said(n)
				return condition == pressed && taint == pressed
			}
		}
		return false
	})
}

func said(n *corev1.Node) (condition, taint bool) {
	condition = slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == saidCondition && c.Status == corev1.ConditionTrue
	})
	taint = slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == saidTaint })
	return condition, taint
}

// explains reads the agent's latest record with usher pressure.
func (a *agent) explains(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(a.records, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the agent kept no record (%v)", err)
	}
	page := show(t, os.DevNull, "-f", files[len(files)-1])
	for _, want := range []string{"next", "soft 300Mi"} {
		if page.code != 0 || !strings.Contains(page.out, want) {
			t.Errorf("usher pressure of the agent's record: exit %d, no %q in\n%s%s", page.code, want, page.out, page.err)
		}
	}
}

// nothingLeft looks for what an agent that has stopped must not leave in the API.
func (st *stage) nothingLeft(t *testing.T) {
	t.Helper()
	st.awaitSaid(t, false)
	for _, p := range st.list(t) {
		for key := range p.Annotations {
			if strings.HasPrefix(key, "usher.sh/") {
				t.Errorf("the agent left %s on %s", key, p.Name)
			}
		}
	}
}
