package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// offer is what a drain has leave by surges, by Deployment, as it decided last. A Deployment has one surge at a time: that of one drain
// replaces what other drains of its process offer, when it begins or within settleFor of that, as its members. Each drain lowers the
// deletion costs of its own pods. The drain whose surge it is scales down, once pods that stay have their costs back.
type offer struct {
	mode SurgeMode
	pods map[types.UID][]types.UID
}

// member is a pod that the surge of another drain replaces.
type member struct {
	pod *snapshot.Pod
	of  snapshot.Drainer
}

// shareSurges offers what of this drain's groups the surges of others may replace, and adds to each group what others have offered: to one
// whose surge has begun its members, and those that it may still grow by. Autoscalers are left with surges of one drain.
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
		for _, m := range d.offered(uid) {
			if _, is := d.led.members[uid][m.pod.UID]; is || s.deployment.Surge == nil {
				s.leaving, s.members = append(s.leaving, m.pod), append(s.members, m)
			} else {
				s.joining = append(s.joining, m)
			}
		}
	}
}

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
	return m != nil && !markedBy(p, m.of.ID)
}

// OfferChanged reports whether the drain offers something else than when this was last asked: then other drains of the process have to
// look again.
func (l *Ledger) OfferChanged() bool {
	same := maps.EqualFunc(l.offer.pods, l.offerBefore.pods, slices.Equal)
	l.offerBefore = l.offer
	return !same
}

// OfferNothing takes back what the drain offers, which is to be left.
func (l *Ledger) OfferNothing() { l.offer = offer{} }

// join enters the members that a scaling makes room for, and takes them out where it was not, or may not have been, carried out.
func (l *Ledger) join(a Action, counted bool) {
	if a.Kind != Scale || len(a.joins) == 0 {
		return
	}
	uid := a.Workload.UID
	if l.members[uid] == nil || !a.grows() {
		l.members[uid] = map[types.UID]snapshot.Drainer{}
	}
	for _, m := range a.joins {
		l.members[uid][m.pod.UID] = m.of
		if !counted {
			delete(l.members[uid], m.pod.UID)
		}
	}
}

// grows reports whether the action has a surge that is under way start more replacements.
func (a Action) grows() bool { return a.Kind == Scale && len(a.joins) > 0 && a.Workload.Surge != nil }

// observeMembers forgets the members of surges that are over.
func (l *Ledger) observeMembers(view snapshot.View) {
	for uid := range l.members {
		w, t := view.Cluster.Workload(uid), l.tries[tryKey{Scale, uid}]
		begins := t != nil && t.action.Surge != nil && (t.done.IsZero() || view.Now.Before(t.done.Add(unseenFor)))
		if w == nil || !begins && (w.Surge == nil || w.Surge.ID != l.self.ID) {
			delete(l.members, uid)
		}
	}
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
		Kind: Scale, Workload: w, Replicas: next.To, Surge: &next, joins: s.joining,
		Why: "as many more are started elsewhere as are to leave " + places(podsOfMembers(s.joining)),
	})
	return true
}

func scaledOn(w *snapshot.Workload, to int32) Blocker {
	return Blocker{
		Reason: SurgeStarting, Since: w.Surge.Since, Remedy: "wait",
		Message: fmt.Sprintf("%s is being scaled on from %d to %d for %s of other nodes", w.Name, w.Surge.To, to, text.Count(int(to-w.Surge.To), "pod")),
	}
}

func podsOfMembers(members []member) []*snapshot.Pod {
	pods := make([]*snapshot.Pod, 0, len(members))
	for _, m := range members {
		pods = append(pods, m.pod)
	}
	return pods
}

// withAnother waits for the surge of another drain of the process, and has it remove the members of this one.
func (d *decider) withAnother(s *surge, owner *Ledger) {
	record, nodes := s.deployment.Surge, listed(slices.Sorted(maps.Keys(owner.nodes)))
	s.waiting = Blocker{
		Reason: SurgeStarting, Since: record.Since,
		Message: fmt.Sprintf("%s is surged for %s first", s.deployment.Name, nodes), Remedy: "wait; what " + nodes + " waits for says how far that is",
	}
	d.wake(LiveUntil(d.View, record.Drainer))
	members := owner.members[s.deployment.UID]
	if owner.offer.pods[s.deployment.UID] == nil || d.led.offer.pods[s.deployment.UID] == nil {
		return
	}
	mine := slices.DeleteFunc(slices.Clone(s.leaving), func(p *snapshot.Pod) bool { return members[p.UID].ID != d.req.Self.ID })
	if len(mine) > 0 {
		s.waiting.Message = fmt.Sprintf("%s is surged for %s and this node together", s.deployment.Name, nodes)
		d.lowerCosts(mine)
	}
}

// ownerOf returns the ledger of the drain of this process that has written the record and goes on, nil where none has.
func (l *Ledger) ownerOf(record *snapshot.SurgeRecord) *Ledger {
	for _, other := range l.sharing() {
		if other != l && other.self.ID == record.ID && other.ending == Running {
			return other
		}
	}
	return nil
}

// awaitMembers says that members are waited for whose drains have not lowered their deletion costs.
func (d *decider) awaitMembers(s *surge) {
	for _, m := range s.members {
		if s.unmarked(m.pod) {
			s.waiting = Blocker{
				Reason: SurgeStarting, Since: s.deployment.Surge.Since, Remedy: "wait",
				Message: fmt.Sprintf("its replacement is ready; the drain of %s is about to have its pods removed with it", m.pod.Node),
			}
		}
	}
}

// comesBack reports whether a pod that does not leave by a surge of this drain gets its deletion cost back, which another drain has lowered
// or may have: nothing is scaled down before. Where that drain goes on it lowers it anew when a surge is to remove the pod.
func (d *decider) comesBack(p *snapshot.Pod) bool {
	id, _, _ := strings.Cut(p.CostMark, "=")
	if p.Terminating() || id != "" && id == d.req.Self.ID {
		return false
	}
	for _, other := range d.led.process() {
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
	return l.mayUndo(LowerCost, pod) || slices.ContainsFunc(l.process(), func(other *Ledger) bool { return other.tries[tryKey{LowerCost, pod}] != nil })
}
