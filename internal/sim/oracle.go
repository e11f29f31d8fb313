package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// oracle finds what a drain does that it must not do. It looks at the truth, knows
// nothing of how decisions are made, and decides nothing itself. A nil judge is silent.
type oracle struct {
	req       drain.Request
	targets   map[string]bool
	found     []string
	passed    bool                    // budgets were passed with permission: their status may be behind
	disturbed bool                    // another client changed the cluster
	until     time.Time               // and what follows from it may last so long
	givenUp   map[types.UID]bool      // Deployments whose surge the drain has given up
	residents map[types.UID]bool      // pods that were on the targets, or started, when the drain saw their cordons
	closed    map[string]bool         // targets whose cordon the drain has seen
	back      map[string]time.Time    // targets that were given back, and when the drain saw that
	withdraws map[types.UID]time.Time // requests, and when the drain tried last to withdraw them
	// withdrawals are requests, and how often it has tried.
	withdrawals map[types.UID]int
	restores    map[types.UID]int         // pods, and how often the drain has tried to restore their deletion costs
	mayLose     map[snapshot.OwnerKey]int // how many of these each owner had
	lost        map[snapshot.OwnerKey]int // pods of each owner that the drain has removed
	held        map[types.UID]types.UID   // budgets, and the last pod that has passed each since it had held a maintenance for too long
}

func newOracle(req drain.Request, truth *snapshot.Cluster) *oracle {
	j := &oracle{
		req: req, targets: map[string]bool{}, givenUp: map[types.UID]bool{},
		residents: map[types.UID]bool{}, closed: map[string]bool{}, back: map[string]time.Time{}, withdraws: map[types.UID]time.Time{}, withdrawals: map[types.UID]int{}, restores: map[types.UID]int{},
		mayLose: map[snapshot.OwnerKey]int{}, lost: map[snapshot.OwnerKey]int{},
		held: map[types.UID]types.UID{},
	}
	for _, name := range req.Nodes {
		j.targets[name] = true
	}
	j.settleIn(truth, truth)
	return j
}

// settleIn notes what the drain may remove: what is on its nodes until it sees their cordons, and what was started by then.
// It is called whenever time has passed, which is when a drain looks again: what is started in the same moment as a cordon
// shows together with it.
func (j *oracle) settleIn(truth, seen *snapshot.Cluster) {
	if j == nil || len(j.closed) == len(j.targets) {
		return
	}
	truth.EachPod(func(p *snapshot.Pod) {
		if (p.Node == "" || j.targets[p.Node] && !j.closed[p.Node]) && !j.residents[p.UID] {
			j.residents[p.UID] = true
			j.mayLose[p.OwnerKey()]++
		}
	})
	for name := range j.targets {
		if n := seen.Node(name); n != nil && n.Drain != nil && n.Drain.ID == j.req.Self.ID {
			j.closed[name] = true
		}
	}
}

// notInCircles checks that no owner loses more pods than it had on the nodes when the drain began.
func (j *oracle) notInCircles(s *Sim, p *snapshot.Pod) {
	if owner := p.OwnerKey(); owner.UID != "" {
		j.lost[owner]++
		if j.lost[owner] > j.mayLose[owner] {
			j.report(s, "removed %s: its %s %s has lost %d pods, and had %d", p.Key(), p.Owner.Kind, p.Owner.Name, j.lost[owner], j.mayLose[owner])
		}
	}
}

// Violations returns what the drain did that it must not do, in order.
func (s *Sim) Violations() []string {
	if s.oracle == nil {
		return nil
	}
	return s.oracle.found
}

// Leftovers returns what the drain has written on workloads and pods and not taken
// back. After a settled end there must be none.
func (s *Sim) Leftovers(drainID string) []string {
	var left []string
	for _, w := range s.truth.Workloads() {
		if w.Surge != nil && w.Surge.ID == drainID {
			left = append(left, fmt.Sprintf("surge record on %s %s", w.Kind, w.Key()))
		}
	}
	for _, a := range s.truth.Autoscalers() {
		if a.Surge != nil && a.Surge.ID == drainID {
			left = append(left, "surge record on autoscaler "+a.Key().String())
		}
	}
	for _, p := range s.truth.MarkedPods() {
		if id, _, _ := strings.Cut(p.CostMark, "="); id == drainID && !p.Terminating() {
			left = append(left, "deletion cost of pod "+p.Key().String())
		}
	}
	if lease, _ := s.truth.LeaseOf(drainID); lease != nil {
		left = append(left, "the Lease of the drain")
	}
	return append(left, s.requestsLeft(drainID)...)
}

