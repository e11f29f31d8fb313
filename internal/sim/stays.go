package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

const (
	// withdrawnWithin is how long a drain may take to see that a node was given back and to withdraw its requests for pods there.
	withdrawnWithin = 15 * time.Second
	// triedWithin is how long after a withdrawal that the apiserver did not answer it may take to try again: its longest back-off.
	triedWithin = 31 * time.Second
	// mostUndone is how often a drain may fail to undo something before it goes on all the same: what cannot be written on one pod holds no
	// surge for ever, and what a drain that has ended cannot withdraw is said.
	mostUndone = 6
)

// lookForBack notes which targets were given back: the drain saw them open, without its record or cordoned by another client alone,
// after it had seen its cordon.
func (j *oracle) lookForBack(now time.Time, seen *snapshot.Cluster) {
	if j == nil {
		return
	}
	for name := range j.closed {
		if n := seen.Node(name); n != nil && (n.Drain == nil || !n.Unschedulable || n.CordonedAnew()) && j.back[name].IsZero() {
			j.back[name] = now
		}
	}
}

// gaveBack reports whether a target was given back.
func (j *oracle) gaveBack(node string) bool { return !j.back[node].IsZero() }

// leavesAlone checks that a node which was given back is not cordoned anew, and that nothing is done to what runs there.
func (j *oracle) leavesAlone(s *Sim, a drain.Action) {
	j.lookForBack(s.now, s.seen)
	switch a.Kind {
	case drain.Cordon:
		if n := s.truth.Node(a.Node.Name); j.gaveBack(a.Node.Name) && n != nil && n.ResourceVersion == a.Node.ResourceVersion {
			j.report(s, "cordoned %s, which was given back", a.Node.Name)
		}
	case drain.Evict, drain.Delete, drain.LowerCost, drain.Ask:
		if j.gaveBack(a.Pod.Node) {
			j.report(s, "%s of %s on %s, which was given back", a.Kind, a.Pod.Key(), a.Pod.Node)
		}
	case drain.Scale:
		if a.Replicas < a.Workload.Replicas {
			j.takesNoneThatStays(s, a.Workload.UID)
		}
	case drain.Mark, drain.Uncordon, drain.Unmark, drain.RestoreCost, drain.ScaleMin, drain.Withdraw, drain.RenewLease, drain.DeleteLease:
	}
}

// takesNoneThatStays checks before a scaling down that none of the pods that it removes first is on a node that was given back.
func (j *oracle) takesNoneThatStays(s *Sim, deployment types.UID) {
	for _, p := range s.truth.MarkedPods() {
		set := s.truth.WorkloadOf(p.OwnerKey())
		if set != nil && set.Owner.UID == deployment && !p.Terminating() && j.gaveBack(p.Node) && j.restores[p.UID] < mostUndone {
			j.report(s, "scaled down what removes %s on %s first, which was given back", p.Key(), p.Node)
		}
	}
}

// responded judges an eviction by a responder: the drain has to withdraw what it asked of pods that stay.
func (j *oracle) responded(s *Sim, p *snapshot.Pod) {
	if j == nil || !j.gaveBack(p.Node) || s.now.Before(j.back[p.Node].Add(withdrawnWithin)) {
		return
	}
	r := s.truth.RequestBy(snapshot.RequesterOf(j.req.Self.ID), p)
	if r != nil && !r.Withdrawn && j.withdrawals[r.UID] < mostUndone && !s.now.Before(j.withdraws[r.UID].Add(triedWithin)) {
		j.report(s, "request %s stands for a pod on %s, which was given back", r.Key(), p.Node)
	}
}
