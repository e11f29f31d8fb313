package drain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// budgetsAllow says whether the eviction API would let the pod go now, counting
// what drains of this process have used of its budget and the budget's status does not show yet.
// It follows the server's own order of checks (spec drain, section 2.4).
func (d *decider) budgetsAllow(p *snapshot.Pod) (budgetRef, []Blocker) {
	if d.req.DisableEviction || budgetless(p) {
		return budgetRef{}, nil
	}
	budgets := d.Cluster.BudgetsFor(p)
	switch len(budgets) {
	case 0:
		return budgetRef{}, nil
	case 1:
		return d.budgetAllows(p, budgets[0])
	}
	return budgetRef{}, []Blocker{d.severalBudgets(p, budgets)}
}

func (d *decider) budgetAllows(p *snapshot.Pod, b *snapshot.Budget) (budgetRef, []Blocker) {
	ref := budgetRef{key: b.Key(), uid: b.UID, version: b.ResourceVersion, before: b.Disrupted[p.Name]}
	switch {
	case unreadyMayGo(p, b):
		return budgetRef{}, nil
	case !b.Observed:
		return ref, []Blocker{d.notObserved(p, b)}
	case d.neverAllows(p, b):
		return ref, []Blocker{d.neverAllowed(p, b)}
	case d.allowed(p, b) <= 0:
		return ref, []Blocker{d.exhausted(p, b)}
	}
	return ref, nil
}

// allowed returns how many evictions a pod's budget allows: by its status, beside those that does not show yet, and by the pods of the view,
// beside what it needs. The status follows pods that fail, are deleted or are scaled away only later, and the server lets evictions go
// on top of them.
func (d *decider) allowed(p *snapshot.Pod, b *snapshot.Budget) int32 {
	byStatus := b.Allowed - d.used[b.UID]
	if byStatus <= 0 {
		return byStatus
	}
	return min(byStatus, d.healthyUnder(b)-d.scaledAway(p, b)-d.taken[b.UID]-d.needs(p, b))
}

// use enters that an eviction of this decision uses a budget.
func (d *decider) use(budget types.UID) {
	d.used[budget]++
	d.taken[budget]++
}

// healthyUnder counts the pods of a budget that are ready, without those whose eviction has used it and is not seen yet.
func (d *decider) healthyUnder(b *snapshot.Budget) int32 {
	n := d.Cluster.HealthyUnder(b) - d.evicting[b.UID]
	for name, at := range b.Disrupted {
		p := d.Cluster.PodNamed(snapshot.Key{Namespace: b.Namespace, Name: name})
		if p != nil && d.Now.Before(at.Add(disruptedFor)) && d.led.uncounted[p.UID] == nil && p.Healthy() && b.Matches(p) {
			n--
		}
	}
	return n
}

// unreadyMayGo reports whether the server lets an unready pod go without using the
// budget: always under AlwaysAllow, else only while enough others are healthy.
func unreadyMayGo(p *snapshot.Pod, b *snapshot.Budget) bool {
	return !p.Ready && (b.AlwaysAllow || (b.Observed && b.Desired > 0 && b.Current >= b.Desired))
}

// neverAllows reports whether the budget cannot allow an eviction however healthy
// its pods become: a single replica with minAvailable 1, a percentage that rounds to
// all of them, maxUnavailable 0.
func (d *decider) neverAllows(p *snapshot.Pod, b *snapshot.Budget) bool {
	if b.MaxUnavailable != nil && isZero(*b.MaxUnavailable) {
		return true
	}
	if !b.Observed || b.Expected <= 0 {
		return false
	}
	expected := b.Expected
	if wanted := d.wanted(p); b.MinAvailable != nil && b.MinAvailable.Type == intstr.Int {
		if wanted > 0 {
			expected -= d.terminatingUnder(b)
		}
		expected = max(expected, wanted)
	}
	return b.Desired >= expected
}

