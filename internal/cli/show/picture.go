package show

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"usher.sh/usher/internal/drain"
)

// Picture is everything that the live table shows.
type Picture struct {
	Now      time.Time
	Started  time.Time
	Deadline time.Time // zero: none
	Done     time.Time // when the drain is expected to be done; zero: unknown
	Decision drain.Decision
	Banner   string // what is said at the terminal: "stopping …"
}

// minWidth is the narrowest terminal for which lines are laid out; below it they are cut.
const minWidth = 40

// Table lays a picture out in at most height lines of at most width cells.
func Table(p Picture, width, height int, paint Paint) []string {
	lines := headerLines(p, width, paint)
	if p.Banner != "" {
		for _, line := range flow("", p.Banner, "", width) {
			lines = append(lines, paint.wait(line))
		}
	}
	lines = append(lines, nodeLines(p, max(width, minWidth), max(1, height/3), paint)...)
	lines = append(lines, podLines(p, max(width, minWidth), height-len(lines), paint)...)
	if len(lines) > height {
		lines = lines[:max(0, height)]
	}
	for i := range lines {
		lines[i] = fit(lines[i], width)
	}
	return lines
}

// headerLines says what goes on and how long it takes; what does not fit goes onto a
// second line.
func headerLines(p Picture, width int, paint Paint) []string {
	first := headerLine(p, paint)
	times := timesLeft(p, paint)
	switch {
	case times == "":
		return []string{first}
	case ansi.StringWidth(first+times)+2 <= width:
		return []string{first + "  " + times}
	}
	return []string{first, times}
}

func headerLine(p Picture, paint Paint) string {
	spent := "  " + Span(p.Now.Sub(p.Started))
	outcome := string(p.Decision.Outcome)
	switch {
	case p.Decision.Outcome != drain.Running && p.Decision.Settled:
		return paint.strong(outcome) + spent
	case p.Decision.Outcome != drain.Running:
		return paint.strong(outcome+", tidying up") + spent
	}
	return paint.strong("draining "+Count(len(p.Decision.Nodes), "node")) + spent
}

func timesLeft(p Picture, paint Paint) string {
	if p.Decision.Outcome != drain.Running {
		return ""
	}
	var words []string
	if done := p.expected(); done.After(p.Now) {
		words = append(words, "about "+Span(done.Sub(p.Now))+" left")
	}
	switch {
	case p.Deadline.IsZero():
	case p.Deadline.After(p.Now):
		words = append(words, paint.wait("deadline in "+Span(p.Deadline.Sub(p.Now))))
	default:
		words = append(words, paint.bad("deadline passed"))
	}
	return strings.Join(words, "  ")
}
