package drain

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// Warning is what a drain costs, or will not have done by its deadline, as things stand. It keeps no pod.
type Warning struct {
	Reason  Reason
	Cause   Reason // that of the blocker that keeps the pod; "" where none does
	Pod     snapshot.Key
	UID     types.UID // the pod's
	Node    string
	Message string
	Remedy  string
}

// warn says what the drain costs. A person who drains sees the pods, and has accepted what goes by flags: this is for drains of which none sees more than a status.
func (d *decider) warn() {
	if !d.verbose || !d.req.Self.OfMaintenance() {
		return
	}
	for i := range d.out.Pods {
		s := &d.out.Pods[i]
		switch s.State {
		case Waiting, Surging, Evicting, Terminating:
			d.out.Warnings = append(d.out.Warnings, d.warningsOf(s)...)
		case Staying, Emptied, GoneState, Replaced, Ended:
		}
	}
}

// warningsOf returns what is to be said of a pod that has not left yet.
func (d *decider) warningsOf(s *PodStatus) []Warning {
	p := s.Pod
	if p.Finished() {
		return nil
	}
	found := d.lostWith(p)
	if late, is := d.lateness(s); is {
		found = append(found, late)
	}
	if w, is := d.unplaceable(p); is {
		found = append(found, w)
	}
	return found
}

func warning(p *snapshot.Pod, reason Reason, message, remedy string) Warning {
	return Warning{Reason: reason, Pod: p.Key(), UID: p.UID, Node: p.Node, Message: message, Remedy: remedy}
}

// lostWith returns what is lost with a pod that leaves, as the operator has accepted it: the filters would object to it otherwise.
func (d *decider) lostWith(p *snapshot.Pod) []Warning {
	if d.loads(p) {
		return nil
	}
	var found []Warning
	switch {
	case !d.req.Force:
	case p.Owner.UID == "":
		found = append(found, warning(p, UnreplicatedPod, "no controller owns it: nothing replaces it", "create it anew once it is gone, or have a controller run it"))
	case p.Owner.DaemonSet() && d.orphanOfDaemonSet(p):
		found = append(found, warning(p, OrphanedDaemon, fmt.Sprintf("its DaemonSet %s does not exist any more: nothing replaces it", p.Owner.Name), "create it anew once it is gone"))
	}
	if len(p.EmptyDirs) > 0 && d.req.DeleteEmptyDir {
		found = append(found, warning(p, LocalStorage, fmt.Sprintf("its local data (emptyDir %s) goes with it", listed(p.EmptyDirs)), "save what is needed of it before the pod has ended"))
	}
	return found
}

// lateness says that a pod will not have left by the deadline as things stand, or that it gets less time to end than it may need; false where neither is known.
// How long something takes is not guessed: what has no known end may still come in time, but for what keeps the pod until another client does something.
func (d *decider) lateness(s *PodStatus) (Warning, bool) {
	if d.req.Deadline.IsZero() {
		return Warning{}, false
	}
	if b, lasts := d.lasting(s); lasts {
		return d.notInTime(s, b), true
	}
	return d.cutGrace(s)
}

// lasting returns what of a pod's blockers keeps it past the deadline.
func (d *decider) lasting(s *PodStatus) (*Blocker, bool) {
	if d.passable(s) || s.Held && d.holdEndsBefore(s) {
		return nil, false
	}
	for i := range s.Blockers {
		if d.lasts(s.Pod, &s.Blockers[i]) {
			return &s.Blockers[i], true
		}
	}
	return nil, false
}

// holdEndsBefore reports whether a limit of holds ends what holds the pod before the deadline does.
func (d *decider) holdEndsBefore(s *PodStatus) bool {
	return slices.ContainsFunc(s.Blockers, func(b Blocker) bool { return !b.Retry.IsZero() && b.Retry.Before(d.req.Deadline) })
}

// lasts reports whether a blocker keeps a pod past the deadline, as far as is known now.
func (d *decider) lasts(p *snapshot.Pod, b *Blocker) bool {
	if b.Dead {
		return true
	}
	switch b.Reason { // the others clear by themselves, or it is not known
	case BudgetExhausted:
		return b.Retry.IsZero() && d.budgetLasts(p)
	case BudgetNeverAllows, TwoBudgets, DeniedByAdmission: // the first two where a limit of holds ends them, after the deadline
		return true
	case ReplacementPending:
		w := d.workloadOf(p)
		return w != nil && w.Surge != nil && d.lastStep(w).Add(surgePatience).After(d.req.Deadline)
	case SystemDecides:
		return d.systemLasts(p)
	case Leaving:
		return d.outlasts(p) && !d.shortens(p)
	default:
		return false
	}
}

