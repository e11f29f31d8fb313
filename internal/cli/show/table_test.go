package show

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func TestTableFitsAnyTerminal(t *testing.T) {
	p := Picture{Now: noon, Started: noon.Add(-time.Minute), Done: noon.Add(20 * time.Second), Decision: crowded()}
	for _, width := range []int{10, 40, 69, 70, 80, 200} {
		for _, height := range []int{1, 2, 5, 12, 24, 60} {
			checkFits(t, Table(p, width, height, Paint{}), width, height)
			checkFits(t, Table(p, width, height, Paint{On: true}), width, height)
		}
	}
}

func checkFits(t *testing.T, lines []string, width, height int) {
	t.Helper()
	if len(lines) > height {
		t.Errorf("%dx%d: %d lines", width, height, len(lines))
	}
	for _, line := range lines {
		if w := ansi.StringWidth(line); w > width {
			t.Errorf("%dx%d: %d cells: %q", width, height, w, line)
		}
	}
}

func TestTableTellsWhatMatters(t *testing.T) {
	tests := []struct{ width, height int }{{40, 24}, {80, 24}, {200, 50}, {40, 16}}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%dx%d", tt.width, tt.height), func(t *testing.T) {
			p := Picture{Now: noon, Started: noon.Add(-time.Minute), Done: noon.Add(20 * time.Second), Deadline: noon.Add(78 * time.Second), Decision: crowded()}
			text := strings.Join(Table(p, tt.width, tt.height, Paint{}), "\n")
			for _, want := range []string{
				"draining 1 node  1m", "deadline in 1m18s", "worker-1 draining", "120/240",
				"shop/db-0", "can never", "terminating", "111 pods in shop", "budget web needs",
				"3 pods gone, not replaced yet", "117 pods gone", "10 pods not touched",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

func TestTableShowsStuckPodsFirst(t *testing.T) {
	d := crowded()
	slices.Reverse(d.Pods)
	lines := Table(Picture{Now: noon, Started: noon, Decision: d}, 80, 24, Paint{})
	stuck := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "shop/db-0") })
	moving := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "terminating") })
	waiting := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "111 pods") })
	if stuck < 0 || stuck > moving || moving > waiting {
		t.Errorf("stuck at line %d, moving %d, waiting %d:\n%s", stuck, moving, waiting, strings.Join(lines, "\n"))
	}
}

