package show

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

func blockedMaintenance() *v1alpha1.NodeMaintenance {
	return &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "kernel"},
		Status: v1alpha1.NodeMaintenanceStatus{
			Counts: v1alpha1.NodeCounts{Planned: 7, Draining: 2, Blocked: 1},
			Nodes: []v1alpha1.MaintainedNode{
				{Name: "worker-1", Step: v1alpha1.StepDraining, PodCount: 3},
				{Name: "worker-2", Step: v1alpha1.StepDraining, PodCount: 1, Blocked: true, Blockers: []v1alpha1.MaintenanceBlocker{{
					Reason: "BudgetNeverAllows", Pod: "shop/db-0", Message: "budget db can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod",
				}}},
				{Name: "worker-3", Step: v1alpha1.StepWaiting},
			},
		},
	}
}

func TestMaintenanceScreen(t *testing.T) {
	const narrow = `
kernel 7 planned · 2 draining · 0
  drained · 1 blocked · 0 done
  worker-2 blocked while draining, 1
      pod left: shop/db-0: budget db can
      never allow it: minAvailable 1
      asks for 1 healthy, of 1 pod
  worker-1  draining, 3 pods left
  worker-3  drained, waiting`
	for name, c := range map[string]struct {
		width, height int
		suspend       bool
		want          string
	}{
		"wide": {160, 24, false, `
kernel  7 planned · 2 draining · 0 drained · 1 blocked · 0 done
  worker-2  blocked while draining, 1 pod left: shop/db-0: budget db can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod
  worker-1  draining, 3 pods left
  worker-3  drained, waiting`},
		"narrow":           {40, 24, false, narrow},
		"narrow and short": {40, 9, false, narrow},
		"no room for the last": {40, 8, false, `
kernel 7 planned · 2 draining · 0
  drained · 1 blocked · 0 done
  worker-2 blocked while draining, 1
      pod left: shop/db-0: budget db can
      never allow it: minAvailable 1
      asks for 1 healthy, of 1 pod
  and 2 more nodes`},
		"suspended": {160, 24, true, `
kernel  7 planned · 2 draining · 0 drained · 1 blocked · 0 done · suspended
  worker-2  suspended while draining, 1 pod left: shop/db-0: budget db can never allow it: minAvailable 1 asks for 1 healthy, of 1 pod
  worker-1  suspended while draining, 3 pods left
  worker-3  suspended while drained, waiting`},
	} {
		t.Run(name, func(t *testing.T) {
			m := blockedMaintenance()
			m.Spec.Suspend = c.suspend
			lines := MaintenanceScreen(m, c.width, c.height, Paint{})
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
			if len(lines) >= c.height {
				t.Errorf("%d lines on a terminal of %d", len(lines), c.height)
			}
		})
	}
}

// What a maintenance waits for of which no node is in work is shown, in each of the ways.
func TestMaintenanceThatWaitsForRoom(t *testing.T) {
	const waits = "node n2 waits: node n1 (NodeMaintenance m1) is out of service"
	m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "m2"}}
	m.Status.Counts.Planned = 1
	for _, kind := range []string{"Ready", "Stalled"} {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Reason: "WaitsForRoom", Message: waits})
	}
	for name, lines := range map[string][]string{
		"the screen": MaintenanceScreen(m, 160, 24, Paint{}), "the end of a timeout": MaintenanceWaits(m, 160), "the end of what is blocked": MaintenanceBlockers(m, 160),
	} {
		if !strings.Contains(strings.Join(lines, "\n"), waits) {
			t.Errorf("%s: %q", name, lines)
		}
	}
}

// Whatever the terminal's size, no line is wider and no picture taller.
func TestMaintenanceScreenFits(t *testing.T) {
	m := blockedMaintenance()
	m.Status.Conditions = []metav1.Condition{{Type: "Ready", Reason: "NoRoom", Message: "it waits for others"}}
	for i := range 30 {
		m.Status.Nodes = append(m.Status.Nodes, v1alpha1.MaintainedNode{Name: strings.Repeat("node-", i), Step: v1alpha1.StepDrained, Blocked: i%3 == 0})
	}
	for width := 10; width < 200; width += 7 {
		for height := 6; height < 40; height += 5 {
			lines := MaintenanceScreen(m, width, height, Paint{})
			for _, line := range lines {
				if got := ansi.StringWidth(line); got > width {
					t.Errorf("a line of %d cells on %d columns: %q", got, width, line)
				}
			}
			if len(lines) >= height && height > 8 {
				t.Errorf("%d lines on %d of %d columns", len(lines), height, width)
			}
		}
	}
}