// terminatingUnder counts the pods of a budget that terminate and that nothing replaces any more. The disruption controller expects them where
// the budget wants a number of pods, however long a finalizer keeps them, and none of them becomes ready again. A StatefulSet's pod comes
// back when it has ended.
func (d *decider) terminatingUnder(b *snapshot.Budget) int32 {
	if n, known := d.terminating[b.UID]; known {
		return n
	}
	of := map[*snapshot.Workload]int32{}
	for _, p := range d.Cluster.PodsIn(b.Namespace) {
		if p.Terminating() && !p.Finished() && b.Matches(p) {
			of[d.workloadOf(p)]++
		}
	}
	n := int32(0)
	for w, terminating := range of {
		n += max(0, terminating-d.missing(w))
	}
	d.terminating[b.UID] = n
	return n
}

// missing returns how many pods the controller of a workload has still to make, 0 where that is not known.
func (d *decider) missing(w *snapshot.Workload) int32 {
	if w == nil || w.Replicas < 0 {
		return 0
	}
	stay := int32(0)
	for _, p := range d.podsOf(w) {
		if !p.Terminating() && !p.Finished() {
			stay++
		}
	}
	return max(0, w.Replicas-stay)
}

func isZero(v intstr.IntOrString) bool {
	return (v.Type == intstr.Int && v.IntVal == 0) || (v.Type == intstr.String && strings.TrimRight(v.StrVal, "%") == "0")
}

// wanted returns how many pods the pod's owner asked for, 0 if unknown.
func (d *decider) wanted(p *snapshot.Pod) int32 {
	w := d.workloadOf(p)
	switch {
	case w == nil:
		return 0
	case w.Surge != nil:
		return w.Surge.Was
	}
	return max(w.Replicas, 0)
}

// workloadOf returns what rules the pod's number: its Deployment if it has one,
// else its controller; nil if unknown.
func (d *decider) workloadOf(p *snapshot.Pod) *snapshot.Workload {
	w := d.Cluster.WorkloadOf(p.OwnerKey())
	if w != nil && w.Kind == "ReplicaSet" {
		if owner := d.Cluster.WorkloadOf(w.OwnerKey()); owner != nil {
			return owner
		}
	}
	return w
}

func (d *decider) severalBudgets(p *snapshot.Pod, budgets []*snapshot.Budget) Blocker {
	b := Blocker{Reason: TwoBudgets, Pod: p.Key(), Node: p.Node, Dead: true}
	if d.verbose {
		var names []string
		for _, budget := range budgets {
			names = append(names, budget.Name)
		}
		b.Message = fmt.Sprintf("budgets %s all match it; the server evicts no pod under more than one", listed(names))
		b.Remedy = "narrow the selector of all but one: kubectl edit pdb -n " + p.Namespace
		if len(names) <= mostListed {
			b.Remedy += " " + strings.Join(names, " ")
		}
	}
	return b
}

func (d *decider) notObserved(p *snapshot.Pod, budget *snapshot.Budget) Blocker {
	return Blocker{
		Reason: BudgetNotObserved, Pod: p.Key(), Node: p.Node,
		Message: "the disruption controller has not looked at the latest version of budget " + budget.Name + " yet",
		Remedy:  fmt.Sprintf("wait; if it lasts, see the budget's events: kubectl describe pdb -n %s %s", budget.Namespace, budget.Name),
	}
}

func (d *decider) neverAllowed(p *snapshot.Pod, budget *snapshot.Budget) Blocker {
	b := Blocker{Reason: BudgetNeverAllows, Pod: p.Key(), Node: p.Node, Since: d.heldSince(budget), Dead: true}
	if d.verbose {
		b.Message = fmt.Sprintf("budget %s can never allow it: %s, of %s", budget.Name, demand(budget), text.Count(budget.Expected, "pod"))
		b.Remedy = d.wayPastBudget(p, budget) + letUnready(p, budget)
	}
	return b
}

