package show

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/drain"
)

// Lines is the summary for people. Where the drain is blocked, the blockers come last.
func (s Summary) Lines(width int, paint Paint) []string {
	lines := []string{s.headline(paint)}
	if s.Stale != "" {
		lines = append(lines, indented(paint.bad("as last seen: ")+clean(s.Stale), "  ", width)...)
	}
	for _, n := range s.Nodes {
		lines = append(lines, indented(nodeEndWords(n), "  ", width)...)
	}
	lines = append(lines, listPods(paint.wait("not replaced yet"), s.NotReplaced, width)...)
	lines = append(lines, listPods("gone, with no replacement to wait for", s.Ended, width)...)
	for _, name := range s.Surged {
		lines = append(lines, indented(paint.bad("still surged: ")+name+"; undo with: "+s.Commands.In("usher drain --revert"), "  ", width)...)
	}
	lines = append(lines, s.nextLines()...)
	if s.Outcome == drain.Drained || len(s.Blockers) == 0 {
		return lines
	}
	lines = append(lines, "", s.leftTitle())
	return append(lines, BlockerLines(unrepeated(s.Blockers), s.Now, width, paint)...)
}

// leftTitle stands above the blockers. A drain that was ended from outside was not
// necessarily blocked by them: most of its pods only waited.
func (s Summary) leftTitle() string {
	title := "What is in the way"
	if s.Outcome == drain.Interrupted || s.Outcome == drain.TimedOut {
		title = "What the pods that are left waited for"
	}
	return fmt.Sprintf("%s (%s left):", title, Count(len(s.Left), "pod"))
}

func (s Summary) headline(paint Paint) string {
	counts := fmt.Sprintf("%s gone", Count(s.Gone, "pod"))
	if len(s.Left) > 0 {
		counts += fmt.Sprintf(", %d left", len(s.Left))
	}
	if s.Emptied > 0 {
		counts += fmt.Sprintf(", %d emptied", s.Emptied)
	}
	if s.Staying > 0 {
		counts += fmt.Sprintf(", %d not touched", s.Staying)
	}
	return fmt.Sprintf("%s after %s: %s", s.verdict(paint), Span(s.Took), counts)
}

func (s Summary) verdict(paint Paint) string {
	switch s.Outcome {
	case drain.Drained:
		return paint.good("drained")
	case drain.Blocked:
		return paint.bad("blocked")
	case drain.DeadlinePassed:
		return paint.bad("the deadline passed")
	case drain.TimedOut:
		return paint.bad("timed out")
	case drain.Interrupted:
		return paint.wait("interrupted")
	case drain.NoAccess:
		return paint.bad("no access")
	case drain.Left:
		return paint.wait("left as it is")
	case drain.Running:
	}
	return paint.bad("ended unfinished")
}

func nodeEndWords(n NodeEnd) string {
	words := fmt.Sprintf("%s: %s", n.Name, nodeStateWords(n.State))
	if n.Left > 0 {
		words += fmt.Sprintf(", %s left", Count(n.Left, "pod"))
	}
	if n.State == drain.NodeMissing {
		return words + " (the node was deleted)"
	}
	if n.Cordon == "" {
		return words + ", open to new pods"
	}
	return words + ", " + n.Cordon
}

// mostPods bounds a list: after it only the number counts.
const mostPods = 10

func listPods(title string, pods []drain.PodStatus, width int) []string {
	if len(pods) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("  %s: %s", title, Count(len(pods), "pod"))}
	for i, p := range pods {
		if i == mostPods {
			return append(lines, fmt.Sprintf("    … %d more", len(pods)-i))
		}
		lines = append(lines, indented(p.Pod.Key().String()+": "+replacementWords(p), "    ", width)...)
	}
	return lines
}

func replacementWords(p drain.PodStatus) string {
	if r := p.Replacement; r != nil {
		words := r.Name + " is not ready"
		if r.NotReadyWhy != "" {
			words += ": " + clean(r.NotReadyWhy)
		}
		return words
	}
	if p.Note != "" {
		return clean(p.Note)
	}
	return "no replacement was seen yet"
}

func (s Summary) nextLines() []string {
	var free []string
	for _, n := range s.Nodes {
		if n.Free {
			free = append(free, n.Name)
		}
	}
	var lines []string
	if s.Outcome != drain.Drained && s.GoOn != "" {
		lines = append(lines, "  go on with:  "+s.GoOn) // on one line, to be copied
	}
	if len(free) > 0 {
		verb := "undo with:   "
		if s.Outcome == drain.Drained {
			verb = "when the work is done:  "
		}
		lines = append(lines, "  "+verb+s.Commands.In("usher uncordon "+strings.Join(free, " "))) // likewise
	}
	return lines
}