// requestsLeft returns the drain's requests for pods that are still there.
func (s *Sim) requestsLeft(drainID string) []string {
	var left []string
	for _, r := range s.truth.Requests() {
		if who, drains := r.Drainer(); drains && who.ID == drainID && s.truth.Pod(r.PodUID) != nil && !s.keepsEmpty(r) {
			left = append(left, "request "+r.Key().String())
		}
	}
	return left
}

// keepsEmpty reports whether a request keeps a pod empty on a node that its drain has drained, and that was not given back.
func (s *Sim) keepsEmpty(r *snapshot.Request) bool {
	who, _ := r.Drainer()
	p := s.truth.Pod(r.PodUID)
	n := s.truth.Node(p.Node)
	return s.loads(p) && n != nil && n.KeptDrained(who.ID)
}

func (j *oracle) report(s *Sim, format string, args ...any) {
	j.found = append(j.found, fmt.Sprintf("%s: ", s.now.Sub(s.start))+fmt.Sprintf(format, args...))
}

// meddled excuses what follows from what another client did until all controllers had time to
// see it.
func (j *oracle) meddled(s *Sim) {
	if j == nil {
		return
	}
	lag := s.cfg.Lag
	j.disturbed = true
	j.until = s.now.Add(time.Second + s.cfg.Budgets + 2*s.cfg.Controllers + max(lag.Pods, lag.Nodes, lag.Budgets, lag.Workloads))
}

func (j *oracle) excused(s *Sim) bool { return j.disturbed && !s.now.After(j.until) }

// noted notes what a drain lets go of by an action, and what it takes back, whether that is carried out or not.
func (j *oracle) noted(s *Sim, a drain.Action) {
	switch {
	case j == nil:
	case a.GiveUp != "" && a.Workload != nil:
		j.givenUp[a.Workload.UID] = true
	case a.Kind == drain.Withdraw:
		j.withdraws[a.Request.UID] = s.now
		j.withdrawals[a.Request.UID]++
	case a.Kind == drain.RestoreCost:
		j.restores[a.Pod.UID]++
	}
}

// asked judges an action before it is carried out.
func (j *oracle) asked(s *Sim, a drain.Action) {
	if j == nil {
		return
	}
	j.leavesAlone(s, a)
	switch a.Kind {
	case drain.Evict, drain.Delete, drain.Ask:
		j.mayTouch(s, a)
		j.mayEvict(s, a)
	case drain.LowerCost:
		if !j.targets[a.Pod.Node] {
			j.report(s, "lowered the cost of %s, which is not on a targeted node", a.Pod.Key())
		}
	case drain.RestoreCost:
		if a.Pod.CostMark == "" {
			j.report(s, "restored a cost of %s that was not lowered", a.Pod.Key())
		}
	case drain.Uncordon:
		j.mayUncordon(s, a)
	case drain.Cordon, drain.Mark, drain.Unmark, drain.Scale, drain.ScaleMin, drain.Withdraw, drain.RenewLease, drain.DeleteLease:
	}
}

// mayEvict checks that a governed pod is only asked for: its system lets it go.
func (j *oracle) mayEvict(s *Sim, a drain.Action) {
	if a.Kind != drain.Ask && a.HoldExpired == "" && a.Pod.Policy() != "" && !j.req.DisableEviction && !a.Pod.Terminating() {
		j.report(s, "%s of %s, which policy %s governs", a.Kind, a.Pod.Key(), a.Pod.Policy())
	}
}

func (j *oracle) mayTouch(s *Sim, a drain.Action) {
	p := a.Pod
	if !j.targets[p.Node] {
		j.report(s, "%s of %s, which is on %q, not on a targeted node", a.Kind, p.Key(), p.Node)
	}
	load := s.loads(p)
	if load && a.Kind != drain.Ask {
		j.report(s, "%s of %s, which stays by its policy", a.Kind, p.Key())
	}
	if why := j.shielded(p); why != "" && (!load || why == notSelected) {
		j.report(s, "%s of %s, %s", a.Kind, p.Key(), why)
	}
	if n := s.truth.Node(p.Node); n != nil && !n.Unschedulable && !j.excused(s) {
		j.report(s, "%s of %s from %s, which is not cordoned", a.Kind, p.Key(), p.Node)
	}
	allowed := p.Terminating() || j.req.DisableEviction || j.req.AtDeadline == drain.AtDeadlineDelete && !j.req.Deadline.IsZero()
	if a.HoldExpired != "" {
		j.mayPass(s, p)
	} else if a.Kind == drain.Delete && !allowed {
		j.report(s, "deleted %s without permission to pass its budget", p.Key())
	}
}

