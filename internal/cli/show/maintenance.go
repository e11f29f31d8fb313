package show

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"usher.sh/usher/api/v1alpha1"
)

// MaintainedNode says in one line where a node is in its maintenance.
func MaintainedNode(e *v1alpha1.MaintainedNode) string {
	words := maintenanceStep(e)
	if e.Blocked {
		words = "blocked while " + words
	}
	if len(e.Blockers) > 0 {
		words += ": " + maintenanceBlocker(&e.Blockers[0])
	}
	return clean(words)
}

func maintenanceStep(e *v1alpha1.MaintainedNode) string {
	switch e.Step {
	case v1alpha1.StepDraining:
		if e.PodCount == 0 {
			return "draining"
		}
		return "draining, " + Count(int(e.PodCount), "pod") + " left"
	case v1alpha1.StepCallingHook:
		return "drained, calling the hook"
	case v1alpha1.StepWaiting:
		return "drained, waiting"
	case v1alpha1.StepDeletingNode:
		return "drained, deleting the Node"
	case v1alpha1.StepDrained:
		return "drained, and kept cordoned"
	}
	return string(e.Step)
}

func maintenanceBlocker(b *v1alpha1.MaintenanceBlocker) string {
	words := b.Message
	if b.Pod != "" {
		words = b.Pod + ": " + words
	}
	return words
}

// MaintenanceBlockers lists what blocks a maintenance, with what can be done about it.
func MaintenanceBlockers(m *v1alpha1.NodeMaintenance, width int) []string {
	lines := maintenanceBlockers(m, width, func(e *v1alpha1.MaintainedNode) bool { return e.Blocked })
	if c := meta.FindStatusCondition(m.Status.Conditions, "Stalled"); len(lines) == 0 && c != nil {
		lines = Item("  ", clean(c.Message), width)
	}
	return append([]string{fmt.Sprintf("NodeMaintenance %s is blocked", m.Name)}, lines...)
}

// MaintenanceWaits says what holds the nodes of a maintenance, those that are waited for as well as those that are blocked.
func MaintenanceWaits(m *v1alpha1.NodeMaintenance, width int) []string {
	return maintenanceBlockers(m, width, func(*v1alpha1.MaintainedNode) bool { return true })
}

func maintenanceBlockers(m *v1alpha1.NodeMaintenance, width int, of func(*v1alpha1.MaintainedNode) bool) []string {
	var lines []string
	for i := range m.Status.Nodes {
		e := &m.Status.Nodes[i]
		if !of(e) {
			continue
		}
		for j := range e.Blockers {
			b := &e.Blockers[j]
			lines = append(lines, Item("  "+e.Name+"  ", clean(b.Reason+"  "+maintenanceBlocker(b)), width)...)
			if b.Remedy != "" {
				lines = append(lines, Item("      ", clean(b.Remedy), width)...)
			}
		}
	}
	return lines
}

// MaintenanceScreen is a maintenance for a terminal of that size: a line of counts, a line for each node in work, those that are blocked
// first, as many as there is room for.
func MaintenanceScreen(m *v1alpha1.NodeMaintenance, width, height int, paint Paint) []string {
	c := m.Status.Counts
	head := fmt.Sprintf("%s  %d planned · %d draining · %d drained · %d blocked · %d done", m.Name, c.Planned, c.Draining, c.Drained, c.Blocked, c.Done)
	lines := []string{paint.strong(fit(clean(head), width))}
	long := 0
	for i := range m.Status.Nodes {
		long = max(long, len(m.Status.Nodes[i].Name))
	}
	add := func(blocked bool) {
		for i := range m.Status.Nodes {
			e := &m.Status.Nodes[i]
			if e.Blocked != blocked {
				continue
			}
			colour := paint.move
			switch {
			case blocked:
				colour = paint.bad
			case e.Step != v1alpha1.StepDraining:
				colour = paint.good
			}
			lines = append(lines, colour(fit("  "+pad(clean(e.Name), long)+"  "+MaintainedNode(e), width)))
		}
	}
	add(true)
	add(false)
	if room := height - 1; len(lines) > room && room > 1 {
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fit("  "+strings.TrimSpace(fmt.Sprintf("and %s more", Count(more, "node"))), width))
	}
	return lines
}
