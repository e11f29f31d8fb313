package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/internal/drain"
)

type nodeRow struct {
	drain.NodeStatus
	total int // pods that leave
	gone  int
}

// rank puts what somebody must look at first, and what is over last.
func (r nodeRow) rank() int {
	return slices.Index([]drain.NodeState{
		drain.NodeBlocked, drain.NodeDraining, drain.NodePending, drain.NodeMissing, drain.NodeDrained,
	}, r.State)
}

func nodeLines(p Picture, width, height int, paint Paint) []string {
	rows := nodeRows(p.Decision)
	shown := rows
	if len(rows) > height {
		shown = slices.Clone(rows)
		slices.SortStableFunc(shown, func(a, b nodeRow) int { return cmp.Compare(a.rank(), b.rank()) })
		shown = shown[:height-1]
	}
	name := 0
	for _, r := range shown {
		name = max(name, len(r.Name))
	}
	name = min(name, width/3)
	var lines []string
	for _, r := range shown {
		lines = append(lines, nodeLine(r, name, width, paint))
	}
	if rest := len(rows) - len(shown); rest > 0 {
		lines = append(lines, paint.dim("… "+moreNodes(rows, shown)))
	}
	return lines
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
	return s == drain.GoneState || s == drain.Replaced || s == drain.Ended
}

func nodeLine(r nodeRow, name, width int, paint Paint) string {
	counts := fmt.Sprintf("%d/%d", r.gone, r.total)
	tail := ""
	if len(r.Blockers) > 0 {
		tail = clean(r.Blockers[0].Message)
	}
	text := pad(r.Name, name) + " " + nodeStatePaint(r.State, paint)(pad(string(r.State), len("draining")))
	room := width - name - len("draining") - 3 - max(len(counts), 7)
	if tail != "" {
		room, tail = room/2, " "+tail
	}
	if room >= 5 {
		text += " " + bar(r.gone, r.total, min(room, 30), paint)
	}
	return text + " " + fmt.Sprintf("%7s", counts) + tail
}

func nodeStatePaint(s drain.NodeState, paint Paint) func(string) string {
	switch s {
	case drain.NodeBlocked, drain.NodeMissing:
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
	for _, s := range []drain.NodeState{drain.NodeBlocked, drain.NodeDraining, drain.NodePending, drain.NodeMissing, drain.NodeDrained} {
		if counts[s] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	return Count(len(rows)-len(shown), "more node") + ": " + strings.Join(words, ", ")
}
