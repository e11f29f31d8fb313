package show

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"usher.sh/usher/internal/drain"
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
				"draining 1 node  1m", "about 20s left", "deadline in 1m18s", "worker-1 draining", "120/240",
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
