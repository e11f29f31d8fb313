package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// surge is a Deployment whose replacements are started before its pods leave.
type surge struct {
	deployment *snapshot.Workload
	scaler     *snapshot.Autoscaler // nil where none rules the Deployment
	leaving    []*snapshot.Pod      // on nodes that drain now, in their turn, not terminating; those of this drain first
	members    []member             // of these, those of other drains of this process
	joining    []member             // pods of other drains that the surge may still grow by
	running    int                  // pods that are not terminating
	astray     int                  // pods that came back to the nodes that are being drained
	asked      int                  // pods whose eviction is under way and not seen yet
	ready      int                  // of the running ones, pods that are available
	waiting    Blocker              // what the surge waits for; Reason "" if it may be left to evictions
	spare      int                  // ready pods beyond what the owner asked for
}

// surgeWhereNeeded groups the pods that may leave now by Deployment and moves each
// group that needs a surge, or is in one, a step on.
func (d *decider) surgeWhereNeeded(nodes []target) {
	groups := map[types.UID]*surge{}
	if d.req.Surge != SurgeNever {
		for i := range nodes {
			d.groupPods(&nodes[i], groups)
		}
		d.shareSurges(groups)
	}
	for _, s := range sortedSurges(groups) {
		if d.inSurge(s.deployment) || d.scaling(s) || d.removing(s) || d.needsSurge(s) {
			d.surges[s.deployment.UID] = s
			d.stepSurge(s)
			d.led.shared.stuck[s.deployment.UID] = s.waiting.Dead
		}
	}
	d.endSurges()
	d.noteUnread(nodes)
}

// noteUnread says once that nothing is surged because Deployments cannot be read.
func (d *decider) noteUnread(nodes []target) {
	if !d.verbose || d.req.Surge == SurgeNever {
		return
	}
	for _, resource := range []string{"replicasets", "deployments"} {
		gap, unread := d.Cluster.Gap(resource)
		if !unread {
			continue
		}
		for i := range nodes {
			if slices.ContainsFunc(d.Cluster.PodsOn(nodes[i].status.Name), ofReplicaSet) {
				d.out.Notes = append(d.out.Notes, fmt.Sprintf("no Deployment is surged: %s cannot be read: %s", resource, gap.Reason))
				return
			}
		}
	}
}

// ofReplicaSet reports whether the pod's owner is a ReplicaSet of Kubernetes' own group.
func ofReplicaSet(p *snapshot.Pod) bool {
	return p.Owner.GroupKind() == schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
}

// inSurge reports whether the Deployment is surged, by this drain or by another one
// that has to end first. What another one left and may not be undone is left alone.
func (d *decider) inSurge(w *snapshot.Workload) bool {
	if _, endless := d.led.rewritten(Scale, w.UID); endless {
		return false
	}
	return w.Surge != nil && (d.ours(w.Surge) || d.led.unsurgeable[w.UID] == "")
}

func (d *decider) groupPods(t *target, groups map[types.UID]*surge) {
	if !t.claimed || !t.placed {
		return
	}
	for i := range t.queue {
		q := &t.queue[i]
		p := q.pod
		w := d.surgeable(p)
		if w == nil || p.Terminating() || len(q.filtered.objections) > 0 || q.behind.first != nil && !d.ours(w.Surge) {
			continue
		}
		if groups[w.UID] == nil {
			groups[w.UID] = &surge{deployment: w, scaler: d.Cluster.AutoscalerOf(w)}
		}
		groups[w.UID].leaving = append(groups[w.UID].leaving, p)
	}
}

