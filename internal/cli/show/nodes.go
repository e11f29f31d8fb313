package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"usher.sh/usher/internal/drain"
)

type nodeRow struct {
	drain.NodeStatus
	total int // pods that leave
	gone  int
}

func (r nodeRow) rank() int {
	return slices.Index(nodeStates, r.State)
}

// nodeStates are all states: first what needs attention, last what is over.
var nodeStates = []drain.NodeState{
	drain.NodeBlocked, drain.NodeLate, drain.NodeTimedOut, drain.NodeInterrupted,
	drain.NodeDraining, drain.NodePending, drain.NodeMissing, drain.NodeDrained,
}

// nodeStateWords says where a node stands.
func nodeStateWords(s drain.NodeState) string {
	switch s {
	case drain.NodeTimedOut:
		return "timed out"
	case drain.NodeLate:
		return "deadline passed"
	case drain.NodeInterrupted, drain.NodePending, drain.NodeDraining, drain.NodeDrained, drain.NodeBlocked, drain.NodeMissing:
	}
	return string(s)
}

func nodeLines(p Picture, width, height int, paint Paint) []string {
	rows := nodeRows(p.Decision)
	shown := rows
	if len(rows) > height {
		shown = slices.Clone(rows)
		slices.SortStableFunc(shown, func(a, b nodeRow) int { return cmp.Compare(a.rank(), b.rank()) })
		shown = shown[:height-1]
	}
	name, state := 0, len(drain.NodeDraining)
	for _, r := range shown {
		name, state = max(name, len(r.Name)), max(state, len(nodeStateWords(r.State)))
	}
	name = min(name, width/3)
	passages := make([]passage, 0, len(shown)+1)
	for _, r := range shown {
		passages = append(passages, passage{lines: nodeRowLines(r, name, state, width, paint), least: 1})
	}
	if rest := len(rows) - len(shown); rest > 0 {
		passages = append(passages, passage{lines: []string{paint.dim("… " + moreNodes(rows, shown))}, least: 1})
	}
	return stack(passages, height)
}

func nodeRows(d drain.Decision) []nodeRow {
	rows := make([]nodeRow, len(d.Nodes))
	at := map[string]*nodeRow{}
	for i, n := range d.Nodes {
		rows[i].NodeStatus = n
		at[n.Name] = &rows[i]
	}
	for i := range d.Pods {
		row, ok := at[d.Pods[i].Pod.Node]
		if !ok || d.Pods[i].State == drain.Staying {
			continue
		}
		row.total++
		if left(d.Pods[i].State) {
			row.gone++
		}
	}
	return rows
}

func left(s drain.PodState) bool {
	return s == drain.GoneState || s == drain.Replaced || s == drain.Ended || s == drain.Emptied
}

// nodeRowLines is a node's line, and below it what does not fit of what holds the node.
func nodeRowLines(r nodeRow, name, state, width int, paint Paint) []string {
	counts := fmt.Sprintf("%7s", fmt.Sprintf("%d/%d", r.gone, r.total))
	tail := ""
	if len(r.Blockers) > 0 {
		tail = clean(r.Blockers[0].Message)
	}
	text := pad(r.Name, name) + " " + nodeStatePaint(r.State, paint)(pad(nodeStateWords(r.State), state)) + " "
	room := width - ansi.StringWidth(text) - 1 - len(counts)
	if tail != "" {
		room /= 2
	}
	if room >= 5 {
		text += bar(r.gone, r.total, min(room, 30), paint) + " "
	}
	text += counts
	if tail == "" {
		return []string{text}
	}
	return flow(text+" ", tail, margin, width)
}

func nodeStatePaint(s drain.NodeState, paint Paint) func(string) string {
	switch s {
	case drain.NodeBlocked, drain.NodeMissing, drain.NodeTimedOut, drain.NodeLate, drain.NodeInterrupted:
		return paint.bad
	case drain.NodeDrained:
		return paint.good
	case drain.NodeDraining:
		return paint.move
	case drain.NodePending:
	}
	return paint.dim
}

func bar(done, total, width int, paint Paint) string {
	full := width
	if total > 0 {
		full = done * width / total
	}
	return paint.good(strings.Repeat("█", full)) + paint.dim(strings.Repeat("░", width-full))
}

func moreNodes(rows, shown []nodeRow) string {
	counts := map[drain.NodeState]int{}
	for _, r := range rows {
		counts[r.State]++
	}
	for _, r := range shown {
		counts[r.State]--
	}
	var words []string
	for _, s := range nodeStates {
		if counts[s] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[s], nodeStateWords(s)))
		}
	}
	return Count(len(rows)-len(shown), "more node") + ": " + strings.Join(words, ", ")
}
