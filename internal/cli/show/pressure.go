package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/forecast"
	"usher.sh/usher/internal/nodepressure/record"
)

// Pressure is how a node stands and which pod goes first on it, on one page.
type Pressure struct {
	Record   record.Record
	Forecast forecast.Forecast
	// Supposed are the signals whose readings were made up.
	Supposed []nodepressure.Signal
}

// How many pods and containers people get on a terminal; a pipe and JSON have all.
const (
	mostRanked = 15
	mostScored = 5
)

// extent is how much of the page there is room for.
type extent struct {
	ranked, scored int  // pods and containers; 0: not even the title
	others, notes  bool // the signals that the page is not about, and what else to know
}

// Lines is the page for people, the answer first. A width of 0 means no limit, and all pods.
func (p Pressure) Lines(width int, paint Paint) []string {
	all := extent{len(p.Forecast.Ranking), len(p.Forecast.OOM), true, true}
	if width > 0 {
		all.ranked, all.scored = cut(all.ranked, mostRanked), cut(all.scored, mostScored)
	}
	return p.lines(width, all, paint)
}

func (p Pressure) lines(width int, e extent, paint Paint) []string {
	lines := p.headLines(width, paint)
	part := func(wanted bool, title string, body []string) {
		if wanted && len(body) > 0 {
			lines = append(append(lines, "", paint.strong(title)), body...)
		}
	}
	part(true, "Signals"+p.measured(), p.signalLines(width, paint))
	if f := p.Forecast.Focus; f != nil {
		part(e.ranked > 0, fmt.Sprintf("Order %s when %s runs short", p.Forecast.Order, f.Name), p.rankLines(width, e.ranked, paint))
	}
	part(e.others, "When something else runs short", p.otherLines(width))
	part(e.scored > 0, "The kernel's OOM killer, if "+p.outOfMemory(), p.oomLines(width, e.scored, paint))
	part(e.notes, "To know", bullets(p.notes(), width))
	return lines
}

// headLines is the answer and the node's conditions.
func (p Pressure) headLines(width int, paint Paint) []string {
	lines := wrap(p.Answer(), width)
	for i := range lines {
		lines[i] = paint.strong(lines[i])
	}
	return append(lines, wrap(clean(p.conditions()), width)...)
}

// measured says when what is spoken of was measured.
func (p Pressure) measured() string {
	f := p.Forecast.Focus
	if f == nil || f.Reading.At.IsZero() {
		return ""
	}
	if slices.Contains(p.Supposed, f.Name) {
		return ", some of them supposed"
	}
	return ", measured at " + f.Reading.At.UTC().Format(time.TimeOnly) + " UTC"
}

func (p Pressure) conditions() string {
	text := "These readings raise no condition."
	if len(p.Forecast.Conditions) > 0 {
		var words []string
		for i, c := range p.Forecast.Conditions {
			taint := p.Forecast.Taints[i]
			words = append(words, fmt.Sprintf("%s (taint %s:%s)", c, taint.Key, taint.Effect))
		}
		text = "These readings raise " + strings.Join(words, " and ") + "."
	}
	var own []string
	for _, c := range p.Record.Reported {
		own = append(own, fmt.Sprintf("%s for %s", c.Type, Span(p.Record.At.Sub(c.Since))))
	}
	if len(own) == 0 {
		return text
	}
	return text + " The node itself has reported " + strings.Join(own, " and ") + "."
}

// otherLines says which pod goes first for signals that the table is not about; those with one answer share a line.
func (p Pressure) otherLines(width int) []string {
	type answer struct{ uid, why string }
	var order []answer
	names, pods := map[answer][]string{}, map[answer]string{}
	for _, s := range p.Forecast.Signals {
		l := s.Nearest()
		if l == nil || l.First == nil || p.Forecast.Focus == nil || s.Name.Resource() == p.Forecast.Focus.Name.Resource() {
			continue
		}
		a := answer{string(l.First.Pod.UID), l.First.Why}
		if names[a] == nil {
			order = append(order, a)
		}
		names[a], pods[a] = append(names[a], string(s.Name)), l.First.Pod.Key()
	}
	var lines []string
	for _, a := range order {
		text := fmt.Sprintf("%s: %s would go first, %s", strings.Join(names[a], ", "), pods[a], because(a.why))
		lines = append(lines, indented(clean(text), "  ", width)...)
	}
	return lines
}

// notes are what else a user has to know who relies on the page.
func (p Pressure) notes() []string {
	notes := slices.Clone(p.Record.Notes)
	for _, s := range p.Forecast.Skipped {
		notes = append(notes, s.Message)
	}
	unmeasured := 0
	for i := range p.Record.Pods {
		if p.Record.Pods[i].Usage == nil {
			unmeasured++
		}
	}
	if unmeasured > 0 {
		text := "of %s nothing was measured yet: the kubelet evicts such pods first, whatever they use"
		if p.Forecast.Order == nodepressure.OrderQoS {
			text += ", and usher agent none of them before it was measured"
		}
		notes = append(notes, fmt.Sprintf(text, Count(unmeasured, "pod")))
	}
	if f := p.Forecast.Focus; f != nil {
		if l := f.Nearest(); l != nil && len(l.Reclaim) > 0 {
			notes = append(notes, fmt.Sprintf("before it evicts for %s, the kubelet clears away %s; no pod goes if that is enough", f.Name, text.Join(l.Reclaim, " and ")))
		}
	}
	return notes
}
