package show

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// long is a plan with more of everything than a page holds.
func long() Plan {
	p := Plan{Nodes: []string{"worker-1"}, Now: noon, Plan: sim.Plan{
		Outcome: drain.Drained, Duration: 2 * time.Minute, Recovered: 3 * time.Minute, Tick: time.Second, Pods: 250,
		Surges:  []sim.Surge{{Workload: snapshot.Key{Namespace: "shop", Name: "pay"}, From: 1, To: 2, Start: time.Second, End: time.Minute}},
		Budgets: []sim.BudgetUse{{Budget: snapshot.Key{Namespace: "shop", Name: "web"}, Evictions: 250, Desired: 9, Lowest: 9, Last: time.Minute}},
		Unknown: []string{"how long pods take to stop"},
	}}
	for i := range 100 {
		at := time.Duration(i) * time.Second
		p.Steps = append(p.Steps, sim.Step{At: at, Kind: drain.Evict, Pods: []*snapshot.Pod{pod(fmt.Sprintf("web-%d", i)), pod("web-x")}})
		p.Waves = append(p.Waves, sim.Wave{From: at, To: at, Pods: 2})
		p.Left = append(p.Left, sim.Left{Pod: pod(fmt.Sprintf("new-%d", i)), Why: "0/3 nodes are available"})
	}
	return p
}

func TestPlanFitsOnAPage(t *testing.T) {
	lines := long().Lines(80, Paint{})
	if len(lines) > 70 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 90 {
			t.Errorf("%d wide: %q", len(line), line)
		}
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"worker-1 would drain: 250 pods leave in about 2m, all replaced after 3m",
		"  3s     evict 2 pods: shop/web-3, shop/web-x", "… 80 more; -o json shows all",
		"… 92 more, the last at 1m39s", "shop/pay: 1 to 2 replicas at 1s, back at 1m",
		"healthy never below 9, needed 9", "100 pods without a node: shop/new-0, shop/new-1, shop/new-2, shop/new-3 and 96", "more: 0/3 nodes are available", "how long pods take to stop",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestPlanVerdicts(t *testing.T) {
	objection := []drain.Blocker{{Reason: drain.LocalStorage, Pod: pod("db-0").Key(), Message: "its local data is lost", Dead: true}}
	tests := []struct {
		outcome    drain.Outcome
		objections []drain.Blocker
		want       string
	}{
		{drain.Drained, nil, "worker-1 would drain: 1 pod leaves in about "},
		{drain.Blocked, nil, "worker-1 would be blocked:"},
		{drain.DeadlinePassed, nil, "worker-1 would not be done by the deadline:"},
		{sim.Waiting, nil, "worker-1 would not end within the forecast:"},
		{drain.Blocked, objection, "worker-1 would not start, 1 objection"},
	}
	for _, tt := range tests {
		p := Plan{Nodes: []string{"worker-1"}, Plan: sim.Plan{Outcome: tt.outcome, Pods: 1}, Objections: tt.objections}
		if got := p.Lines(0, Paint{})[0]; !strings.HasPrefix(got, tt.want) {
			t.Errorf("got %q, want it to begin with %q", got, tt.want)
		}
	}
}

func TestPlanSaysWhyPodsStay(t *testing.T) {
	held := drain.Blocker{Reason: drain.UnreadableRecord, Node: "worker-1", Message: "its record cannot be read", Dead: true}
	p := Plan{Nodes: []string{"worker-1"}, Now: noon, Plan: sim.Plan{
		Outcome: drain.Blocked, Blockers: []drain.Blocker{held},
		Left: []sim.Left{{Pod: pod("a"), Node: "worker-1"}, {Pod: pod("b"), Node: "worker-1"}, {Pod: pod("c"), Node: "worker-2"}},
	}}
	text := strings.Join(p.Lines(0, Paint{}), "\n")
	for _, want := range []string{
		"2 pods on worker-1: shop/a, shop/b: their node is held (UnreadableRecord)\n", "1 pod on worker-2: shop/c: the drain did not come to them\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestPlanNamesAPodOnce: a pod that objects, and waits for others besides, is in one place of the page and of each list.
func TestPlanNamesAPodOnce(t *testing.T) {
	objects := drain.Blocker{Reason: drain.DaemonSetPod, Pod: pod("log-1").Key(), Node: "worker-1", Message: "a DaemonSet's pod comes back", Remedy: "--ignore-daemonsets", Dead: true}
	waits := drain.Blocker{Reason: drain.EarlierWave, Pod: objects.Pod, Node: "worker-1", Message: "waits for 1 pod of earlier waves", Remedy: "wait"}
	budget := drain.Blocker{Reason: drain.BudgetNeverAllows, Pod: pod("db-0").Key(), Node: "worker-1", Message: "budget db can never allow it", Dead: true}
	p := Plan{Nodes: []string{"worker-1"}, Now: noon, Objections: []drain.Blocker{objects}, Plan: sim.Plan{
		Outcome: drain.Blocked, Blockers: []drain.Blocker{objects, waits, budget},
		Left: []sim.Left{{Pod: pod("log-1"), Node: "worker-1", Why: objects.Message}, {Pod: pod("db-0"), Node: "worker-1", Why: budget.Message}, {Pod: pod("new-0"), Why: "0/3 nodes are available"}},
	}}
	text := strings.Join(p.Lines(0, Paint{}), "\n")
	for _, name := range []string{"shop/log-1", "shop/db-0", "shop/new-0"} {
		if got := strings.Count(text, name); got != 1 {
			t.Errorf("%s is named %d times in\n%s", name, got, text)
		}
	}
	if got := p.blockers(); len(got) != 1 || got[0].Pod != budget.Pod {
		t.Errorf("blockers for programs: %v, want that of db-0 alone", got)
	}
}
