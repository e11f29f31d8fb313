package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// Plan is how a drain would go, on one page.
type Plan struct {
	sim.Plan

	Nodes      []string
	Now        time.Time
	Objections []drain.Blocker
	Accept     string // where there are objections: the command that accepts them
	Ladder     []drain.DeadlinePhase
	Orders     []snapshot.RoleOrder
	Assumed    []string // about the cluster
	OneLine    bool     // as JSON: programs that read a drain take one object a line
}

// AcceptTitle stands above the command that drains in spite of objections.
const AcceptTitle = "To drain all the same"

// How many lines of each part people get; JSON has all.
const (
	mostSteps = 20
	mostWaves = 8
	mostNames = 4
	mostLeft  = 15
)

// Lines is the plan for people. What is in the way comes last.
func (p Plan) Lines(width int, paint Paint) []string {
	lines := []string{p.headline(paint)}
	part := func(title string, body []string) {
		if len(body) > 0 {
			lines = append(append(lines, "", paint.strong(title)), body...)
		}
	}
	part("Steps", p.stepLines(width))
	part("Order of roles", OrderLines(p.Orders, width))
	part("Waves", p.waveLines())
	part("Budgets", p.budgetLines())
	part("Started first (surge)", p.surgeLines())
	part("Deadline", p.ladderLines(width))
	part("Left", p.leftLines(width))
	part("To know", p.noteLines(width))
	part("Assumed", bullets(p.Unknown, width))
	if len(p.Objections) > 0 {
		part(AcceptTitle, []string{"  " + p.Accept})
	}
	part("In the way", BlockerLines(unrepeated(p.inTheWay()), p.Now, width, paint))
	return lines
}

// inTheWay is what objects and what blocks. Of a pod that objects nothing else counts: no
// drain that could be blocked by it is started.
func (p Plan) inTheWay() []drain.Blocker { return append(slices.Clone(p.Objections), p.blockers()...) }

// blockers are those of what does not object.
func (p Plan) blockers() []drain.Blocker {
	objects := map[snapshot.Key]bool{}
	for i := range p.Objections {
		objects[p.Objections[i].Pod] = true
	}
	return slices.DeleteFunc(slices.Clone(p.Blockers), func(b drain.Blocker) bool { return b.Pod.Name != "" && objects[b.Pod] })
}

func (p Plan) headline(paint Paint) string {
	verdict := ""
	switch {
	case len(p.Objections) > 0:
		return fmt.Sprintf("%s %s, %s", listNames(p.Nodes), paint.bad("would not start"), Count(len(p.Objections), "objection"))
	case p.Outcome == drain.Drained:
		verdict = paint.good("would drain")
	case p.Outcome == drain.DeadlinePassed:
		verdict = paint.bad("would not be done by the deadline")
	case p.Outcome == sim.Waiting:
		verdict = paint.bad("would not end within the forecast")
	default:
		verdict = paint.bad("would be blocked")
	}
	text := fmt.Sprintf("%s %s: %s in about %s", listNames(p.Nodes), verdict, leave(p.Pods), Span(p.Duration))
	if p.Recovered > p.Duration {
		text += ", all replaced after " + Span(p.Recovered)
	}
	return text
}

func leave(pods int) string {
	if pods == 1 {
		return "1 pod leaves"
	}
	return Count(pods, "pod") + " leave"
}

func listNames(names []string) string {
	return text.List(names, mostNames)
}

func (p Plan) stepLines(width int) []string {
	var lines []string
	for i, step := range p.Steps {
		if i == mostSteps {
			return append(lines, fmt.Sprintf("  … %d more; -o json shows all", len(p.Steps)-i))
		}
		body := indented(stepWords(step), "         ", width)
		body[0] = fmt.Sprintf("  %-6s %s", Span(step.At), strings.TrimLeft(body[0], " "))
		lines = append(lines, body...)
	}
	return lines
}