// budgetLasts reports whether the budget that holds a pod allows nothing, with no surge to come. One that has let pods of this process's drains go allows more once
// they are replaced, unless what it waits for does not get ready by itself.
func (d *decider) budgetLasts(p *snapshot.Pod) bool {
	budgets := d.Cluster.BudgetsFor(p)
	if len(budgets) != 1 || d.maySurge(p, len(budgets)) {
		return false
	}
	b := budgets[0]
	rolls := d.used[b.UID] > 0 || !d.led.evictedUnder[b.UID].IsZero()
	return b.Allowed <= 0 && (!rolls || d.unreadyUnder(b).remedy != "")
}

// mostJudging is how long a responder may take to begin with what a governed pod needs, before it is said that nothing is done for it.
const mostJudging = 10 * time.Second

// systemLasts reports whether a governed pod is not let go by the deadline: its responder expects that later, or keeps it and has no step under way for it.
func (d *decider) systemLasts(p *snapshot.Pod) bool {
	e := d.Cluster.EvictionOf(p)
	switch {
	case e == nil:
		return false
	case !e.Expected.IsZero():
		return e.Expected.After(d.req.Deadline)
	case d.Cluster.Preparing(p):
		return false
	}
	judged := e.Since.Add(min(mostJudging, d.req.Deadline.Sub(d.req.Started)/8))
	d.wake(judged)
	return !d.Now.Before(judged)
}

// outlasts reports whether the grace of a terminating pod ends after the deadline.
func (d *decider) outlasts(p *snapshot.Pod) bool {
	return p.Terminating() && p.Deletion.After(d.req.Deadline)
}

// shortens reports whether the drain shortens the grace of a terminating pod once the time has come, as far as it was not refused.
func (d *decider) shortens(p *snapshot.Pod) bool {
	t := d.led.tries[tryKey{Delete, p.UID}]
	return d.mayRemove(p) && (t == nil || t.done.IsZero() || t.answer.Code == answers.Accepted)
}

// notInTime is said of a pod that a blocker keeps past the deadline.
func (d *decider) notInTime(s *PodStatus, b *Blocker) Warning {
	w := d.req.late(b)
	w.UID = s.Pod.UID
	if d.req.AtDeadline != AtDeadlineDelete && d.mayPass(s) {
		w.Remedy = "--at-deadline=delete to have it deleted past that at the deadline; or " + w.Remedy
	}
	if e := d.Cluster.EvictionOf(s.Pod); b.Reason == SystemDecides && e != nil && !e.Expected.IsZero() {
		w.Message += "; its responder expects that to take until " + e.Expected.UTC().Format("15:04:05")
	}
	return w
}

// late says of a blocker that it keeps its pod past the deadline.
func (r *Request) late(b *Blocker) Warning {
	reason, when := NotInTime, "it will not have left by the deadline"
	if r.NodeGoes {
		reason, when = WillBeLost, "it will be lost with the node"
	}
	return Warning{Reason: reason, Cause: b.Reason, Pod: b.Pod, Node: b.Node, Message: fmt.Sprintf("%s, as things stand: %s", when, b.Message), Remedy: b.Remedy}
}

// WarningsOf returns what follows from objections to a drain, which keep it from being begun: each pod is said once.
func WarningsOf(objections []Blocker, req Request) []Warning {
	if req.Deadline.IsZero() {
		return nil
	}
	var found []Warning
	for i := range objections {
		b := &objections[i]
		if !slices.ContainsFunc(found, func(w Warning) bool { return w.Pod == b.Pod }) {
			found = append(found, req.late(b))
		}
	}
	return found
}

// cutGrace says that a pod gets less time to end than it asks for, which it may or may not need; false where it gets all of it.
func (d *decider) cutGrace(s *PodStatus) (Warning, bool) {
	p := s.Pod
	own, room := d.ownGrace(p), d.room()
	switch {
	case !d.mayRemove(p):
		return Warning{}, false
	case p.Terminating() && !d.outlasts(p):
		return Warning{}, false
	case p.Terminating():
		own = p.Deletion.Sub(d.Now).Round(time.Second)
	case own <= room:
		d.wake(d.req.Deadline.Add(-d.schedule.reserve - own + time.Second))
		return Warning{}, false
	}
	return warning(p, GraceCut, fmt.Sprintf("it may take %s to end, and gets %s at most: what it has not done by then is lost", short(own), short(room)),
		"see that it ends sooner, or needs no longer: spec.terminationGracePeriodSeconds"), true
}
