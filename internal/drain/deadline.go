package drain

import (
	"fmt"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// deadlinePhase is a step of the schedule that a drain with a deadline climbs.
type deadlinePhase int

const (
	phaseEvict      deadlinePhase = iota // evictions under their budgets, own grace where it fits
	phaseSurge                           // replacements are started wherever a budget holds a pod
	phaseShortGrace                      // the longest grace no longer fits: a pod whose own does not waits for no earlier ones
	phaseLast                            // what budgets still hold is deleted, if the operator said so
	phaseEnd                             // the drain ends
	phases
)

// deadlineSchedule holds when each phase begins. The zero schedule has no deadline.
type deadlineSchedule struct {
	at      [phases]time.Time
	now     time.Time
	reserve time.Duration
}

// DeadlinePhase is a step of the schedule, for people.
type DeadlinePhase struct {
	At   time.Time
	Text string
}

// scheduleOf derives the schedule from the request: the deadline is the operator's, the
// steps before it leave the kubelet time to end what was asked to end.
func (d *decider) scheduleOf() deadlineSchedule {
	if d.req.Deadline.IsZero() {
		return deadlineSchedule{}
	}
	total := d.req.Deadline.Sub(d.req.Started)
	l := deadlineSchedule{now: d.Now, reserve: min(max(total/12, 2*time.Second), 10*time.Second)}
	l.at[phaseEvict] = d.req.Started
	l.at[phaseEnd] = d.req.Deadline
	l.at[phaseLast] = d.req.Deadline.Add(-min(total/4, 30*time.Second) - l.reserve)
	l.at[phaseSurge] = earlier(d.req.Started.Add(total/4), l.at[phaseLast])
	l.at[phaseShortGrace] = l.due(d.longestGrace())
	for _, at := range l.at {
		d.wake(at)
	}
	return l
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// passed reports whether the phase has begun; without a deadline none ever does.
func (l deadlineSchedule) passed(r deadlinePhase) bool {
	return !l.at[r].IsZero() && !l.now.Before(l.at[r])
}

// due returns when a pod with this grace has to be asked to leave at the latest.
func (l deadlineSchedule) due(grace time.Duration) time.Time {
	return later(earlier(l.at[phaseEnd].Add(-l.reserve-grace), l.at[phaseLast]), l.at[phaseSurge])
}

// mustGo reports whether the pod waits for no others any more: its grace would not end in time. That of one pod says nothing
// of others, whose order it would void.
func (d *decider) mustGo(p *snapshot.Pod) bool {
	if d.req.Deadline.IsZero() {
		return false
	}
	at := d.schedule.due(d.ownGrace(p))
	d.wake(at)
	return !d.Now.Before(at)
}

// longestGrace returns the longest grace of a pod that is to leave and was not asked yet.
func (d *decider) longestGrace() time.Duration {
	var longest time.Duration
	for _, name := range d.req.Nodes {
		for _, p := range d.Cluster.PodsOn(name) {
			if !p.Terminating() && d.fateOf(p).stays == "" {
				longest = max(longest, d.ownGrace(p))
			}
		}
	}
	return longest
}

func (d *decider) ownGrace(p *snapshot.Pod) time.Duration {
	if d.req.Grace != nil {
		return *d.req.Grace
	}
	return p.Grace
}

// graceFor returns the grace to ask for; nil is the pod's own. With a deadline the
// pod has to end before its node does. A cut grace is at least a second: zero would
// let the API forget a pod whose process still runs.
func (d *decider) graceFor(p *snapshot.Pod) *time.Duration {
	if d.req.Deadline.IsZero() {
		return d.req.Grace
	}
	room := d.room()
	if d.ownGrace(p) <= room {
		return d.req.Grace
	}
	return &room
}

// room is how long a pod that is asked to end now may take.
func (d *decider) room() time.Duration {
	return max(d.req.Deadline.Add(-d.schedule.reserve).Sub(d.Now).Truncate(time.Second), time.Second)
}

// shortenGrace shortens the grace of a pod that another client asked to end, if it would
// outlive the node. One that stays by its policy, or may, ends as its own controller has it end.
func (d *decider) shortenGrace(p *snapshot.Pod) {
	if !d.mayRemove(p) || !d.mustGo(p) || !p.Deletion.After(d.req.Deadline.Add(-d.schedule.reserve+time.Second)) {
		return
	}
	at, t := d.standing(Delete, p.UID, p.ResourceVersion)
	if at == free && (t == nil || t.answer.Code != answers.Accepted) {
		room := d.room()
		d.act(Action{Kind: Delete, Pod: p, Grace: &room, Why: "its grace would outlast the deadline"})
	}
}

// pastBudget reports whether the pod may now be deleted past what holds it.
func (d *decider) pastBudget(s *PodStatus) bool {
	return d.schedule.passed(phaseLast) && d.passable(s) && d.deletionTurn(s.Pod)
}

// passable reports whether a pod is deleted in the end, past what holds it. Only what
// protects availability is passed over, and only if the operator said so; objections,
// admission and missing rights stand. A webhook that has refused the last eviction, with whatever code, may not be asked about a deletion.
func (d *decider) passable(s *PodStatus) bool {
	return d.req.AtDeadline == AtDeadlineDelete && d.mayPass(s)
}

// mayPass reports whether all that holds a pod may be passed over, if the operator says so.
func (d *decider) mayPass(s *PodStatus) bool {
	if d.req.Deadline.IsZero() || !d.mayRemove(s.Pod) {
		return false
	}
	if t := d.led.tries[tryKey{Evict, s.Pod.UID}]; t != nil && (t.answer.Admission || t.answer.Code == answers.Denied) {
		return false
	}
	for i := range s.Blockers {
		switch s.Blockers[i].Reason { // every other reason stands
		case BudgetExhausted, BudgetNeverAllows, BudgetNotObserved, TwoBudgets, EarlierWave,
			SurgeStarting, ReplacementPending, RolloutUnderway, ServerAskedToWait, ChangedMeanwhile:
		default:
			return false
		}
	}
	return true
}

// deletionTurn puts deletions past the budget into safety order: what has ready
// siblings elsewhere first, what nothing replaces last. Each class gets its share
// of the time between the last phase and the end.
func (d *decider) deletionTurn(p *snapshot.Pod) bool {
	share := d.req.Deadline.Add(-d.schedule.reserve).Sub(d.schedule.at[phaseLast]) / (2 * riskClasses)
	at := d.schedule.at[phaseLast].Add(time.Duration(d.risk(p)) * share)
	d.wake(at)
	return !d.Now.Before(at)
}

const riskClasses = 5

// risk says how much may be lost with the pod: 0 least.
func (d *decider) risk(p *snapshot.Pod) int {
	switch {
	case p.Owner.DaemonSet() || p.Priority >= criticalPriority:
		return 4
	case p.Owner.UID == "":
		return 3
	case len(p.Claims) > 0 || len(p.EmptyDirs) > 0:
		return 2
	case !d.readyElsewhere(p):
		return 1
	}
	return 0
}

// readyElsewhere reports whether its owner runs a ready pod on a node that is not drained. Of an owner that cannot be seen that is not
// known.
func (d *decider) readyElsewhere(p *snapshot.Pod) bool {
	if d.Cluster.WorkloadOf(p.OwnerKey()) == nil {
		return false
	}
	for _, sibling := range d.Cluster.PodsOf(p.OwnerKey()) {
		if sibling.Ready && !sibling.Terminating() && !d.targeted(sibling.Node) {
			return true
		}
	}
	return false
}

func (d *decider) targeted(node string) bool { return d.targets[node] }

// DeadlinePhases returns the steps of the drain's deadline, empty without one.
func DeadlinePhases(view snapshot.View, req Request) []DeadlinePhase {
	if req.Deadline.IsZero() {
		return nil
	}
	d := newDecider(view, req, NewLedger(), true)
	steps := make([]DeadlinePhase, 0, phases)
	for r := range phases {
		steps = append(steps, DeadlinePhase{At: d.schedule.at[r], Text: d.textOf(r)})
	}
	return steps
}

// phaseText says which step of the schedule the drain is on.
func (d *decider) phaseText() string {
	if d.req.Deadline.IsZero() || !d.verbose {
		return ""
	}
	text := ""
	for r := range phases {
		if d.schedule.passed(r) {
			text = d.textOf(r)
		}
	}
	return text
}

func (d *decider) textOf(r deadlinePhase) string {
	switch r {
	case phaseEvict:
		return "evict under the budgets, each pod with its own grace as long as that ends in time"
	case phaseSurge:
		if d.req.Surge == SurgeNever {
			return "(no surge: --surge=never)"
		}
		return "start replacements first wherever a budget still holds a Deployment's pod"
	case phaseShortGrace:
		return fmt.Sprintf("cut graces so that every pod ends %s before the deadline; a pod whose grace would last longer waits for no earlier wave", short(d.schedule.reserve))
	case phaseLast:
		if d.req.AtDeadline == AtDeadlineDelete {
			return "what budgets still hold is deleted past them, safest first (--at-deadline=delete)"
		}
		return "evictions go on under the budgets until the end; nothing is deleted past them (--at-deadline=stop)"
	case phaseEnd, phases:
	}
	return "stop and report"
}
