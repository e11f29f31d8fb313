package show

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"usher.sh/usher/internal/nodepressure"
)

// rankLines is the eviction order as a table of at most that many pods.
func (p Pressure) rankLines(width, most int, paint Paint) []string {
	all := p.Forecast.Ranking
	shown := all[:min(len(all), most)]
	table := grid{
		head:  []string{"#", "", "POD", "QOS", "PRIORITY", "REQUEST", "USAGE", "OVER", "RULE"},
		right: []bool{true, false, false, false, true, true, true, true, false},
		flex:  2,
	}
	signal, first := p.Forecast.Focus.Name, true
	marks := map[string]bool{}
	for i, r := range shown {
		look := func(s string) string { return s }
		switch {
		case r.Exempt != "":
			look = paint.dim
		case first:
			look, first = paint.strong, false
		}
		marks[mark(r)] = true
		table.add(look, strconv.Itoa(i+1), mark(r), r.Pod.Key(), class(r.Pod), strconv.Itoa(int(r.Pod.Priority)),
			signal.Amount(r.Request), usage(signal, r), over(signal, r), ruleWords(r))
	}
	lines := table.lines(width)
	if rest := len(all) - len(shown); rest > 0 {
		lines = append(lines, paint.dim(fmt.Sprintf("  … and %d more; -o json has all, and so has a pipe", rest)))
	}
	return append(lines, legends(marks, width)...)
}

// The marks of pods.
const (
	passedOver = "-"
	isGoverned = "*"
)

func mark(r nodepressure.Ranked) string {
	switch {
	case r.Exempt != "":
		return passedOver
	case r.Pod.Governed:
		return isGoverned
	}
	return ""
}

func legends(marks map[string]bool, width int) []string {
	var lines []string
	if marks[passedOver] {
		lines = append(lines, indented(passedOver+" It is passed over, for the reason that is given as its rule.", "  ", width)...)
	}
	if marks[isGoverned] {
		lines = append(lines, indented(isGoverned+" A policy governs it: usher agent asks it first, the kubelet does not. usher why shows its verdict.", "  ", width)...)
	}
	return lines
}

// cut leaves no remainder of one or two lines, which would save nothing.
func cut(n, most int) int {
	if n <= most+2 {
		return n
	}
	return most
}

func class(p nodepressure.Pod) string {
	if p.QoS == "" {
		return "unknown"
	}
	return string(p.QoS)
}

func usage(s nodepressure.Signal, r nodepressure.Ranked) string {
	if r.Pod.Usage == nil {
		return "unknown"
	}
	return s.Amount(r.Usage)
}

func over(s nodepressure.Signal, r nodepressure.Ranked) string {
	switch {
	case r.Pod.Usage == nil:
		return "unknown"
	case r.Over > 0:
		return "+" + s.Amount(r.Over)
	}
	return s.Amount(r.Over)
}

func ruleWords(r nodepressure.Ranked) string {
	if r.Exempt != "" {
		return inBrief(r.Exempt)
	}
	return string(r.Rule)
}

// inBrief is why a pod is passed over without the details, which -o json has.
func inBrief(exempt string) string {
	exempt, _, _ = strings.Cut(exempt, ":")
	exempt, _, _ = strings.Cut(exempt, ", and it")
	return exempt
}

// outOfMemory says whose memory would be gone, and by whose scores.
func (p Pressure) outOfMemory() string {
	by := ""
	if p.Forecast.OOMTable == nodepressure.OOM311 {
		by = ", by the scores of OpenShift 3.11"
	}
	if p.Forecast.OOMWithin == nodepressure.AllocatableMemoryAvailable {
		return "the pods have used all that they may together" + by
	}
	return "the whole node is out of memory" + by
}

// oomLines is the kernel's order as a table of at most that many containers.
func (p Pressure) oomLines(width, most int, paint Paint) []string {
	all := p.Forecast.OOM
	if len(all) == 0 {
		return nil
	}
	shown := all[:min(len(all), most)]
	table := grid{
		head:  []string{"#", "POD", "CONTAINER", "QOS", "SCORE", "ADJ", "USAGE", "RESTART"},
		right: []bool{true, false, false, false, true, true, true, false},
		flex:  1,
	}
	for i, o := range shown {
		look := func(s string) string { return s }
		if i == 0 {
			look = paint.strong
		}
		used := "unknown"
		if o.Usage >= 0 {
			used = nodepressure.MemoryAvailable.Amount(o.Usage)
		}
		table.add(look, strconv.Itoa(i+1), o.Pod.Key(), o.Container, class(o.Pod), strconv.Itoa(o.Score), strconv.Itoa(o.Adj), used, cmp.Or(string(o.Restart), "unknown"))
	}
	lines := table.lines(width)
	if rest := len(all) - len(shown); rest > 0 {
		lines = append(lines, paint.dim(fmt.Sprintf("  … and %d more; -o json has all, and so has a pipe", rest)))
	}
	return lines
}