const notSelected = "which is not selected"

// shielded says why a pod must stay whatever happens, "" if it need not.
func (j *oracle) shielded(p *snapshot.Pod) string {
	switch {
	case j.req.PodSelector != nil && !j.req.PodSelector.Matches(labels.Set(p.Labels)):
		return notSelected
	case p.Mirror:
		return "a static pod"
	case p.Finished():
		return ""
	case p.Owner.DaemonSet() && j.req.DaemonSets != drain.DaemonSetsEvict && !j.req.Force:
		return "a DaemonSet's pod"
	case p.Owner.UID == "" && !j.req.Force:
		return "which nothing will replace"
	case len(p.EmptyDirs) > 0 && !j.req.DeleteEmptyDir:
		return "which has local data"
	}
	return ""
}

func (j *oracle) mayUncordon(s *Sim, a drain.Action) {
	n := s.truth.Node(a.Node.Name)
	if n == nil || n.ResourceVersion != a.Node.ResourceVersion {
		return
	}
	switch r := n.Drain; {
	case !n.UsherCordon():
		j.report(s, "removed another client's cordon of %s", n.Name)
	case r.ID != j.req.Self.ID && !j.req.Dead[r.ID] && r.LiveAt(s.now):
		j.report(s, "removed the cordon of the live drain %s of %s", r.ID, n.Name)
	}
}

// removed judges the removal of a pod at the drain's request.
func (j *oracle) removed(s *Sim, p *snapshot.Pod, a drain.Action) {
	if j == nil || p.Terminating() {
		return
	}
	j.notInCircles(s, p)
	if !p.Ready || j.excused(s) {
		return
	}
	j.passed = j.passed || a.Kind == drain.Delete
	if a.Kind == drain.Evict && !j.passed {
		j.withinBudgets(s, p, "evicted", false)
	}
	if j.req.Deadline.IsZero() && !j.req.DisableEviction && a.HoldExpired == "" {
		j.surgeHolds(s, p)
	}
}

// dismissed judges the removal of a pod by a controller that the drain scaled down.
func (j *oracle) dismissed(s *Sim, p *snapshot.Pod) {
	if j == nil || j.disturbed || !p.Ready {
		return
	}
	j.withinBudgets(s, p, "scaled away", true)
}

// withinBudgets checks a removal against the budgets with the healthy pods that there
// are in truth. The disruption controller learns of new replicas only from new pods,
// and a budget that asks for more than its owner does cannot be kept by scaling.
func (j *oracle) withinBudgets(s *Sim, p *snapshot.Pod, how string, scaling bool) {
	s.guards.load(p.Namespace)
	for _, g := range s.guards.of(p) {
		b := g.budget
		t, failed := s.countBudget(g, nil)
		t.desired = min(t.desired, b.Desired)
		if replicas, unknown := s.scaleOf(g); scaling && !unknown {
			t.desired = min(t.desired, replicas)
		}
		if !failed && g.healthy-1 < t.desired {
			j.report(s, "%s %s: budget %s needs %d healthy pods and has %d left", how, p.Key(), b.Name, t.desired, g.healthy-1)
		}
	}
}

// surgeHolds checks that a workload which the drain has scaled up keeps as many
// ready pods as its owner asked for. A surge that is given up, because another client has
// scaled, is over once its record is off the Deployment; that on the autoscaler may go last.
func (j *oracle) surgeHolds(s *Sim, p *snapshot.Pod) {
	w := s.truth.WorkloadOf(p.OwnerKey())
	if w == nil {
		return
	}
	d := s.truth.WorkloadOf(w.OwnerKey())
	if d == nil {
		return
	}
	record := d.Surge
	if scaler := s.truth.AutoscalerOf(d); record == nil && scaler != nil && !j.givenUp[d.UID] {
		record = scaler.Surge
	}
	if record == nil || record.ID != j.req.Self.ID {
		return
	}
	ready := int32(-1)
	for _, set := range s.truth.WorkloadsOf(d.AsOwner()) {
		pods := s.truth.PodsOf(set.AsOwner())
		ready += int32(len(pods) - len(slices.DeleteFunc(slices.Clone(pods), (*snapshot.Pod).Healthy)))
	}
	if ready < record.Was {
		j.report(s, "removed %s while surging: %d of %d pods ready", p.Key(), ready, record.Was)
	}
}

// JudgeAs judges what follows as the doing of another request: a drain that was
// started again.
func (s *Sim) JudgeAs(req drain.Request) {
	found := s.Violations()
	s.oracle = newOracle(req, s.truth)
	s.oracle.found = found
}
