package show

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// SetPlan is what applying a MemberSet would do, on one page.
type SetPlan struct {
	memberset.Forecast

	Namespace, Name string
	IsThere         bool
	Commands        Commands // how to type those of advice
}

// shownOfSet are the resources of which people see how much there is at once; JSON has all.
var shownOfSet = []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage}

// Blocked reports whether not all of it would be done: something is in the way, or a quota would be exceeded.
func (p SetPlan) Blocked() bool { return !p.Complete || len(p.exceeded()) > 0 }

func (p SetPlan) exceeded() []memberset.QuotaUse {
	var all []memberset.QuotaUse
	for _, q := range p.Quotas {
		if q.Exceeded {
			all = append(all, q)
		}
	}
	return all
}

// Lines is the plan for people. What is in the way comes last.
func (p SetPlan) Lines(width int, paint Paint) []string {
	lines := indented(p.headline(paint), "", width)
	part := func(title string, body []string) {
		if len(body) > 0 {
			lines = append(append(lines, "", paint.strong(title)), body...)
		}
	}
	part("Groups", p.groupLines())
	part("Replaced", departureLines(p.Replaced, width))
	part("Made", nameLines(p.Made, width))
	part("Removed", departureLines(p.Removed, width))
	part("Made anew under their names, batch after batch", p.batchLines(width))
	part("Relabelled in place", nameLines(p.Relabelled, width))
	part("At once", p.amountLines())
	part("ResourceQuotas", p.quotaLines(width, paint))
	part("To know", bullets(p.Commands.InAll(p.Notes), width))
	part("Assumed", bullets(p.Commands.InAll(p.Unknown), width))
	part("In the way", BlockerLines(p.Commands.Blockers(p.inTheWay()), time.Time{}, width, paint))
	return lines
}

func (p SetPlan) headline(paint Paint) string {
	verb := "would be made"
	if p.IsThere {
		verb = "would be changed"
	}
	var parts []string
	part := func(n int, words string) {
		if n > 0 {
			parts = append(parts, Count(n, "member")+" "+words)
		}
	}
	part(len(p.Made), "made")
	part(len(p.Replaced), "replaced")
	part(len(p.Removed), "removed")
	pods := 0
	for _, b := range p.Recreated {
		pods += len(b.Members)
	}
	part(pods, "made anew")
	part(len(p.Relabelled), "relabelled")
	if len(parts) == 0 {
		parts = []string{"no member is touched"}
	}
	words := verb + ": " + strings.Join(parts, ", ")
	switch {
	case !p.Complete:
		words += "; " + paint.bad("it would be blocked")
	case len(p.exceeded()) > 0:
		words += "; " + paint.bad("it would exceed a ResourceQuota")
	}
	return fmt.Sprintf("MemberSet %s/%s %s", clean(p.Namespace), clean(p.Name), words)
}

func (p SetPlan) groupLines() []string {
	lines := []string{fmt.Sprintf("  %-16s %5s %5s  %s", "group", "today", "after", "role")}
	for _, g := range p.Groups {
		lines = append(lines, fmt.Sprintf("  %-16s %5d %5d  %s", clean(g.Name), g.Today, g.After, clean(g.Role)))
	}
	return lines
}

// departureLines has members that go for the same reason share a line.
func departureLines(all []memberset.Departure, width int) []string {
	var order []string
	names := map[string][]string{}
	for _, d := range all {
		if names[d.Why] == nil {
			order = append(order, d.Why)
		}
		names[d.Why] = append(names[d.Why], d.Member)
	}
	var lines []string
	for i, why := range order {
		if i == mostLeft {
			return append(lines, fmt.Sprintf("  … %d more causes; -o json shows all", len(order)-i))
		}
		lines = append(lines, indented(fmt.Sprintf("%s: %s", listNames(names[why]), clean(why)), "  ", width)...)
	}
	return lines
}

func nameLines(names []string, width int) []string {
	if len(names) == 0 {
		return nil
	}
	return indented(listNames(names), "  ", width)
}

func (p SetPlan) batchLines(width int) []string {
	var lines []string
	for i, b := range p.Recreated {
		if i == mostSteps {
			return append(lines, fmt.Sprintf("  … %d more; -o json shows all", len(p.Recreated)-i))
		}
		words := listNames(b.Members)
		if len(b.Zones) > 0 {
			words += " (zone " + clean(text.List(b.Zones, mostNames)) + ")"
		}
		body := indented(words, "       ", width)
		body[0] = fmt.Sprintf("  %3d  %s", i+1, strings.TrimLeft(body[0], " "))
		lines = append(lines, body...)
	}
	return lines
}

func (p SetPlan) amountLines() []string {
	lines := []string{fmt.Sprintf("  %-16s %7s %7s %7s", "", "today", "at most", "after")}
	for _, name := range shownOfSet {
		today, most, after := p.Today[name], p.Most[name], p.After[name]
		if most.IsZero() && name != corev1.ResourcePods {
			continue
		}
		lines = append(lines, fmt.Sprintf("  %-16s %7s %7s %7s", name, today.String(), most.String(), after.String()))
	}
	return lines
}

func (p SetPlan) quotaLines(width int, paint Paint) []string {
	var lines []string
	for _, q := range p.Quotas {
		words := fmt.Sprintf("%s: %s %s of %s used, %s at most", clean(q.Quota), clean(string(q.Resource)), q.Used.String(), q.Hard.String(), q.Most.String())
		if q.Exceeded {
			words += ": " + paint.bad("exceeded")
		}
		lines = append(lines, indented(words, "  ", width)...)
	}
	return lines
}

// inTheWay is what blocks, as of the set.
func (p SetPlan) inTheWay() []drain.Blocker {
	var all []drain.Blocker
	for i := range p.blockers() {
		b := &p.blockers()[i]
		all = append(all, drain.Blocker{
			Reason: drain.Reason(b.Reason), Pod: snapshot.Key{Namespace: p.Namespace, Name: p.Name}, Message: b.Message, Remedy: b.Remedy, Dead: b.Never,
		})
	}
	return all
}

// blockers are those of the set, and one for each quota that would be exceeded.
func (p SetPlan) blockers() []memberset.Blocker {
	all := append([]memberset.Blocker{}, p.Blockers...)
	for _, q := range p.exceeded() {
		all = append(all, memberset.Blocker{
			Reason: "QuotaExceeded", Never: true,
			Message: fmt.Sprintf("ResourceQuota %s allows %s of %s, and %s would be used at once at most", q.Quota, q.Hard.String(), q.Resource, q.Most.String()),
			Remedy:  "raise the quota for the time of the change, or change less at a time",
		})
	}
	return all
}
