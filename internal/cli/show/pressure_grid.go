package show

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// grid is a table whose columns are as wide as what is in them. Where it does not fit, the flexible column gives way, in
// the middle of its texts: the two ends of a pod's name distinguish it from others.
type grid struct {
	head  []string
	right []bool // the column is aligned to the right
	flex  int    // index of the flexible column
	rows  [][]string
	looks []func(string) string
}

func (g *grid) add(look func(string) string, cells ...string) {
	for i := range cells {
		cells[i] = clean(cells[i])
	}
	g.rows, g.looks = append(g.rows, cells), append(g.looks, look)
}

// mostLast is what the last column takes from the flexible one: what is longer in it is cut.
const mostLast = 12

// leastFlex is what is left of the flexible column on a terminal that is far too narrow; the last columns are cut then.
const leastFlex = 12

// lines lays the table out; width 0: no limit.
func (g *grid) lines(width int) []string {
	wide := make([]int, len(g.head))
	for _, row := range append([][]string{g.head}, g.rows...) {
		for i, cell := range row {
			wide[i] = max(wide[i], cellsOf(cell))
		}
	}
	last := len(wide) - 1
	total := min(wide[last], mostLast) + 1
	for _, w := range wide[:last] {
		total += w + 1
	}
	if width > 0 && total > width-1 {
		wide[g.flex] = max(min(leastFlex, wide[g.flex]), wide[g.flex]-(total-(width-1)))
	}
	lines := []string{g.line(g.head, wide, width)}
	for i, row := range g.rows {
		lines = append(lines, g.looks[i](g.line(row, wide, width)))
	}
	return lines
}

func (g *grid) line(row []string, wide []int, width int) string {
	var b strings.Builder
	for i, cell := range row {
		if i == g.flex {
			cell = shorten(cell, wide[i])
		}
		gap := strings.Repeat(" ", max(0, wide[i]-cellsOf(cell)))
		b.WriteString(" ")
		if g.right[i] {
			b.WriteString(gap + cell)
		} else {
			b.WriteString(cell + gap)
		}
	}
	line := strings.TrimRight(b.String(), " ")
	if width > 0 {
		line = fit(line, width)
	}
	return line
}

func cellsOf(s string) int { return ansi.StringWidth(s) }

// shorten cuts out the middle of a text that is wider than width cells.
func shorten(s string, width int) string {
	if cellsOf(s) <= width || width < 3 {
		return fit(s, width)
	}
	tail := width / 2
	return fit(ansi.Truncate(s, width-1-tail, ""), width) + "…" + ansi.TruncateLeft(s, cellsOf(s)-tail, "")
}