func TestTableFoldsManyNodes(t *testing.T) {
	var d drain.Decision
	for i := range 60 {
		state := drain.NodeDrained
		if i == 59 {
			state = drain.NodeBlocked
		}
		d.Nodes = append(d.Nodes, drain.NodeStatus{Name: fmt.Sprintf("n%02d", i), State: state})
	}
	text := strings.Join(Table(Picture{Now: noon, Started: noon, Decision: d}, 80, 24, Paint{}), "\n")
	for _, want := range []string{"n59 blocked", "53 more nodes: 53 drained"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestHeaderTellsHowItEnds(t *testing.T) {
	tests := []struct {
		name string
		p    Picture
		want string
	}{
		{"running", Picture{}, "draining 0 nodes  1m"},
		{"eta", Picture{Done: noon.Add(time.Minute)}, "about 1m left"},
		{"eta passed", Picture{Done: noon.Add(-time.Minute)}, "draining 0 nodes  1m"},
		{"deadline", Picture{Deadline: noon.Add(90 * time.Second)}, "deadline in 1m30s"},
		{"deadline over", Picture{Deadline: noon.Add(-time.Second)}, "deadline passed"},
		{"tidying", Picture{Decision: drain.Decision{Outcome: drain.Interrupted}}, "interrupted, tidying up"},
		{"ended", Picture{Decision: drain.Decision{Outcome: drain.Drained, Settled: true}}, "drained  1m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.p.Now, tt.p.Started = noon, noon.Add(-time.Minute)
			if got := strings.Join(headerLines(tt.p, 80, Paint{}), "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}

// TestTableShowsWholeSentences: the end of a sentence says what it waits for, however narrow the terminal.
func TestTableShowsWholeSentences(t *testing.T) {
	rollout := "its Deployment is being rolled out and has one ready pod; its new pod web-6c9-zzzzz is not ready: ImagePullBackOff registry.example.com/a/very/long/path/to/an/image:1.2.3"
	other := "eva@desk is draining this node (last sign of life 4s ago); this drain goes on when that one ends, or in 56s without another sign"
	d := drain.Decision{Nodes: []drain.NodeStatus{{Name: "worker-1", State: drain.NodePending, Blockers: []drain.Blocker{{Message: other}}}}}
	stuck := held("db-0", drain.BudgetNeverAllows, "budget db can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod", true)
	stuck.Blockers[0].Remedy = "kubectl scale -n shop statefulset/db --replicas=2"
	gone := drain.PodStatus{Pod: pod("cache-0"), State: drain.GoneState, Replacement: &snapshot.Pod{Name: "cache-1", NotReadyWhy: "0/3 nodes are available: 3 Insufficient cpu"}}
	d.Pods = append(d.Pods, stuck, held("web-1", drain.RolloutUnderway, rollout, false), gone)
	for _, width := range []int{40, 50, 69, 70, 80, 120} {
		lines := Table(Picture{Now: noon, Started: noon, Decision: d, Banner: "stopping; press again to leave at once; tidying up what this drain has changed"}, width, 40, Paint{})
		checkFits(t, lines, width, 40)
		text := strings.Join(lines, "\n")
		for _, want := range []string{rollout, other, stuck.Blockers[0].Message, stuck.Blockers[0].Remedy, "Insufficient cpu", "what this drain has changed"} {
			if !strings.Contains(letters(text), letters(want)) {
				t.Errorf("%d columns: no %q in\n%s", width, want, text)
			}
		}
	}
}

// letters leaves out where lines were broken.
func letters(s string) string { return strings.Join(strings.Fields(s), "") }

// TestTableGivesRoomToWhatIsStuckFirst: where not all sentences have room, that of the stuck pod has.
func TestTableGivesRoomToWhatIsStuckFirst(t *testing.T) {
	long := "budget db can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod; decisive"
	d := drain.Decision{Pods: []drain.PodStatus{held("web-1", drain.BudgetExhausted, "budget web needs 9 healthy and has 8; not ready: web-7c58c9f547-26rpc", false), held("db-0", drain.BudgetNeverAllows, long, true)}}
	lines := Table(Picture{Now: noon, Started: noon, Decision: d}, 40, 8, Paint{})
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "decisive") || !strings.Contains(text, "web-1") {
		t.Errorf("got\n%s", text)
	}
	checkFits(t, lines, 40, 8)
}

func TestNoEndInSightWherePodsAreStuck(t *testing.T) {
	ending := func(in time.Duration) drain.PodStatus {
		p := pod("api-0")
		p.Deletion = noon.Add(in)
		return drain.PodStatus{Pod: p, State: drain.Terminating, Blockers: []drain.Blocker{{Reason: drain.Leaving}}}
	}
	finalizer := ending(-time.Second)
	finalizer.Blockers[0].Reason = drain.HeldByFinalizers
	tests := []struct {
		name string
		pods []drain.PodStatus
		want string // "" for no end
	}{
		{"nothing in the way", nil, "about 20s left"},
		{"a budget that recovers", []drain.PodStatus{held("web-1", drain.BudgetExhausted, "x", false)}, "about 20s left"},
		{"a grace that is longer", []drain.PodStatus{ending(50 * time.Second), ending(40 * time.Second)}, "about 50s left"},
		{"a grace that is shorter", []drain.PodStatus{ending(10 * time.Second)}, "about 20s left"},
		{"stuck", []drain.PodStatus{held("db-0", drain.BudgetNeverAllows, "x", true)}, ""},
		{"a webhook that refuses", []drain.PodStatus{held("db-0", drain.DeniedByAdmission, "x", false)}, ""},
		{"a system that has not answered", []drain.PodStatus{held("db-0", drain.SystemDecides, "x", false)}, ""},
		{"a finalizer", []drain.PodStatus{finalizer}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Picture{Now: noon, Started: noon, Done: noon.Add(20 * time.Second), Decision: drain.Decision{Pods: tt.pods}}
			if got := timesLeft(p, Paint{}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
