package show

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/api/meta"

	"usher.sh/usher/api/v1alpha1"
)

// MaintainedNode says in one line where a node is in its maintenance m, which may be suspended.
func MaintainedNode(m *v1alpha1.NodeMaintenance, e *v1alpha1.MaintainedNode) string {
	words := maintenanceStep(m.Spec.Action, e)
	switch {
	case m.Spec.Suspend && m.DeletionTimestamp == nil && e.Step != v1alpha1.StepDrained && e.Step != v1alpha1.StepMarked:
		words = "suspended while " + words
	case e.Blocked:
		words = "blocked while " + words
	}
	if len(e.Blockers) > 0 {
		words += ": " + maintenanceBlocker(&e.Blockers[0])
	}
	return clean(words)
}

func maintenanceStep(action v1alpha1.MaintenanceAction, e *v1alpha1.MaintainedNode) string {
	done := actionDone(action)
	switch e.Step {
	case v1alpha1.StepDraining:
		if e.PodCount == 0 {
			return "draining"
		}
		return "draining, " + Count(int(e.PodCount), "pod") + " left"
	case v1alpha1.StepCallingHook:
		return done + "calling the hook"
	case v1alpha1.StepWaiting:
		return done + "waiting"
	case v1alpha1.StepReplacingMembers:
		return "drained, requesting successors for members with data on it"
	case v1alpha1.StepDeletingNode:
		return "drained, deleting the Node"
	case v1alpha1.StepDrained:
		return "drained, and kept cordoned"
	case v1alpha1.StepMarking:
		return "to be " + strings.TrimSuffix(done, ", ")
	case v1alpha1.StepMarked:
		return done + "and kept so"
	}
	return string(e.Step)
}

// actionDone begins what follows an action: "" where nothing was done to the node.
func actionDone(action v1alpha1.MaintenanceAction) string {
	switch action {
	case v1alpha1.ActionCordon:
		return "cordoned, "
	case v1alpha1.ActionTaint:
		return "tainted, "
	case v1alpha1.ActionHook:
		return ""
	case v1alpha1.ActionDrain:
	}
	return "drained, "
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
	lines = append([]string{fmt.Sprintf("NodeMaintenance %s is blocked", m.Name)}, lines...)
	return append(lines, maintenanceWarnings(m, width)...)
}

// MaintenanceWaits says what holds the nodes of a maintenance, those that are waited for as well as those that are blocked.
func MaintenanceWaits(m *v1alpha1.NodeMaintenance, width int) []string {
	lines := maintenanceBlockers(m, width, func(*v1alpha1.MaintainedNode) bool { return true })
	if words := maintenanceWaits(m); words != "" && len(lines) == 0 {
		return Item("  ", words, width)
	}
	return append(lines, maintenanceWarnings(m, width)...)
}

// maintenanceWaits says what nodes wait for that are not in work, "" where others go on or are blocked, which have their lines.
func maintenanceWaits(m *v1alpha1.NodeMaintenance) string {
	c := meta.FindStatusCondition(m.Status.Conditions, "Ready")
	if c == nil || c.Reason != "WaitsForRoom" && c.Reason != "NoRoom" {
		return ""
	}
	return clean(c.Message)
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

// maintenanceWarnings say what the drains of nodes cost.
func maintenanceWarnings(m *v1alpha1.NodeMaintenance, width int) []string {
	var lines []string
	for i := range m.Status.Nodes {
		if e := &m.Status.Nodes[i]; len(e.Warnings) > 0 {
			lines = append(lines, indented(clean(e.Name), "  ", width)...)
			lines = append(lines, WarningLines(e.Warnings, "    ", width)...)
		}
	}
	return lines
}

// MaintenanceScreen is a maintenance for a terminal of that size: a line of counts, what it waits for where it does nothing else, then the
// nodes in work, those that are blocked first, as many as there is room for. What is wider than the terminal goes on in the next line.
func MaintenanceScreen(m *v1alpha1.NodeMaintenance, width, height int, paint Paint) []string {
	lines := maintenanceHead(m, width, height, paint)
	long := 0
	for i := range m.Status.Nodes {
		long = max(long, len(m.Status.Nodes[i].Name))
	}
	var rows [][]string
	add := func(blocked bool) {
		for i := range m.Status.Nodes {
			e := &m.Status.Nodes[i]
			if e.Blocked != blocked {
				continue
			}
			row := hanging("  "+pad(clean(e.Name), long)+"  "+MaintainedNode(m, e), "      ", width)
			for j := range row {
				row[j] = maintenanceColour(e, paint)(row[j])
			}
			rows = append(rows, row)
		}
	}
	add(true)
	add(false)
	room := height - 1 - len(lines)
	for i, row := range rows {
		last := i == len(rows)-1
		if more := len(rows) - i; len(row) > room || len(row) == room && !last {
			return append(lines, fit("  and "+Count(more, "more node"), width))
		}
		lines, room = append(lines, row...), room-len(row)
	}
	return lines
}

// maintenanceHead counts the nodes of a maintenance, and says what it waits for where it does nothing else, as far as there is room for that.
func maintenanceHead(m *v1alpha1.NodeMaintenance, width, height int, paint Paint) []string {
	var lines []string
	for _, line := range hanging(maintenanceCounts(m), "  ", width) {
		lines = append(lines, paint.strong(line))
	}
	if words := maintenanceWaits(m); words != "" {
		waits := hanging("  "+words, "      ", width)
		lines = append(lines, waits[:min(len(waits), max(0, height-2-len(lines)))]...)
	}
	return lines
}

func maintenanceCounts(m *v1alpha1.NodeMaintenance) string {
	c := m.Status.Counts
	words := fmt.Sprintf("%s  %d planned · %d draining · %d drained · %d blocked · %d done", m.Name, c.Planned, c.Draining, c.Drained, c.Blocked, c.Done)
	if m.Spec.Suspend {
		words += " · suspended"
	}
	return words
}

func maintenanceColour(e *v1alpha1.MaintainedNode, paint Paint) func(string) string {
	switch {
	case e.Blocked:
		return paint.bad
	case e.Step != v1alpha1.StepDraining:
		return paint.good
	}
	return paint.move
}

// hanging breaks a line that is wider than the terminal, and puts margin before what follows. No line is wider than width.
func hanging(line, margin string, width int) []string {
	if ansi.StringWidth(line) <= width {
		return []string{line}
	}
	lead := line[:len(line)-len(strings.TrimLeft(line, " "))]
	lines := wrap(line, width-len(margin))
	for i := range lines {
		if i > 0 {
			lead = margin
		}
		lines[i] = fit(lead+lines[i], width)
	}
	return lines
}
