package show

import (
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/internal/nodepressure/forecast"
)

// signalLines shows each signal against its thresholds: a bar of what is used with a mark at each threshold, and a line
// for each threshold beyond the first.
func (p Pressure) signalLines(width int, paint Paint) []string {
	name, available, capacity, limit := 0, 0, 0, 0
	for _, s := range p.Forecast.Signals {
		name = max(name, len(s.Name))
		if s.Reading != nil {
			available = max(available, len(s.Name.Amount(s.Reading.Available)))
			capacity = max(capacity, len(s.Name.Amount(s.Reading.Capacity)))
		}
		for i := range s.Levels {
			limit = max(limit, len(limitWords(s, i)))
		}
	}
	cells := 20
	if width > 0 {
		cells = min(cells, width-2-name-2-available-4-capacity-2-limit-2)
	}
	var lines []string
	for _, s := range p.Forecast.Signals {
		head := "  " + pad(string(s.Name), name) + " "
		if s.Reading == nil {
			lines = append(lines, head+paint.dim("not measured"))
			continue
		}
		if cells >= 5 {
			head += gauge(s, cells, paint) + " "
		}
		head += fmt.Sprintf("%*s of %-*s", available, s.Name.Amount(s.Reading.Available), capacity, s.Name.Amount(s.Reading.Capacity))
		lines = append(lines, levelLines(head, s, paint)...)
	}
	for i := range lines {
		if width > 0 {
			lines[i] = fit(lines[i], width)
		}
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// levelLines puts a signal's thresholds behind it, one on each line.
func levelLines(head string, s forecast.Signal, paint Paint) []string {
	if len(s.Levels) == 0 {
		return []string{head + "  " + paint.dim("no threshold")}
	}
	var lines []string
	for i := range s.Levels {
		words := limitWords(s, i)
		if s.Levels[i].Met() {
			words = levelPaint(s.Levels[i], paint)(words)
		}
		lines = append(lines, head+"  "+words)
		head = pad("", cellsOf(head))
	}
	return lines
}

func limitWords(s forecast.Signal, i int) string {
	l := s.Levels[i]
	words := l.Threshold.Kind() + " " + l.Threshold.Below.String()
	if !l.Threshold.Hard() {
		words += " " + Span(l.Threshold.Grace)
	}
	if l.Met() {
		return "below " + words
	}
	return words
}

func levelPaint(l forecast.Level, paint Paint) func(string) string {
	if l.Threshold.Hard() {
		return paint.bad
	}
	return paint.wait
}

// gauge draws how much of a capacity is used, with a mark where each threshold is.
func gauge(s forecast.Signal, cells int, paint Paint) string {
	capacity := max(1, s.Reading.Capacity)
	at := func(available int64) int {
		used := float64(capacity-available) / float64(capacity)
		return min(max(int(used*float64(cells)), 0), cells)
	}
	full := paint.good
	marks := map[int]string{}
	for _, l := range slices.Backward(s.Levels) { // the hard one last: it shows where marks meet
		mark := "│"
		if !l.Threshold.Hard() {
			mark = "┊"
		}
		marks[min(at(l.Limit), cells-1)] = mark
		if l.Met() {
			full = levelPaint(l, paint)
		}
	}
	var b strings.Builder
	used := at(s.Reading.Available)
	for cell := range cells {
		switch mark, marked := marks[cell]; {
		case marked:
			b.WriteString(paint.strong(mark))
		case cell < used:
			b.WriteString(full("█"))
		default:
			b.WriteString(paint.dim("░"))
		}
	}
	return b.String()
}