func stepWords(s sim.Step) string {
	words := string(s.Kind)
	switch {
	case len(s.Pods) > 0:
		names := make([]string, 0, len(s.Pods))
		for _, pod := range s.Pods {
			names = append(names, pod.Key().String())
		}
		words += " " + Count(len(names), "pod") + ": " + listNames(names)
	case len(s.Nodes) > 0:
		words += " " + listNames(s.Nodes)
	case s.Target != "":
		words += fmt.Sprintf(" %s to %d", s.Target, s.Replicas)
	}
	if s.Why != "" {
		words += " (" + clean(s.Why) + ")"
	}
	return words
}

func (p Plan) waveLines() []string {
	if len(p.Waves) < 2 {
		return nil
	}
	var lines []string
	for i, w := range p.Waves {
		if i == mostWaves && len(p.Waves) > mostWaves+1 {
			last := p.Waves[len(p.Waves)-1]
			return append(lines, fmt.Sprintf("  … %d more, the last at %s; -o json shows all", len(p.Waves)-i, Span(last.From)))
		}
		lines = append(lines, fmt.Sprintf("  %3d  %-6s %s", i+1, Span(w.From), Count(w.Pods, "pod")))
	}
	return lines
}

func (p Plan) budgetLines() []string {
	var lines []string
	for _, b := range p.Budgets {
		lines = append(lines, fmt.Sprintf("  %s: %s from %s to %s; healthy never below %d, needed %d",
			b.Budget, Count(b.Evictions, "eviction"), Span(b.First), Span(b.Last), b.Lowest, b.Desired))
	}
	return lines
}

func (p Plan) surgeLines() []string {
	var lines []string
	for _, s := range p.Surges {
		until := "never scaled back"
		if s.End > 0 {
			until = "back at " + Span(s.End)
		}
		lines = append(lines, fmt.Sprintf("  %s: %d to %d replicas at %s, %s", s.Workload, s.From, s.To, Span(s.Start), until))
	}
	return lines
}

func (p Plan) ladderLines(width int) []string {
	var lines []string
	for _, r := range p.Ladder {
		lines = append(lines, Item("  after "+Span(r.At.Sub(p.Now)), r.Text, width)...)
	}
	return lines
}

// leftLines says what is not where it should be; pods with the same cause share a line.
// Those that are in the way are named there, with what would help.
func (p Plan) leftLines(width int) []string {
	named := map[snapshot.Key]bool{}
	for _, b := range p.inTheWay() {
		named[b.Pod] = true
	}
	type cause struct{ node, why string }
	var order []cause
	names := map[cause][]string{}
	for _, l := range p.Left {
		if l.Node != "" && named[l.Pod.Key()] {
			continue
		}
		c := cause{l.Node, clean(cmp.Or(l.Why, p.heldWith(l.Node)))}
		if names[c] == nil {
			order = append(order, c)
		}
		names[c] = append(names[c], l.Pod.Key().String())
	}
	var lines []string
	for i, c := range order {
		if i == mostLeft {
			return append(lines, fmt.Sprintf("  … %d more causes; -o json shows all", len(order)-i))
		}
		where := "on " + c.node
		if c.node == "" {
			where = "without a node"
		}
		lines = append(lines, indented(fmt.Sprintf("%s %s: %s: %s", Count(len(names[c]), "pod"), where, listNames(names[c]), c.why), "  ", width)...)
	}
	return lines
}

// heldWith says why pods stay of which nothing else is said: something holds their node.
func (p Plan) heldWith(node string) string {
	for _, b := range p.blockers() {
		if b.Pod.Name == "" && b.Node == node {
			return fmt.Sprintf("their node is held (%s)", b.Reason)
		}
	}
	return "the drain did not come to them"
}

func (p Plan) noteLines(width int) []string { return bullets(p.Notes, width) }

func bullets(texts []string, width int) []string {
	var lines []string
	for _, text := range texts {
		lines = append(lines, indented(clean(text), "  ", width)...)
	}
	return lines
}
