package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// offer is what a drain has leave by surges, by Deployment, as it decided last. A Deployment has one surge at a time: that of one drain
// replaces what other drains of its process offer, when it begins or within settleFor of that, as its members. Once it is about to scale
// down it asks their drains to lower the deletion costs of the members, and waits until pods that stay have theirs back.
type offer struct {
	mode SurgeMode
	pods map[types.UID][]types.UID
}

// shared is what a drain decided last of its own surges that concerns the drains of their members, by Deployment.
type shared struct {
	lower map[types.UID][]types.UID // members whose deletion costs are to be lowered
	stuck map[types.UID]bool        // what the surge waits for does not clear by itself
}

func newShared() shared {
	return shared{lower: map[types.UID][]types.UID{}, stuck: map[types.UID]bool{}}
}

// member is a pod that the surge of another drain replaces.
type member struct {
	pod *snapshot.Pod
	of  snapshot.Drainer
}

// shareSurges offers what of this drain's groups the surges of others may replace, and adds to each group what others have offered: to one
// whose surge has begun as many as it has replacements for, first those that are marked already; it may still grow by the others.
// Autoscalers are left with surges of one drain.
func (d *decider) shareSurges(groups map[types.UID]*surge) {
	if d.led.charges == nil || d.req.Grace != nil || d.cordoning {
		return
	}
	d.led.offer = offer{mode: d.req.Surge, pods: make(map[types.UID][]types.UID, len(groups))}
	for uid, s := range groups {
		_, endless := d.led.rewritten(Scale, uid)
		if endless || d.led.unsurgeable[uid] != "" || s.scaler != nil || slices.ContainsFunc(s.leaving, d.costImmutable) {
			continue
		}
		d.led.offer.pods[uid] = uidsOf(s.leaving)
		offered := d.offered(uid)
		slices.SortStableFunc(offered, func(a, b member) int { return lastTrue(!a.marked(), !b.marked()) })
		room := len(offered)
		if record := s.deployment.Surge; d.ours(record) {
			room = min(max(int(record.To-record.Was)-len(s.leaving), 0), room)
		}
		s.members, s.joining = offered[:room], offered[room:]
		for _, m := range s.members {
			s.leaving = append(s.leaving, m.pod)
		}
	}
}

func (m member) marked() bool { return markedBy(m.pod, m.of.ID) }

// offered returns the pods of a Deployment that other drains of the process offer, on nodes that are theirs.
func (d *decider) offered(deployment types.UID) []member {
	var found []member
	for _, other := range d.led.sharing() {
		if other == d.led || other.offer.mode != d.req.Surge {
			continue
		}
		for _, uid := range other.offer.pods[deployment] {
			p := d.Cluster.Pod(uid)
			if p != nil && !p.Terminating() && !d.targeted(p.Node) && other.has(d.View, p.Node) {
				found = append(found, member{p, other.self})
			}
		}
	}
	return found
}

func uidsOf(pods []*snapshot.Pod) []types.UID {
	uids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	return uids
}

// memberOf returns the member of a surge that a pod is, nil for a pod of this drain.
func (s *surge) memberOf(p *snapshot.Pod) *member {
	if i := slices.IndexFunc(s.members, func(m member) bool { return m.pod == p }); i >= 0 {
		return &s.members[i]
	}
	return nil
}

// unmarked reports whether a pod is a member whose deletion cost its drain has not lowered.
func (s *surge) unmarked(p *snapshot.Pod) bool {
	m := s.memberOf(p)
	return m != nil && !m.marked()
}

// SharedChanged reports whether the drain has other drains of the process do, or know, something else than when this was last asked: then
// they have to look again.
func (l *Ledger) SharedChanged() bool {
	same := maps.EqualFunc(l.offer.pods, l.offerBefore.pods, slices.Equal) &&
		maps.EqualFunc(l.shared.lower, l.sharedBefore.lower, slices.Equal) && maps.Equal(l.shared.stuck, l.sharedBefore.stuck)
	l.offerBefore, l.sharedBefore = l.offer, l.shared
	return !same
}

// ShareNothing takes back what the drain, which is to be left, offers and has others do.
func (l *Ledger) ShareNothing() { l.offer, l.shared, l.goesOn = offer{}, newShared(), false }

// observeShared begins a decision: what the last one shared counts no more.
func (l *Ledger) observeShared(view snapshot.View) {
	l.offer, l.shared = offer{}, newShared()
	l.goesOn = l.ending == Running
	maps.DeleteFunc(l.lowerSince, func(uid types.UID, _ time.Time) bool {
		w := view.Cluster.Workload(uid)
		return w == nil || w.Surge == nil || w.Surge.ID != l.self.ID
	})
}

// refusedToGrow has a surge grow no more, and brought to its end: what was scaled before is to be undone.
func (l *Ledger) refusedToGrow(t *try) {
	key := tryKey{t.action.Kind, t.action.Target()}
	l.ungrowable[t.action.Workload.UID] = true
	if l.tries[key] = t.before; t.before == nil {
		delete(l.tries, key)
	}
}

// grows reports whether the action has a surge that is under way start more replacements.
func (a Action) grows() bool {
	return a.Kind == Scale && a.Surge != nil && a.Workload.Surge != nil && a.Replicas > a.Workload.Replicas && !a.ofMinimum()
}

