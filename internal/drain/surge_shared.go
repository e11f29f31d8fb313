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

// surgePods are the pods that a drain has leave by surges, by Deployment, as it decided last: a surge that another drain of the process has
// begun starts replacements for them too, since a Deployment has one surge at a time.
type surgePods struct {
	mode         SurgeMode
	byDeployment map[types.UID][]types.UID
}

// shareSurges lets the surges of this drain's groups replace what other drains of the process have leave, and theirs what this one has.
// Each drain lowers the deletion costs of its own pods; the one that scales down restores those of pods that stay. Pods that may have to leave with another grace than their own, or whose costs
// cannot be lowered, go by evictions of their own drain.
func (d *decider) shareSurges(groups map[types.UID]*surge) {
	if d.led.charges == nil {
		return
	}
	d.led.surgePods = d.publishable(groups)
	for uid := range d.led.surgePods.byDeployment {
		s := groups[uid]
		others := d.surgePodsOfOthers(uid)
		s.leaving, s.others = append(s.leaving, others...), others
	}
}

// surgedBy returns the ledger of the other drain whose surge of the Deployment replaces what this one has leave, nil where none does.
func (d *decider) surgedBy(w *snapshot.Workload) *Ledger {
	owner := d.led.ownerOf(w.Surge)
	if owner == nil || owner.surgePods.mode != d.req.Surge || owner.surgePods.byDeployment[w.UID] == nil || d.led.surgePods.byDeployment[w.UID] == nil {
		return nil
	}
	return owner
}

// publishable returns what of this drain's groups the surges of others may replace.
func (d *decider) publishable(groups map[types.UID]*surge) surgePods {
	own := surgePods{mode: d.req.Surge, byDeployment: make(map[types.UID][]types.UID, len(groups))}
	for uid, s := range groups {
		if d.req.Grace == nil && !slices.ContainsFunc(s.leaving, d.mustGo) && !slices.ContainsFunc(s.leaving, d.costImmutable) {
			own.byDeployment[uid] = uidsOf(s.leaving)
		}
	}
	return own
}

// surgePodsOfOthers returns the pods of a Deployment that other drains of the process have leave, from nodes that are theirs.
func (d *decider) surgePodsOfOthers(deployment types.UID) []*snapshot.Pod {
	var found []*snapshot.Pod
	for _, other := range d.led.sharing() {
		if other == d.led || other.surgePods.mode != d.req.Surge {
			continue
		}
		for _, uid := range other.surgePods.byDeployment[deployment] {
			p := d.Cluster.Pod(uid)
			if p != nil && !p.Terminating() && !d.targeted(p.Node) && other.has(d.View, p.Node) {
				found = append(found, p)
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

// SurgePodsChanged reports whether the drain has other pods leave by surges than when this was last asked: then other drains of the
// process have to look again.
func (l *Ledger) SurgePodsChanged() bool {
	same := maps.EqualFunc(l.surgePods.byDeployment, l.surgePodsBefore.byDeployment, slices.Equal)
	l.surgePodsBefore = l.surgePods
	return !same
}

// growing reports whether a surge of this drain is given replacements for pods that other drains came to have leave after it had begun,
// for settleFor. Later ones wait for the next surge, so that this one ends.
func (d *decider) growing(s *surge) bool {
	record := s.deployment.Surge
	to := d.surgedTo(s, record.Was)
	until := record.Since.Add(settleFor)
	if len(s.others) == 0 || to <= record.To || !d.Now.Before(until) || s.asked > 0 || d.scaling(s) {
		return false
	}
	s.waiting = Blocker{
		Reason: SurgeStarting, Since: record.Since,
		Message: fmt.Sprintf("%s is being scaled on from %d to %d for %s more", s.deployment.Name, record.To, to, text.Count(int(to-record.To), "pod")), Remedy: "wait",
	}
	if !d.raiseMin(s, record.Was, to) {
		return true
	}
	next := *record
	next.To, next.Step, next.Beat = to, d.Now, d.Now
	d.try(Action{Kind: Scale, Workload: s.deployment, Replicas: to, Surge: &next, Why: "as many are started elsewhere as are to leave " + places(s.leaving)})
	return true
}

// surgedTo returns how many replicas replace all that leaves, from what the owner asked for.
func (d *decider) surgedTo(s *surge, was int32) int32 {
	to := was + int32(len(s.leaving)) //nolint:gosec // pods of a few nodes
	if s.scaler != nil {
		to = min(to, s.scaler.Max)
	}
	return to
}

// withAnother waits for the surge of another drain of the process, and lets it remove what leaves by this one too, where that is shared.
func (d *decider) withAnother(s *surge, owner *Ledger) {
	record := s.deployment.Surge
	until := LiveUntil(d.View, record.Drainer)
	s.waiting = Blocker{
		Reason: SurgeStarting, Since: record.Since, Retry: until,
		Message: fmt.Sprintf("%s is surged for %s already; its pods here are replaced with those, or next", s.deployment.Name, listed(slices.Sorted(maps.Keys(owner.nodes)))),
		Remedy:  "wait",
	}
	d.wake(until)
	if d.surgedBy(s.deployment) != nil {
		d.lowerCosts(s)
	}
}

// withoutUnmarked leaves the pods of other drains out whose deletion costs those have not lowered.
func (s *surge) withoutUnmarked() {
	s.leaving = slices.DeleteFunc(s.leaving, func(p *snapshot.Pod) bool { return slices.Contains(s.others, p) && p.CostMark == "" })
}

// comesBack reports whether a pod that does not leave by a surge of this drain gets its deletion cost back, which another drain has lowered
// or may have: nothing is scaled down before. Where that drain goes on it lowers it anew when a surge is to remove the pod.
func (d *decider) comesBack(p *snapshot.Pod) bool {
	id, _, _ := strings.Cut(p.CostMark, "=")
	if p.Terminating() || id != "" && id == d.req.Self.ID {
		return false
	}
	for _, other := range d.led.sharing() {
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

// ownerOf returns the ledger of the drain of this process that has written the record, nil where none has.
func (l *Ledger) ownerOf(record *snapshot.SurgeRecord) *Ledger {
	for _, other := range l.sharing() {
		if other != l && other.self.ID == record.ID && other.ending == Running {
			return other
		}
	}
	return nil
}
