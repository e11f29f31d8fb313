package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/text"
)

// clean makes words of a server, a webhook or a user safe to print on one line.
func clean(s string) string { return text.Line(s) }

// fit cuts a line to at most width cells; escape sequences count nothing. Truncate counts one cell for an ASCII letter whose variation
// selector makes two of it, so that what it returns may still be too wide.
func fit(s string, width int) string {
	for cells := width; cells > 0; cells-- {
		if cut := ansi.Truncate(s, cells, "…"); ansi.StringWidth(cut) <= width {
			return cut
		}
	}
	return ""
}

// pad cuts or fills a text to exactly width cells. A last letter that joins what follows takes the first space in, so one
// more may be missing.
func pad(s string, width int) string {
	s = fit(s, width)
	for range 2 {
		s += strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
	}
	return s
}

// wrap breaks a text into lines of at most width cells, between words only: a name
// that is longer stays whole, so that it can be copied. So does a command: one that does
// not fit beside what is before it is on a line of its own, whatever its length. Width 0
// means no limit.
func wrap(s string, width int) []string {
	if width <= 0 {
		return []string{s}
	}
	lines, own := []string{""}, false
	for _, piece := range pieces(s) {
		last := &lines[len(lines)-1]
		fits := ansi.StringWidth(*last)+1+ansi.StringWidth(piece.text) <= width
		switch {
		case *last == "":
			*last = piece.text
		case fits && !own:
			*last += " " + piece.text
			continue
		default:
			lines = append(lines, piece.text)
		}
		own = piece.command && (len(lines) > 1 || ansi.StringWidth(piece.text) > width)
		if own {
			last = &lines[len(lines)-1]
			*last = strings.TrimRight(*last, ",;:") // the end of the line says as much
		}
	}
	return lines
}

// indented wraps a text and puts margin before each line.
func indented(s, margin string, width int) []string {
	inner := width
	if width > 0 {
		inner = max(20, width-ansi.StringWidth(margin))
	}
	lines := wrap(s, inner)
	for i := range lines {
		lines[i] = margin + lines[i]
	}
	return lines
}

// Item lays out a short head and a text beside it. A width of 0 means no limit.
func Item(head, text string, width int) []string {
	const column = 15
	lines := indented(text, strings.Repeat(" ", column), width)
	lines[0] = pad(head, column) + strings.TrimLeft(lines[0], " ")
	return lines
}

// Count says "1 pod" or "3 pods".
func Count(n int, noun string) string { return text.Count(n, noun) }

// Span says how long something takes, in at most two units: 4s, 2m10s, 3h5m, 2d4h.
func Span(d time.Duration) string {
	d = max(0, d.Round(time.Second))
	days, hours := int(d/(24*time.Hour)), int(d/time.Hour)%24
	minutes, seconds := int(d/time.Minute)%60, int(d/time.Second)%60
	switch {
	case days > 0:
		return units(days, "d", hours, "h")
	case hours > 0:
		return units(hours, "h", minutes, "m")
	case minutes > 0:
		return units(minutes, "m", seconds, "s")
	}
	return fmt.Sprintf("%ds", seconds)
}

func units(big int, bigUnit string, small int, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%d%s", big, bigUnit)
	}
	return fmt.Sprintf("%d%s%d%s", big, bigUnit, small, smallUnit)
}

// stamp is how plain lines show the time: sortable, of one width, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// mostLeftovers is how many things that killed drains left are shown: some are marks that tenants write.
const mostLeftovers = 20

// LeftoverLines says what killed drains have left, and how it is undone.
func LeftoverLines(found []drain.Leftover) []string {
	lines := make([]string, 0, min(len(found), mostLeftovers+1))
	for _, l := range found[:min(len(found), mostLeftovers)] {
		lines = append(lines, "a killed drain left: "+clean(l.What)+"; undo with: "+l.Remedy)
	}
	if more := len(found) - mostLeftovers; more > 0 {
		lines = append(lines, fmt.Sprintf("killed drains left %d more; usher drain --revert undoes what is on workloads, pods and requests", more))
	}
	return lines
}