func (d *decider) exhausted(p *snapshot.Pod, budget *snapshot.Budget) Blocker {
	b := Blocker{Reason: BudgetExhausted, Pod: p.Key(), Node: p.Node, Since: d.heldSince(budget)}
	b.Dead = budget.Allowed > d.used[budget.UID] && d.stuckUnder(p, budget)
	if d.verbose {
		b.Message = fmt.Sprintf("budget %s needs %d healthy and has %d%s", budget.Name, budget.Desired, budget.Current, d.unreadyUnder(budget).words)
		switch used := d.used[budget.UID]; {
		case budget.Allowed > 0 && used > 0:
			b.Message = fmt.Sprintf("budget %s is used up by %s of %s", budget.Name, text.Count(used, "eviction"), d.usersOf(budget))
		case budget.Allowed > 0 && d.scaledAway(p, budget) > 0:
			b.Message = fmt.Sprintf("budget %s needs %d healthy and has %d, %d of which %s", budget.Name, d.needs(p, budget), d.healthyUnder(budget), d.scaledAway(p, budget), extraPods)
		case budget.Allowed > 0:
			b.Message = fmt.Sprintf("budget %s needs %d healthy and has %d, though its status still counts %d", budget.Name, budget.Desired, d.healthyUnder(budget), budget.Current)
		}
		b.Message += d.heldBefore(budget)
		b.Remedy = cmp.Or(d.unreadyUnder(budget).remedy, "wait until more of its pods are ready")
		if b.Dead {
			b.Remedy = "see what keeps these surges: the blockers of their pods say what to do"
		}
		b.Remedy += letUnready(p, budget)
		d.stillCounted(&b, budget)
	}
	return b
}

// extraPods says which pods are no room under a budget.
const extraPods = "are more than their workloads are to keep (a rollout, a surge, or a scaling down)"

// usersOf says which drains use a budget.
func (d *decider) usersOf(b *snapshot.Budget) string {
	if d.led.byOthers(b.UID) {
		return "drains of this process"
	}
	return "this drain"
}

// letUnready is the way past a budget of a pod that is not ready: nothing else helps where it never gets ready.
func letUnready(p *snapshot.Pod, b *snapshot.Budget) string {
	if p.Ready || b.AlwaysAllow {
		return ""
	}
	return fmt.Sprintf(`; or, as this one is not ready: kubectl patch pdb -n %s %s --type=merge -p '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'`, b.Namespace, b.Name)
}

// heldSince returns since when a budget has held its pods. In a drain it held nothing
// before that: how long the drain has waited, its ledger knows.
func (d *decider) heldSince(b *snapshot.Budget) time.Time {
	if d.req.Started.IsZero() {
		return b.BlockedSince
	}
	return time.Time{}
}

// heldBefore says how long a budget had allowed nothing when the drain began, "" where it
// had: a budget that is used up for days is not used up by the drain.
func (d *decider) heldBefore(b *snapshot.Budget) string {
	before := d.req.Started.Sub(b.BlockedSince)
	if d.req.Started.IsZero() || b.BlockedSince.IsZero() || before < time.Second {
		return ""
	}
	return fmt.Sprintf("; it had allowed none for %s before this drain", short(before))
}

// stillCounted says which pods the disruption controller still counts as being
// evicted, where that is all that holds the budget: a StatefulSet's pod that came
// back under its name before the controller looked is counted so for two minutes.
func (d *decider) stillCounted(b *Blocker, budget *snapshot.Budget) {
	if budget.Current < budget.Desired || len(budget.Disrupted) == 0 || budget.Allowed > 0 {
		return
	}
	names := slices.Sorted(maps.Keys(budget.Disrupted))
	b.Retry = budget.Disrupted[names[0]].Add(disruptedFor)
	b.Message += fmt.Sprintf("; the disruption controller still counts %s as being evicted, at the latest until %s", listed(names), b.Retry.Format("15:04:05"))
	b.Remedy = "wait until the controller has looked again"
}

func demand(b *snapshot.Budget) string {
	switch {
	case b.MinAvailable != nil:
		return fmt.Sprintf("minAvailable %s asks for %d healthy", b.MinAvailable.String(), b.Desired)
	case b.MaxUnavailable != nil:
		return fmt.Sprintf("maxUnavailable is %s", b.MaxUnavailable.String())
	}
	return fmt.Sprintf("it asks for %d healthy", b.Desired)
}

// budgetless reports whether the eviction API lets the pod go without asking a
// budget (canIgnorePDB upstream).
func budgetless(p *snapshot.Pod) bool {
	return p.Finished() || p.Phase == corev1.PodPending || p.Terminating()
}
