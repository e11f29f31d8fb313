package show

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func endView(nodes ...*snapshot.Node) snapshot.View {
	c := snapshot.NewCluster()
	for _, n := range nodes {
		c.SetNode(n)
	}
	return snapshot.View{Now: noon, Cluster: c}
}

func cordoned(name string, ours bool) *snapshot.Node {
	return &snapshot.Node{Name: name, Unschedulable: true, Drain: &snapshot.DrainRecord{
		Drainer: snapshot.Drainer{ID: "a", By: "eva@desk"}, Since: noon.Add(-time.Minute), CordonTime: noon.Add(-time.Hour), Cordoned: ours, Why: "disk swap",
	}}
}

func TestSummarySaysWhatStateIsLeft(t *testing.T) {
	d := crowded()
	d.Outcome, d.Nodes[0].State = drain.Interrupted, drain.NodeInterrupted
	req := drain.Request{Self: snapshot.Drainer{ID: "a"}, Started: noon.Add(-time.Minute)}
	view := endView(cordoned("worker-1", true))
	view.Cluster.SetWorkload(&snapshot.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "w", Surge: &snapshot.SurgeRecord{Drainer: req.Self, Was: 3, To: 4}})
	text := strings.Join(Summarize(d, view, req, "usher drain worker-1").Lines(0, Paint{}), "\n")
	for _, want := range []string{
		"interrupted after 1m: 120 pods gone, 120 left, 10 not touched",
		"worker-1: interrupted, 120 pods left, cordoned by usher for eva@desk since 2026-01-02T11:00:00Z (disk swap)",
		"not replaced yet: 3 pods", "shop/cache-0: no replacement was seen yet",
		"still surged: Deployment shop/web (3 replicas before); undo with: usher drain --revert",
		"go on with:  usher drain worker-1", "undo with:   usher uncordon worker-1",
		"What the pods that are left waited for (120 pods left):",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestSummaryNamesCommandsForTheSameCluster(t *testing.T) {
	sum := Summary{
		Outcome: drain.Blocked, Nodes: []NodeEnd{{Name: "worker-1", Cordon: "cordoned by usher", Free: true}}, Surged: []string{"Deployment shop/web"},
		Commands: Commands{Program: "kubectl usher", Flags: []string{"--context=lab"}}, GoOn: "kubectl usher drain worker-1 --context=lab",
	}
	text := strings.Join(sum.Lines(0, Paint{}), "\n")
	for _, want := range []string{
		"undo with: kubectl usher --context=lab drain --revert", "undo with:   kubectl usher --context=lab uncordon worker-1", "go on with:  kubectl usher drain worker-1 --context=lab",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The cordon of a drain that still works on the node is not offered to be taken away: that would be refused.
func TestCordonOfAnotherDrainIsNotOffered(t *testing.T) {
	req := drain.Request{Self: snapshot.Drainer{ID: "second"}, Started: noon.Add(-time.Minute)}
	end := drain.Decision{Outcome: drain.Interrupted, Nodes: []drain.NodeStatus{{Name: "worker-1", State: drain.NodeInterrupted, Left: 1}}}
	other := cordoned("worker-1", true)
	other.Drain.ID, other.Drain.State, other.Drain.Beat = "first", "draining", noon.Add(-time.Second)
	tests := []struct {
		name    string
		change  func(*snapshot.DrainRecord, *drain.Request)
		offered bool
	}{
		{"it is draining", func(*snapshot.DrainRecord, *drain.Request) {}, false},
		{"it has ended", func(r *snapshot.DrainRecord, _ *drain.Request) { r.State = "drained" }, true},
		{"it was killed", func(_ *snapshot.DrainRecord, req *drain.Request) { req.Dead = map[string]bool{"first": true} }, true},
		{"it is this one", func(r *snapshot.DrainRecord, req *drain.Request) { req.Self.ID = r.ID }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, record, req := *other, *other.Drain, req
			tt.change(&record, &req)
			n.Drain = &record
			sum := Summarize(end, endView(&n), req, "usher drain worker-1")
			text := strings.Join(sum.Lines(0, Paint{}), "\n")
			if strings.Contains(text, "usher uncordon") != tt.offered || !sum.Nodes[0].Ours {
				t.Errorf("want uncordon offered: %v, got\n%s", tt.offered, text)
			}
		})
	}
}

func TestBlockersAreTheLastThingPrinted(t *testing.T) {
	d := crowded()
	d.Outcome = drain.Blocked
	lines := Summarize(d, endView(cordoned("worker-1", false)), drain.Request{Started: noon}, "usher drain worker-1").Lines(0, Paint{})
	text := strings.Join(lines, "\n")
	if !strings.Contains(text, "cordoned before by another client") || strings.Contains(text, "usher uncordon") {
		t.Errorf("the cordon of another client is not ours to undo:\n%s", text)
	}
	if last := lines[len(lines)-1]; last != "       remedy: do something about BudgetExhausted" {
		t.Errorf("the last line is %q", last)
	}
	all := strings.Join(lines, "\n")
	for _, p := range d.Pods {
		if len(p.Blockers) > 0 && !strings.Contains(all, p.Pod.Key().String()) {
			t.Errorf("%s is blocked and not named", p.Pod.Key())
		}
	}
}

func TestDrainedSummary(t *testing.T) {
	d := drain.Decision{Outcome: drain.Drained, Nodes: []drain.NodeStatus{{Name: "worker-1", State: drain.NodeDrained}}}
	d.Pods = []drain.PodStatus{{Pod: pod("shell"), State: drain.Ended, Note: "no controller owned it"}}
	text := strings.Join(Summarize(d, endView(cordoned("worker-1", true)), drain.Request{Started: noon.Add(-time.Minute)}, "usher drain worker-1").Lines(0, Paint{}), "\n")
	if !strings.Contains(text, "gone, with no replacement to wait for: 1 pod\n    shop/shell: no controller owned it") {
		t.Errorf("what nothing replaces is not named:\n%s", text)
	}
	if strings.Contains(text, "go on with") || !strings.Contains(text, "when the work is done:  usher uncordon worker-1") {
		t.Errorf("got\n%s", text)
	}
}

func TestBlockerLinesShareWordsAndKeepWidth(t *testing.T) {
	var all []drain.Blocker
	for _, p := range crowded().Pods {
		all = append(all, p.Blockers...)
	}
	lines := BlockerLines(all, noon, 60, Paint{})
	text := strings.Join(lines, "\n")
	if got := strings.Count(text, "remedy:"); got != 2 {
		t.Errorf("%d remedies, want 2: one for each cause\n%s", got, text)
	}
	if !strings.HasPrefix(lines[0], "stuck  shop/db-0") {
		t.Errorf("what cannot clear comes first, got %q", lines[0])
	}
	for _, line := range lines {
		if len(line) > 60 {
			t.Errorf("%d wide: %q", len(line), line)
		}
	}
}

// A node that a NodeMaintenance has taken meanwhile is given back by that.
func TestNodeOfAMaintenanceIsNotFree(t *testing.T) {
	for id, free := range map[string]bool{"a": true, snapshot.MaintenancePrefix + "a": false} {
		n := cordoned("worker-1", true)
		n.Drain.ID = id
		end := nodeEnd(drain.NodeStatus{Name: "worker-1"}, endView(n), drain.Request{Self: snapshot.Drainer{ID: id}})
		if end.Free != free {
			t.Errorf("%s: free %v", id, end.Free)
		}
	}
}
