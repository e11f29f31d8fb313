package drain

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// scaledAway returns how many ready pods of a pod's budget are no room for its eviction, since they go without asking the budget: pods that
// their controllers are to remove, after what owns them was scaled down, the pod's owner by any client, others by this process; and what a
// surge of another workload has added, as many pods of which leave by scaling down. The budget's status counts them until they are gone. What
// is removed later than disruptedFor is not waited for: a paused rollout keeps more pods than it is to have.
func (d *decider) scaledAway(p *snapshot.Pod, b *snapshot.Budget) int32 {
	all, own := d.lossesUnder(b), d.workloadOf(p)
	return all.pods - all.of[own].pods + d.loss(own, b, false).pods
}

// needs returns how many healthy pods a pod's budget needs once the surges of other workloads are over: they take from what it expects, and
// with that from what it needs, unless it needs a fixed number. Its status may not expect what they have added yet.
func (d *decider) needs(p *snapshot.Pod, b *snapshot.Budget) int32 {
	all := d.lossesUnder(b)
	fewer := all.replicas - all.of[d.workloadOf(p)].replicas
	if fewer == 0 {
		return b.Desired
	}
	expected, needs := int(max(0, b.Expected-fewer, all.remain+all.of[d.workloadOf(p)].replicas)), int(b.Desired)
	switch {
	case b.MaxUnavailable != nil:
		if most, err := intstr.GetScaledValueFromIntOrPercent(b.MaxUnavailable, expected, true); err == nil {
			needs = max(0, expected-most)
		}
	case b.MinAvailable != nil && b.MinAvailable.Type == intstr.String:
		if least, err := intstr.GetScaledValueFromIntOrPercent(b.MinAvailable, expected, true); err == nil {
			needs = least
		}
	}
	return min(b.Desired, int32(needs)) //nolint:gosec // no budget needs two billion pods
}

// lost is what a workload is to lose under a budget: ready pods, and of its replicas those that a surge has added.
type lost struct{ pods, replicas int32 }

// losses are what workloads are to lose under a budget, and the sum.
type losses struct {
	lost

	of     map[*snapshot.Workload]lost
	remain int32 // replicas of all workloads with pods under the budget without those that surges have added; only where they have
}

func (d *decider) lossesUnder(b *snapshot.Budget) *losses {
	if all := d.losses[b.UID]; all != nil {
		return all
	}
	all := &losses{of: map[*snapshot.Workload]lost{}}
	for _, w := range d.scaledIn(b.Namespace) {
		if loss := d.loss(w, b, w.Surge != nil && d.surgeStands(w)); loss.pods > 0 {
			all.of[w] = loss
			all.pods += loss.pods
			all.replicas += loss.replicas
		}
	}
	if all.replicas > 0 {
		all.remain = d.remaining(b, all)
	}
	d.losses[b.UID] = all
	return all
}

// remaining sums up the replicas of the workloads with pods under a budget, as the disruption controller does, without those that are to go.
func (d *decider) remaining(b *snapshot.Budget, all *losses) int32 {
	counted, sum := map[*snapshot.Workload]bool{}, int32(0)
	for _, p := range d.Cluster.PodsIn(b.Namespace) {
		w := d.workloadOf(p)
		if w == nil || counted[w] || !b.Matches(p) {
			continue
		}
		counted[w] = true
		sum += max(0, w.Replicas) - all.of[w].replicas
	}
	return sum
}

// surgeStands reports whether a drain that runs has surged the workload, and is to scale it down again: one of this drain that may not be
// ended leaves its pods there.
func (d *decider) surgeStands(w *snapshot.Workload) bool {
	if !d.ours(w.Surge) {
		return d.foreignAlive(w.UID, w.Surge)
	}
	if _, endless := d.led.rewritten(Scale, w.UID); endless {
		return false
	}
	at, t := d.standing(Scale, w.UID, w.ResourceVersion)
	return t == nil || at == underWay || !final(t.answer.Code)
}

