package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/text"
)

// waivable is what a person can give up of what a request waits for, and what not.
type waivable struct {
	rules       []string
	lost, holds []v1alpha1.ReplacementBlocker
}

func waivableOf(q *v1alpha1.ReplacementRequest) waivable {
	var w waivable
	for _, b := range q.Status.Blockers {
		if len(b.WaivedBy) == 0 {
			w.holds = append(w.holds, b)
			continue
		}
		w.lost = append(w.lost, b)
		w.rules = append(w.rules, b.WaivedBy...)
	}
	slices.Sort(w.rules)
	w.rules = slices.Compact(w.rules)
	return w
}

// unneeded says why nothing has to be given up; "": something has to be.
func (w *waivable) unneeded(q *v1alpha1.ReplacementRequest) string {
	member := text.Line(q.Spec.Member.ID)
	switch given := q.Spec.Abandonment; {
	case q.Status.Over():
		return fmt.Sprintf("nothing needs to be given up: the replacement of member %s is over (%s)", member, q.Status.Step)
	case given != nil && len(w.rules) > 0:
		return fmt.Sprintf("%s has given up %s already, and of what holds it now %s was not given up. A request takes one such word: to say more, delete the request, and give it up in another",
			text.Line(given.Requester), ruleWords(given.Rules), ruleWords(w.rules))
	case given != nil:
		return fmt.Sprintf("%s has given up %s already, at %s", text.Line(given.Requester), ruleWords(given.Rules), given.Time.UTC().Format(time.RFC3339))
	case len(w.rules) == 0:
		return "nothing needs to be given up: no rule that can be holds the replacement of member " + member
	}
	return ""
}

// refused says why what there is to give up is not; "": it may be.
func (w *waivable) refused(q *v1alpha1.ReplacementRequest) string {
	runs := func(b v1alpha1.ReplacementBlocker) bool { return b.Reason == string(replacement.PredecessorRuns) }
	switch at := slices.IndexFunc(w.holds, runs); {
	case q.DeletionTimestamp != nil:
		return "the request is being deleted: have it made anew, by the same command, once it is gone"
	case at >= 0:
		return fmt.Sprintf("the member is not lost: %s (%s)", text.Line(w.holds[at].Message), text.Line(w.holds[at].Remedy))
	}
	return ""
}

// lines say what is given up, what is not, and what becomes of the volumes.
func (w *waivable) lines(q *v1alpha1.ReplacementRequest, kept bool) []string {
	lines := []string{fmt.Sprintf("To be given up for member %s of role %s, policy %s:", text.Line(q.Spec.Member.ID), q.Spec.Member.Role, q.Spec.Source.Name)}
	for _, b := range w.lost {
		if b.Rule == "" {
			lines = append(lines, fmt.Sprintf("  %s, of which it is not known whether they pass: %s: %s", ruleWords(b.WaivedBy), b.Reason, text.Line(b.Message)))
			continue
		}
		lines = append(lines, fmt.Sprintf("  %s: %s: %s", ruleWords([]string{b.Rule}), b.Reason, text.Line(b.Message)))
	}
	lines = append(lines, "What only this member has is then lost to its system, and cannot be had back from it.")
	if len(w.holds) > 0 {
		lines = append(lines, "Not given up, and waited for all the same:")
	}
	for _, b := range w.holds {
		lines = append(lines, fmt.Sprintf("  %s: %s (%s)", b.Reason, text.Line(b.Message), text.Line(b.Remedy)))
	}
	if kept {
		return append(lines, "Its volumes stay as Released PersistentVolumes (volumeClaims: Retain); status.predecessor.claims of the request names them.")
	}
	return append(lines, "Its volumes go with their claims, as their reclaim policies say (volumeClaims: Delete): with Delete the disk is destroyed.")
}

func ruleWords(rules []string) string {
	if len(rules) == 1 {
		return "rule " + text.Line(rules[0])
	}
	return "rules " + text.Line(strings.Join(rules, ", "))
}

// volumesKept reports whether a policy keeps the volumes of a member, whichever of its entries the member is of.
func volumesKept(policies []v1alpha1.EvictionPolicy, q *v1alpha1.ReplacementRequest) bool {
	return !slices.ContainsFunc(policies, func(p v1alpha1.EvictionPolicy) bool {
		return p.Name == q.Spec.Source.Name && slices.ContainsFunc(p.Spec.Members, func(m v1alpha1.MemberSelector) bool {
			set := m.Provider
			if m.Role != q.Spec.Member.Role || set == nil {
				return false
			}
			return set.StatefulSet != nil && set.StatefulSet.VolumeClaims == v1alpha1.VolumeClaimsDelete ||
				set.MemberSet != nil && set.MemberSet.VolumeClaims == v1alpha1.VolumeClaimsDelete
		})
	})
}
