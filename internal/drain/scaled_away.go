package drain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// scaledDown returns the Deployment whose pods an action may remove, nil if it removes none.
func (d *decider) scaledDown(a Action) *snapshot.Workload {
	switch {
	case !a.scalesDown():
		return nil
	case a.Workload != nil:
		return a.Workload
	}
	all := d.Cluster.Workloads()
	if i := slices.IndexFunc(all, a.Autoscaler.Rules); i >= 0 {
		return all[i]
	}
	return nil
}

// firstToGo returns the claims of nodes from which a scaling down of a Deployment removes pods first: their drain, this one or another one
// of this process, has lowered their deletion costs, or this one may have without that being seen. Once such a node is given back its pods
// stay, and get their costs back before.
func (d *decider) firstToGo(w *snapshot.Workload) []claim {
	var claims []claim
	add := func(node string, of snapshot.Drainer) {
		if c := (claim{node, of}); !slices.Contains(claims, c) {
			claims = append(claims, c)
		}
	}
	for _, p := range d.podsOf(w) {
		if p.Terminating() {
			continue
		}
		marked := markedBy(p, d.req.Self.ID) || d.markComes(d.led.tries[tryKey{LowerCost, p.UID}])
		if marked && d.has(p.Node) {
			add(p.Node, d.req.Self)
		}
		for _, other := range d.led.sharing() {
			if other != d.led && markedBy(p, other.self.ID) && other.has(d.View, p.Node) {
				add(p.Node, other.self)
			}
		}
	}
	return claims
}

// has reports whether the node is this drain's, by its sign of life and its cordon.
func (d *decider) has(node string) bool {
	return d.led.back[node] == nil && claim{node, d.req.Self}.stands(d.View)
}

// has reports whether the node is that of the ledger's drain, by its sign of life and its cordon.
func (l *Ledger) has(view snapshot.View, node string) bool {
	return l.back[node] == nil && claim{node, l.self}.stands(view)
}

// Surplus is that a workload has more ready pods than it is to have.
type Surplus struct {
	Wanted string    // what its controllers want: its replicas, and those of its ReplicaSets. A step of a rollout makes another surplus
	Since  time.Time // when it was first seen
	Last   time.Time // when it was last seen
}

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

// surplusOf returns how many of a workload's ready pods its controller removes: those beyond its replicas, since unready ones go first; of a
// StatefulSet those with the highest ordinals, ready or not.
func (d *decider) surplusOf(w *snapshot.Workload, ready []*snapshot.Pod, keeps int) int {
	if w.Kind != "StatefulSet" {
		return len(ready) - keeps
	}
	first := -1
	for _, p := range d.podsOf(w) {
		if n := ordinalOf(p); first < 0 || n < first {
			first = n
		}
	}
	if first < 0 {
		return len(ready) - keeps
	}
	over := 0
	for _, p := range ready {
		if ordinalOf(p) >= first+keeps {
			over++
		}
	}
	return over
}

// ordinalOf returns the number at the end of the name of a StatefulSet's pod, -1 where there is none.
func ordinalOf(p *snapshot.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
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

// goesSoon reports whether the surplus of a workload was first seen a short time ago, by this drain or by another one of this process.
func (d *decider) goesSoon(w *snapshot.Workload) bool {
	s := Surplus{Wanted: d.wantedOf(w), Since: d.Now, Last: d.Now}
	for _, l := range d.led.sharing() {
		if before, known := l.surplus[w.UID]; known && before.stands(s.Wanted, d.Now) && before.Since.Before(s.Since) {
			s.Since = before.Since
		}
	}
	d.out.Surplus[w.UID] = s
	until := s.Since.Add(disruptedFor)
	d.wake(until)
	return d.Now.Before(until)
}

// surplusFor is how long a surplus that is not seen any more, since pods of its workload are unready for a while, is still the same one.
const surplusFor = 10 * time.Minute

// stands reports whether a surplus is still the same one.
func (s Surplus) stands(wanted string, now time.Time) bool {
	return s.Wanted == wanted && now.Before(s.Last.Add(surplusFor))
}

// wantedOf says what the controllers of a workload want. Evictions do not change that.
func (d *decider) wantedOf(w *snapshot.Workload) string {
	var words strings.Builder
	fmt.Fprint(&words, d.scaledTo(w))
	for _, set := range d.Cluster.WorkloadsOf(w.AsOwner()) {
		if set.Replicas != 0 {
			fmt.Fprintf(&words, " %s=%d", set.UID, set.Replicas)
		}
	}
	return words.String()
}

// rememberSurplus carries on what earlier decisions have seen: one that looks at no pod of a workload does not forget its surplus.
func (d *decider) rememberSurplus() {
	d.out.Surplus = map[types.UID]Surplus{}
	for uid, s := range d.led.surplus {
		if w := d.Cluster.Workload(uid); w != nil && s.stands(d.wantedOf(w), d.Now) {
			d.out.Surplus[uid] = s
		}
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