// growing reports whether a surge of this drain is given replacements for pods that other drains came to offer after it had begun, for
// settleFor. Later ones wait for the next surge, so that this one ends.
func (d *decider) growing(s *surge) bool {
	w := s.deployment
	record := w.Surge
	if t := d.led.tries[tryKey{Scale, w.UID}]; t != nil && t.action.grows() && d.underWay(w) {
		s.waiting = scaledOn(w, t.action.Replicas)
		return true
	}
	since := snapshot.Believed(record.Since, d.Now)
	if seen := d.led.recorded[w.UID]; !seen.IsZero() && seen.Before(since) {
		since = seen
	}
	if len(s.joining) == 0 || d.led.ungrowable[w.UID] || s.asked > 0 || d.scaling(s) || !d.Now.Before(since.Add(settleFor)) {
		return false
	}
	next := *record
	next.To, next.Step, next.Beat = record.To+int32(len(s.joining)), d.Now, d.Now //nolint:gosec // pods of a few nodes
	s.waiting = scaledOn(w, next.To)
	d.try(Action{
		Kind: Scale, Workload: w, Replicas: next.To, Surge: &next,
		Why: "as many more are started elsewhere as are to leave " + places(podsOfMembers(s.joining)),
	})
	return true
}

func scaledOn(w *snapshot.Workload, to int32) Blocker {
	return Blocker{
		Reason: SurgeStarting, Since: w.Surge.Since, Remedy: "wait",
		Message: fmt.Sprintf("%s is being scaled from %d to %d, for %s on other nodes as well", w.Name, w.Surge.To, to, text.Count(int(to-w.Surge.To), "pod")),
	}
}

func podsOfMembers(members []member) []*snapshot.Pod {
	pods := make([]*snapshot.Pod, 0, len(members))
	for _, m := range members {
		pods = append(pods, m.pod)
	}
	return pods
}

// withAnother waits for the surge of another drain of the process, and lowers the deletion costs of its members that this one has leave once
// it is about to remove them.
func (d *decider) withAnother(s *surge, owner *Ledger) {
	uid, record, nodes := s.deployment.UID, s.deployment.Surge, listed(slices.Sorted(maps.Keys(owner.nodes)))
	s.waiting = Blocker{
		Reason: SurgeStarting, Since: record.Since, Dead: owner.shared.stuck[uid],
		Message: fmt.Sprintf("%s is surged for node %s first", s.deployment.Name, nodes), Remedy: "wait; the blockers of node " + nodes + " say what for",
	}
	if s.waiting.Dead {
		s.waiting.Remedy = "see the blockers of node " + nodes
	}
	d.wake(LiveUntil(d.View, record.Drainer))
	mine := slices.DeleteFunc(slices.Clone(s.leaving), func(p *snapshot.Pod) bool {
		return s.memberOf(p) != nil || !slices.Contains(owner.shared.lower[uid], p.UID)
	})
	if len(mine) > 0 {
		s.waiting.Message = fmt.Sprintf("replacements are ready; %s is scaled down for node %s and this one together", s.deployment.Name, nodes)
		d.lowerCosts(mine)
	}
}

// ownerOf returns the ledger of the drain of this process that has written the record and goes on, nil where none has.
func (l *Ledger) ownerOf(record *snapshot.SurgeRecord) *Ledger {
	for _, other := range l.sharing() {
		if other != l && other.self.ID == record.ID && other.goesOn {
			return other
		}
	}
	return nil
}

// marksFor is how long the drains of members have to lower their deletion costs.
const marksFor = 15 * time.Second

// membersMarked has the drains of the members lower their deletion costs, and reports whether that was observed for all of them. Those that
// do not within marksFor leave by the next surge.
func (d *decider) membersMarked(s *surge) bool {
	uid := s.deployment.UID
	if len(s.members) == 0 {
		return true
	}
	if d.led.lowerSince[uid].IsZero() {
		d.led.lowerSince[uid] = d.Now
	}
	until := d.led.lowerSince[uid].Add(marksFor)
	if !d.Now.Before(until) {
		s.leaving = slices.DeleteFunc(s.leaving, s.unmarked)
		return true
	}
	d.wake(until)
	for _, m := range s.members {
		d.led.shared.lower[uid] = append(d.led.shared.lower[uid], m.pod.UID)
	}
	i := slices.IndexFunc(s.members, func(m member) bool { return !m.marked() })
	if i < 0 {
		return true
	}
	s.waiting = Blocker{
		Reason: SurgeStarting, Since: s.deployment.Surge.Since, Remedy: "wait",
		Message: fmt.Sprintf("its replacement is ready; it is removed together with pods on node %s, whose drain is about to mark them", s.members[i].pod.Node),
	}
	return false
}

// comesBack reports whether a pod that does not leave by a surge of this drain gets its deletion cost back, which another drain has lowered
// or may have: nothing is scaled down before. Where that drain goes on it lowers it anew when a surge is to remove the pod.
func (d *decider) comesBack(p *snapshot.Pod) bool {
	id, _, _ := strings.Cut(p.CostMark, "=")
	if p.Terminating() || id != "" && id == d.req.Self.ID {
		return false
	}
	for _, other := range d.led.sharingOrFormer() {
		if other != d.led && d.markComes(other.tries[tryKey{LowerCost, p.UID}]) {
			return true
		}
	}
	return d.restoreCost(p, id)
}

// costsComeBack reports whether pods of a Deployment do, and has all of them get their costs back.
func (d *decider) costsComeBack(w *snapshot.Workload) bool {
	some := false
	for _, p := range d.podsOf(w) {
		some = d.comesBack(p) || some
	}
	return some
}

// mayRestore reports whether a deletion cost is to be restored that some drain has lowered: it was lowered at the first look, or by a drain
// of this process.
func (l *Ledger) mayRestore(pod types.UID) bool {
	return l.mayUndo(LowerCost, pod) || slices.ContainsFunc(l.sharingOrFormer(), func(other *Ledger) bool { return other.tries[tryKey{LowerCost, pod}] != nil })
}