// stuckUnder reports whether what takes the room under a budget from a pod are surges of other workloads that do not end by themselves, also
// where all its pods get ready.
func (d *decider) stuckUnder(p *snapshot.Pod, b *snapshot.Budget) bool {
	all, own := d.lossesUnder(b), d.workloadOf(p)
	if all.pods == all.of[own].pods || d.loss(own, b, false).pods > 0 {
		return false
	}
	if d.healthyUnder(b)+d.unhealthyUnder(b)-d.scaledAway(p, b)-d.taken[b.UID]-d.needs(p, b) > 0 {
		return false
	}
	for w := range all.of {
		if w != own && !d.stuckSurge(w) {
			return false
		}
	}
	return true
}

// unhealthyUnder counts the pods of a budget that may get ready.
func (d *decider) unhealthyUnder(b *snapshot.Budget) int32 {
	n := int32(0)
	for _, p := range d.Cluster.PodsIn(b.Namespace) {
		if !p.Healthy() && !p.Terminating() && !p.Finished() && b.Matches(p) {
			n++
		}
	}
	return n
}

func (d *decider) stuckSurge(w *snapshot.Workload) bool {
	if s := d.surges[w.UID]; s != nil {
		return s.waiting.Dead
	}
	if w.Surge == nil {
		return false
	}
	owner := d.led.ownerOf(w.Surge)
	return owner != nil && owner.shared.stuck[w.UID]
}

// loss returns what a workload is to lose under a budget: what it has beyond its replicas, and with its surge what that has added.
func (d *decider) loss(w *snapshot.Workload, b *snapshot.Budget, surged bool) lost {
	if w == nil || w.Replicas < 0 {
		return lost{}
	}
	ready, keeps := d.readyOf(w), d.scaledTo(w)
	over, spare := d.surplusOf(w, ready, int(keeps)), int32(0)
	if surged {
		spare = max(0, min(int32(len(ready)), keeps)-w.Surge.Was) //nolint:gosec // no workload has two billion pods
	}
	if over <= 0 && spare == 0 {
		return lost{}
	}
	counted := int32(0)
	for _, p := range ready {
		if b.Matches(p) {
			counted++
		}
	}
	if counted == 0 {
		return lost{}
	}
	is := lost{pods: spare}
	if spare > 0 && keeps == w.Replicas { // once it is being scaled down, what the budget expects may show that
		is.replicas = keeps - w.Surge.Was
	}
	if over > 0 && d.goesSoon(w) {
		is.pods += int32(over) //nolint:gosec // as above
	}
	is.pods = min(counted, is.pods)
	return is
}

// readyOf returns the pods of a workload that a budget counts as healthy.
func (d *decider) readyOf(w *snapshot.Workload) []*snapshot.Pod {
	ready, looked := d.ready[w.UID]
	if !looked {
		ready = slices.DeleteFunc(slices.Clone(d.podsOf(w)), func(p *snapshot.Pod) bool { return !p.Ready || p.Terminating() || p.Finished() })
		d.ready[w.UID] = ready
	}
	return ready
}

// scaledIn returns the workloads of a namespace that may have more pods than they are to keep: those that this process has scaled, those that
// are surged, and those whose controllers have something to do, whoever has given it to them.
func (d *decider) scaledIn(namespace string) []*snapshot.Workload {
	if d.scaled != nil {
		return d.scaled[namespace]
	}
	d.scaled = map[string][]*snapshot.Workload{}
	for uid := range d.led.scales {
		d.addScaled(d.Cluster.Workload(uid))
	}
	for _, w := range slices.Concat(d.Cluster.Surged(), d.Cluster.Unsettled()) {
		part := w.Kind == "ReplicaSet" && d.Cluster.WorkloadOf(w.OwnerKey()) != nil
		if !part && !slices.Contains(d.scaled[w.Namespace], w) {
			d.addScaled(w)
		}
	}
	return d.scaled[namespace]
}

func (d *decider) addScaled(w *snapshot.Workload) {
	if w != nil {
		d.scaled[w.Namespace] = append(d.scaled[w.Namespace], w)
	}
}

// scaledTo returns how many replicas a Deployment has, or will have once the process's own scaling down is seen.
func (d *decider) scaledTo(w *snapshot.Workload) int32 {
	t := d.led.scales[w.UID]
	if t != nil && t.version == w.ResourceVersion && (t.done.IsZero() || perhapsDone(t.answer.Code)) {
		return min(w.Replicas, t.action.Replicas)
	}
	return w.Replicas
}
