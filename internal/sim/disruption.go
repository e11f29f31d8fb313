package sim

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// disruptedFor is how long an entry of disruptedPods is believed (DeletionTimeout
// upstream).
const disruptedFor = 2 * time.Minute

// wakeGuard lets the disruption controller look at a budget.
func (s *Sim) wakeGuard(g *budgetTracker) {
	if g.awake {
		return
	}
	g.awake = true
	s.after(s.cfg.Budgets, func() {
		g.awake = false
		s.judgeBudget(g)
	})
}

// judgeBudget is the disruption controller (trySync upstream).
func (s *Sim) judgeBudget(g *budgetTracker) {
	b := g.budget
	next := *b
	next.Observed = true
	next.Disrupted = s.stillDisrupted(g)
	count, err := s.countBudget(g, next.Disrupted)
	if err {
		next.Allowed = 0
	} else {
		next.Expected, next.Desired, next.Current = count.expected, count.desired, count.current
		next.Allowed = max(0, count.current-count.desired)
		if count.expected <= 0 {
			next.Allowed = 0
		}
	}
	next.BlockedSince = s.blockedSince(b, next.Allowed)
	if !sameStatus(b, &next) {
		s.setBudget(g, &next)
	}
}

func (s *Sim) blockedSince(former *snapshot.Budget, allowed int32) time.Time {
	switch {
	case allowed > 0:
		return time.Time{}
	case former.BlockedSince.IsZero():
		return s.now
	}
	return former.BlockedSince
}

func sameStatus(a, b *snapshot.Budget) bool {
	return a.Observed == b.Observed && a.Allowed == b.Allowed && a.Current == b.Current &&
		a.Desired == b.Desired && a.Expected == b.Expected && maps.Equal(a.Disrupted, b.Disrupted)
}

// stillDisrupted keeps the entries of pods that are about to be deleted: neither
// gone, nor terminating, nor given up.
func (s *Sim) stillDisrupted(g *budgetTracker) map[string]time.Time {
	b := g.budget
	var kept map[string]time.Time
	for name, at := range b.Disrupted {
		p := s.truth.PodNamed(snapshot.Key{Namespace: b.Namespace, Name: name})
		expires := at.Add(disruptedFor)
		if p == nil || p.Terminating() || !b.Matches(p) || expires.Before(s.now) {
			continue
		}
		if kept == nil {
			kept = map[string]time.Time{}
		}
		kept[name] = at
		s.after(expires.Sub(s.now)+time.Nanosecond, func() { s.wakeGuard(g) })
	}
	return kept
}

type tally struct{ expected, desired, current int32 }

// countBudget returns what a budget's status should say, and whether the
// disruption controller fails over it.
func (s *Sim) countBudget(g *budgetTracker, disrupted map[string]time.Time) (tally, bool) {
	b := g.budget
	t := tally{expected: g.pods, current: g.healthy}
	for name := range disrupted {
		if p := s.truth.PodNamed(snapshot.Key{Namespace: b.Namespace, Name: name}); p != nil && p.Healthy() {
			t.current--
		}
	}
	if b.MaxUnavailable == nil && b.MinAvailable != nil && b.MinAvailable.Type == intstr.Int {
		t.desired = b.MinAvailable.IntVal
		return t, false
	}
	var failed bool
	if t.expected, failed = s.scaleOf(g); failed {
		return t, true
	}
	switch {
	case b.MaxUnavailable != nil:
		t.desired = max(0, t.expected-portion(b.MaxUnavailable, t.expected))
	case b.MinAvailable != nil:
		t.desired = portion(b.MinAvailable, t.expected)
	}
	return t, false
}

// portion resolves a number or a percentage, which is rounded up in both cases.
func portion(of *intstr.IntOrString, total int32) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(of, int(total), true)
	if err != nil {
		return 0
	}
	return int32(n)
}

// scaleOf adds up the replicas of the controllers behind a budget's pods
// (getExpectedScale upstream). Pods without a controller do not count. Where a
// controller cannot be seen, what the server last said stands.
func (s *Sim) scaleOf(g *budgetTracker) (int32, bool) {
	var total int32
	var roots []types.UID
	for key, part := range g.owners {
		if key.UID == "" {
			continue
		}
		root, replicas, known := s.root(part.owner, key)
		if !known {
			return g.budget.Expected, g.budget.Expected == 0
		}
		if replicas < 0 {
			return 0, true
		}
		if !slices.Contains(roots, root) {
			roots = append(roots, root)
			total += replicas
		}
	}
	return total, false
}

// root returns the controller whose replicas count for a pod's owner: a Deployment
// for its ReplicaSets. Replicas is negative where the kind has none.
func (s *Sim) root(owner snapshot.Owner, key snapshot.OwnerKey) (uid types.UID, replicas int32, known bool) {
	w := s.truth.WorkloadOf(key)
	if owner.DaemonSet() {
		return owner.UID, -1, true
	}
	switch owner.Kind {
	case "Job":
		return owner.UID, -1, true
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		if w == nil {
			return owner.UID, -1, s.readable(owner)
		}
	}
	if w == nil {
		return owner.UID, 0, false
	}
	if d := s.truth.WorkloadOf(w.OwnerKey()); d != nil && w.Kind == "ReplicaSet" {
		w = d
	}
	return w.UID, w.Replicas, true
}