func sortedSurges(groups map[types.UID]*surge) []*surge {
	all := make([]*surge, 0, len(groups))
	for _, s := range groups {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *surge) int {
		x, y := a.deployment, b.deployment
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// surgeable returns the Deployment that can be scaled in place of this pod, or nil. A
// governed pod has none: only its system knows what may take its place.
func (d *decider) surgeable(p *snapshot.Pod) *snapshot.Workload {
	if p.Owner.Kind != "ReplicaSet" || p.Finished() || p.Policy() != "" {
		return nil
	}
	w := d.workloadOf(p)
	if w == nil || w.Kind != "Deployment" || w.Replicas < 1 {
		return nil
	}
	return w
}

// maySurge reports whether a surge could still take this pod past budgets that never
// let it go: it says beforehand what needsSurge will say when the pod's turn comes.
func (d *decider) maySurge(p *snapshot.Pod, budgets int) bool {
	if d.req.Surge == SurgeNever {
		return false
	}
	w := d.surgeable(p)
	switch {
	case w == nil || d.surgeObstacle(w, p) != "":
		return false
	case w.Surge != nil || d.req.Surge == SurgeAlways:
		return true
	}
	return p.Ready && (budgets == 1 || w.Replicas == 1) && (d.nowhere(p) == "" || d.heldByBudget(p))
}

// surgeObstacle says why a Deployment cannot be surged at all; "" if it can.
func (d *decider) surgeObstacle(w *snapshot.Workload, p *snapshot.Pod) string {
	switch why, endless := d.led.rewritten(Scale, w.UID); {
	case endless:
		return "the record of a former surge stays: " + why
	case d.led.unsurgeable[w.UID] != "":
		return d.led.unsurgeable[w.UID]
	case w.SurgeError != "":
		return w.SurgeError
	case onlyOne(w):
		return "its strategy (Recreate, or maxSurge 0) says that no two of its pods may run at once"
	}
	if w.Surge == nil && d.targeted(w.NodeName) {
		return "its template names node " + w.NodeName
	}
	a := d.Cluster.AutoscalerOf(w)
	if taken := d.takenBack(w, a); taken != "" {
		return taken
	}
	if stuck := d.rolloutStuck(w, a, p.Node); stuck != "" {
		return stuck
	}
	if gap, ok := d.Cluster.Gap("horizontalpodautoscalers"); ok {
		return "cannot see whether an autoscaler rules it: " + gap.Reason
	}
	if exclusive := d.exclusiveClaim(p); exclusive != "" {
		return exclusive
	}
	if a != nil && w.Surge == nil && a.Max <= d.base(w, a) {
		return atMost(a)
	}
	if w.Surge == nil && d.pinned(p) {
		return onlyOn(p)
	}
	return ""
}

// exclusiveClaim says which volume claim of a pod no second pod on another node can mount, as far as is known; "" if all can be.
func (d *decider) exclusiveClaim(p *snapshot.Pod) string {
	gap, unread := d.Cluster.Gap("persistentvolumeclaims")
	for _, name := range p.Claims {
		switch c := d.Cluster.Claim(snapshot.Key{Namespace: p.Namespace, Name: name}); {
		case c == nil && unread:
			return fmt.Sprintf("cannot see whether volume claim %s can be mounted by a second pod: %s", name, gap.Reason)
		case c == nil || !c.Shared:
			return fmt.Sprintf("volume claim %s cannot be mounted by a second pod on another node", name)
		}
	}
	return ""
}

// onlyOn is the obstacle of a surge whose replacements no other node may run.
func onlyOn(p *snapshot.Pod) string { return "only node " + p.Node + " may run it" }

// onlyOne reports whether the owner wants a single pod and never two at once: they may
// write to the same data.
func onlyOne(w *snapshot.Workload) bool {
	return w.NoOverlap && w.Replicas == 1 && w.Surge == nil
}

// needsSurge says whether the pods' leaving calls for a surge. Where no budget does, there is none whose replacements no
// other node may run.
func (d *decider) needsSurge(s *surge) bool {
	required := d.req.Surge == SurgeAlways
	if !required {
		if !slices.ContainsFunc(s.leaving, func(p *snapshot.Pod) bool { return p.Ready }) {
			return false
		}
		required = slices.ContainsFunc(s.leaving, d.heldByBudget)
	}
	if !required && !d.lastReady(s) {
		return false
	}
	obstacle := d.surgeObstacle(s.deployment, s.leaving[0])
	if obstacle == "" && !required {
		obstacle = d.nowhere(s.leaving[0])
	}
	if obstacle != "" && d.verbose {
		d.out.Notes = append(d.out.Notes, fmt.Sprintf("%s/%s is not surged: %s", s.deployment.Namespace, s.deployment.Name, obstacle))
	}
	return obstacle == ""
}

// scaling reports whether a step of the surge was sent, by this drain or by another one of the process, and is not seen yet.
func (d *decider) scaling(s *surge) bool {
	t := d.led.scales[s.deployment.UID]
	if d.underWay(s.deployment) || t != nil && t != d.led.tries[tryKey{Scale, s.deployment.UID}] && d.comes(t) {
		return true
	}
	if s.scaler == nil {
		return false
	}
	at, _ := d.standing(ScaleMin, s.scaler.UID, s.scaler.ResourceVersion)
	return at == underWay
}

// removing reports whether the last scaling down, of this drain or of another one of the process, is not seen in the pods
// yet: more run than the Deployment wants. Which of them go is not decided by the drain. What is
// still so after settleFor has another cause: a rollout, say.
func (d *decider) removing(s *surge) bool {
	if runningOf(d.Cluster, s.deployment) <= int(s.deployment.Replicas) {
		return false
	}
	for _, l := range d.led.sharing() {
		t := l.tries[tryKey{Scale, s.deployment.UID}]
		if t == nil || !t.done.IsZero() && !d.Now.Before(t.done.Add(settleFor)) {
			continue
		}
		d.wake(t.done.Add(settleFor))
		return true
	}
	return false
}

// base returns how many replicas the owner of a Deployment asked for: not fewer than its
// autoscaler's minimum, to which that scales as soon as it looks. Once the drain has
// raised the minimum, the autoscaler may scale by itself; what was before is in the record.
func (d *decider) base(w *snapshot.Workload, a *snapshot.Autoscaler) int32 {
	switch {
	case a == nil:
		return w.Replicas
	case a.Surge == nil:
		return max(w.Replicas, a.Min)
	case d.ours(a.Surge) && a.Surge.Base > 0 && w.Replicas <= a.Surge.To:
		return max(min(a.Surge.Base, w.Replicas), a.Surge.Was)
	}
	return max(w.Replicas, a.Surge.Was)
}

// lastReady reports whether no pod of the Deployment would be ready once these left,
// and nothing but a surge prevents that.
func (d *decider) lastReady(s *surge) bool {
	replicas := s.deployment.Replicas
	if s.scaler != nil && d.ours(s.scaler.Surge) { // which may have scaled it to the minimum that was raised, before the drain could
		replicas = d.base(s.deployment, s.scaler)
	}
	if replicas > 1 && len(d.Cluster.BudgetsFor(s.leaving[0])) > 0 {
		return false
	}
	for _, p := range d.podsOf(s.deployment) {
		if p.Ready && !p.Terminating() && !slices.Contains(s.leaving, p) {
			return false
		}
	}
	return true
}

// heldByBudget reports whether a budget holds the pod for good or, near the
// deadline, holds it at all.
func (d *decider) heldByBudget(p *snapshot.Pod) bool {
	_, found := d.budgetsAllow(p)
	for i := range found {
		if found[i].Reason == BudgetNeverAllows || (d.schedule.passed(phaseSurge) && found[i].Reason == BudgetExhausted) {
			return true
		}
	}
	return false
}

// surgeOf returns the surge of the pod's Deployment, or nil. It holds for pods of a
// later wave as well: a wave that is stuck lets them come before the surge counts them.
func (d *decider) surgeOf(p *snapshot.Pod) *surge {
	if len(d.surges) == 0 {
		return nil
	}
	w := d.surgeable(p)
	if w == nil {
		return nil
	}
	return d.surges[w.UID]
}

// judgeSurged says where a pod stands whose Deployment is surged. It leaves by the
// scaling down, which asks no budget because ready pods never fall below what the
// owner asked for; or by an eviction where its deletion cost cannot be lowered or
// its grace has to be cut.
func (d *decider) judgeSurged(s PodStatus, su *surge, ref budgetRef, found []Blocker, q *queued) PodStatus {
	s.State = Surging
	if len(s.Blockers) > 0 {
		s.State = Waiting
	}
	evictable := d.byEviction(su) && su.waiting.Reason == "" && q.behind.first == nil
	if evictable {
		s.Blockers = append(s.Blockers, d.inTime(found, s.Pod, su)...)
		if su.spare > 0 && len(s.Blockers) == 0 {
			su.spare--
			d.letGo(&s, ref)
			return s
		}
	}
	b := su.waiting
	if b.Reason == "" {
		b = d.beingRemoved(s.Pod, su)
	}
	b.Pod, b.Node = s.Pod.Key(), s.Pod.Node
	s.Blockers = append(s.Blockers, b)
	if d.pastBudget(&s) {
		d.letGo(&s, ref)
	} else if d.limited(s.Pod) {
		d.limitSurge(&s, su, ref, found, evictable)
	}
	return s
}

// limitSurge ends the hold of a surged pod: where the surge leads nowhere, and where its pods leave by evictions, which the budgets hold as
// they do without a surge. Then each goes for a replacement that is ready.
func (d *decider) limitSurge(s *PodStatus, su *surge, ref budgetRef, found []Blocker, evictable bool) {
	last := s.Blockers[len(s.Blockers)-1]
	switch {
	case last.Dead:
		if !evictable { // whose budgets have been looked at
			s.Blockers = append(s.Blockers, found...)
		}
		d.limitHold(s, ref, time.Time{})
	case evictable && len(found) > 0 && su.spare > 0:
		s.Blockers = s.Blockers[:len(s.Blockers)-1] // that it leaves by an eviction holds nothing
		if d.limitHold(s, ref, time.Time{}); s.State == Evicting {
			su.spare--
			return
		}
		s.Blockers = append(s.Blockers, last)
	}
}

// beingRemoved says how a pod whose replacement is ready leaves.
func (d *decider) beingRemoved(p *snapshot.Pod, su *surge) Blocker {
	b := Blocker{Reason: SurgeStarting, Message: "its replacement is ready; it is being removed", Remedy: "wait"}
	if !d.byEviction(su) {
		return b
	}
	why := ""
	if d.stripsMark(p) {
		why = ", since its lowest deletion cost is taken off each time"
		b.Remedy = fmt.Sprintf("see what writes it: kubectl get pod -n %s %s -o yaml --show-managed-fields", p.Namespace, p.Name)
	}
	b.Message = "its replacement is ready; it leaves by an eviction, under its budgets" + why
	if d.heldByDeadBudget(p, su) {
		b.Message, b.Dead = "its replacement is ready; it can leave only by an eviction, which its budgets never allow"+why, true
		if why == "" {
			b.Remedy = d.without(su)
		}
	}
	return b
}

// inTime takes back that a budget never allows it, where that will change as soon as
// the budget's status shows the replacements.
func (d *decider) inTime(found []Blocker, p *snapshot.Pod, s *surge) []Blocker {
	if d.heldByDeadBudget(p, s) {
		return found
	}
	for i := range found {
		found[i].Dead = false
	}
	return found
}

// byEviction reports whether the pods of a surge have to be evicted one by one: because
// the scaling down was refused, or to give them another grace than their own. Where
// no eviction gets past the budgets, the scaling down has to do, with their own grace.
func (d *decider) byEviction(s *surge) bool {
	if d.led.unsurgeable[s.deployment.UID] != "" {
		return true
	}
	if slices.ContainsFunc(s.leaving, d.costImmutable) {
		return true
	}
	if d.req.Grace == nil && !slices.ContainsFunc(s.leaving, d.mustGo) {
		return false
	}
	return !slices.ContainsFunc(s.leaving, func(p *snapshot.Pod) bool { return d.heldByDeadBudget(p, s) })
}

// heldByDeadBudget reports whether the pod's budgets would refuse its eviction even with all
// replacements ready. Their status may not show the replacements yet, so it is not asked.
func (d *decider) heldByDeadBudget(p *snapshot.Pod, s *surge) bool {
	return d.refusedAmong(p, func(b *snapshot.Budget) int32 { return max(b.Expected-d.terminatingUnder(b), s.deployment.Replicas) })
}

// refusedBefore reports whether the pod's budgets refuse its eviction with as many pods as there were before the surge, or are
// where it has not begun.
func (d *decider) refusedBefore(p *snapshot.Pod, s *surge) bool {
	was, now := s.deployment.Replicas, s.deployment.Replicas
	if record := s.deployment.Surge; record != nil {
		was = record.Was
	}
	return d.refusedAmong(p, func(b *snapshot.Budget) int32 { return max(b.Expected-d.terminatingUnder(b)-(now-was), was) })
}

// refusedAmong reports whether the pod's budgets refuse its eviction where all of so many pods are healthy.
func (d *decider) refusedAmong(p *snapshot.Pod, pods func(*snapshot.Budget) int32) bool {
	if d.req.DisableEviction || budgetless(p) {
		return false
	}
	budgets := d.Cluster.BudgetsFor(p)
	if len(budgets) != 1 {
		return len(budgets) > 1
	}
	b := budgets[0]
	switch {
	case b.MaxUnavailable != nil:
		return isZero(*b.MaxUnavailable)
	case b.MinAvailable == nil:
		return false
	}
	size := int(pods(b))
	least, err := intstr.GetScaledValueFromIntOrPercent(b.MinAvailable, size, true)
	return err != nil || least >= size
}

// settleFor is how long a surge waits for its slowest replacements before it goes on
// with those that are ready.
const settleFor = 45 * time.Second
