package show

import (
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/nodepressure/forecast"
)

// Answer says in one sentence how the node stands with what it is nearest to running short of, and which pod goes first.
func (p Pressure) Answer() string { return clean(p.sentence()) }

func (p Pressure) sentence() string {
	s := p.Forecast.Focus
	if s == nil {
		return fmt.Sprintf("Nothing was measured on node %s that it can run short of.", p.Record.Node.Name)
	}
	text := ""
	if len(p.Supposed) > 0 {
		text = "Supposed: "
	}
	text += fmt.Sprintf("%s of node %s is %s", s.Name, p.Record.Node.Name, s.Name.Amount(s.Reading.Available))
	l := s.Nearest()
	if l == nil {
		return text + fmt.Sprintf(" of %s, and no threshold is set for it: no pod is evicted on its account.", s.Name.Amount(s.Reading.Capacity))
	}
	return text + ", " + standing(s.Name, l) + p.consequence(l) + "."
}

// standing says where a signal is relative to a threshold.
func standing(s nodepressure.Signal, l *forecast.Level) string {
	t := fmt.Sprintf("its %s threshold of %s", l.Threshold.Kind(), below(s, l))
	switch {
	case l.Headroom == 0:
		return "exactly at " + t
	case l.Headroom < 0:
		return s.Amount(-l.Headroom) + " below " + t
	}
	return s.Amount(l.Headroom) + " above " + t
}

// below is a threshold as it was configured, and what a percentage comes to.
func below(s nodepressure.Signal, l *forecast.Level) string {
	if l.Threshold.Below.Fraction == 0 {
		return s.Amount(l.Limit)
	}
	return fmt.Sprintf("%s (%s)", s.Amount(l.Limit), l.Threshold.Below.String())
}

// consequence says which pod goes, when and why.
func (p Pressure) consequence(l *forecast.Level) string {
	stays := ""
	if !l.Threshold.Hard() {
		stays = " for " + Span(l.Threshold.Grace)
	}
	if l.First == nil {
		return ". " + p.noVictim(l.Met())
	}
	var when, verb string
	switch {
	case l.Met() && stays == "":
		when, verb = ": ", "goes now"
	case l.Met():
		when, verb = ": if it stays there"+stays+", ", "goes first"
	case stays == "":
		when, verb = "; if it fell below, ", "would go first"
	default:
		when, verb = "; if it stayed below"+stays+", ", "would go first"
	}
	return fmt.Sprintf("%s%s %s (order %s), with %s to shut down, %s%s",
		when, l.First.Pod.Key(), verb, p.Forecast.Order, Span(l.First.Grace), because(l.First.Why), p.governance(l))
}

func because(why string) string {
	if why == "" {
		return "it is the only one"
	}
	return "because " + why
}

// noVictim says why no pod is evicted.
func (p Pressure) noVictim(now bool) string {
	if len(p.Record.Pods) == 0 {
		return "There is no pod on the node that could be evicted"
	}
	verb := "would go"
	if now {
		verb = "goes"
	}
	var reasons []string
	for _, r := range p.Forecast.Ranking {
		if reason := inBrief(r.Exempt); reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return fmt.Sprintf("No pod %s, because every pod is passed over (%s)", verb, strings.Join(reasons, "; "))
}

// governance says what a policy has to do with it that the first pod goes first.
func (p Pressure) governance(l *forecast.Level) string {
	pod := &l.First.Pod
	switch {
	case !pod.Governed:
		return ""
	case p.Forecast.Order == nodepressure.OrderKubelet:
		return fmt.Sprintf("; policy %s governs it, and the kubelet does not ask", pod.Policy)
	}
	text := fmt.Sprintf("; policy %s governs it and is asked first", pod.Policy)
	if next := p.ungoverned(pod); next != "" && l.Threshold.Hard() {
		text += ", so usher agent takes " + next + " before it"
	}
	return text
}

// ungoverned is the first pod that may be evicted without asking, instead of the governed one that is first: none that stays
// within its request while that one exceeds its own.
func (p Pressure) ungoverned(first *nodepressure.Pod) string {
	exceeds := false
	for _, r := range p.Forecast.Ranking {
		exceeds = exceeds || r.Pod.UID == first.UID && r.Over > 0
		if r.Exempt == "" && !r.Pod.Governed && (r.Over > 0 || !exceeds) {
			return r.Pod.Key()
		}
	}
	return ""
}
