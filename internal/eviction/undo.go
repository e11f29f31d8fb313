package eviction

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// undoing takes steps back. Each is marked before the system is asked to undo it, but for those of pods that are gone (goneUndo), and
// crossed out after the system has said that nothing of it is left.
type undoing struct {
	in      *StatusInput
	policy  *Declared
	now     time.Time
	replies []Reply
	status  *v1alpha1.EvictionPolicyStatus
	changed []string
	pending []string // changes that may wait until another is written
	left    []Leftover
	calls   []Action
	next    time.Time
}

func newUndoing(in *StatusInput) *undoing {
	u := &undoing{in: in, policy: &in.Policy, now: in.Now, replies: in.Replies, status: statusOf(&in.Policy)}
	u.status.Preparations = nil
	return u
}

func (u *undoing) keep(entry v1alpha1.PreparationStatus) {
	u.status.Preparations = append(u.status.Preparations, entry)
}

// undo moves one entry on. When it ends, the epoch ends with it: what the system said before was said of a member that
// was prepared.
func (u *undoing) undo(entry v1alpha1.PreparationStatus) { u.move(entry, replyOf(u.replies, &entry)) }

func (u *undoing) move(entry v1alpha1.PreparationStatus, reply Reply) {
	switch {
	case entry.State == v1alpha1.PreparationUndoing && reply.Done:
		u.status.Epoch++
		u.end(&entry, reply.Left)
		return
	case entry.State == v1alpha1.PreparationUndoing && !due(u.now, &entry, reply):
		u.look(entry.LastRequestTime.Add(wait(&entry, reply)))
	case entry.State != v1alpha1.PreparationUndoing && !over(u.now, &entry, reply):
		u.look(entry.LastRequestTime.Add(callLife))
	default:
		if entry.State != v1alpha1.PreparationUndoing {
			learn(&entry, reply)
			reply = Reply{} // that was an answer to Prepare
		}
		entry.Message = reply.Error
		u.mark(entry)
		return
	}
	u.keep(entry)
}

// mark writes down that a step is being undone, and asks the system for that.
func (u *undoing) mark(entry v1alpha1.PreparationStatus) {
	entry.State, entry.LastRequestTime = v1alpha1.PreparationUndoing, nextCall(u.now, &entry)
	u.write(entry.Name+" of "+entry.ID+" is being taken back", time.Time{})
	u.calls = append(u.calls, u.call(&entry))
	u.look(u.now.Add(askAgain))
	u.keep(entry)
}

// end crosses a step out that is undone as far as it may be.
func (u *undoing) end(entry *v1alpha1.PreparationStatus, left string) {
	step := entry.Name + " of " + entry.ID
	if left == "" {
		u.write(step+" is taken back", u.since(entry))
		return
	}
	u.write(step+" is not taken back", u.since(entry))
	u.left = append(u.left, Leftover{Step: entry.Name, Member: entry.ID, Message: left})
}

// since is from when on it may stay unwritten that a step is undone; zero: not at all. It keeps its member, and those whose rules wait for
// the members that are prepared.
func (u *undoing) since(entry *v1alpha1.PreparationStatus) time.Time {
	if u.in.ends() || u.in.awaited() || !u.in.WantedKnown {
		return time.Time{}
	}
	return entry.LastRequestTime.Time
}

// write notes a change of the status, for which it is written at once; with a time, not long after that.
func (u *undoing) write(why string, since time.Time) {
	if age := u.now.Sub(since); age >= 0 && age < unhurried {
		u.pending = append(u.pending, why)
		u.look(since.Add(unhurried))
		return
	}
	u.changed = append(u.changed, why)
}

// call asks the system to undo the entry's step for the entry's pod.
func (u *undoing) call(entry *v1alpha1.PreparationStatus) Action {
	step := u.stepOf(entry)
	return Action{
		Kind: Undo, Policy: u.policy.Key, Pod: snapshot.Key{Namespace: step.Namespace, Name: entry.PodName}, UID: entry.PodUID, Step: step,
		Why: step.Name + " of " + entry.ID + " is being taken back",
	}
}

func (u *undoing) stepOf(entry *v1alpha1.PreparationStatus) Preparation {
	return Preparation{
		Name: entry.Name, Namespace: u.policy.Key.Namespace, Member: entry.MemberRef, Asked: entry.LastRequestTime.Time, Job: jobOf(entry),
	}
}

// actions are one write of the status and the calls that it announces, or those that need none.
func (u *undoing) actions() []Action {
	if len(u.changed) == 0 {
		return u.calls
	}
	settle := u.policy.write(Settle, u.status, expression.Listed(append(u.changed, u.pending...)))
	settle.Left = u.left
	return append([]Action{settle}, u.calls...)
}

func (u *undoing) look(at time.Time) {
	if u.next.IsZero() || at.Before(u.next) {
		u.next = at
	}
}

// replyOf finds the answer to the call that the entry records.
func replyOf(answers []Reply, entry *v1alpha1.PreparationStatus) Reply {
	for _, reply := range answers {
		if reply.Step.Name == entry.Name && reply.Step.Member.PodUID == entry.PodUID && reply.Step.Asked.Equal(entry.LastRequestTime.Time) &&
			reply.Undo == (entry.State == v1alpha1.PreparationUndoing) {
			return reply
		}
	}
	return Reply{}
}

// nextCall returns a time that distinguishes the next call for a step from the last, even within one second.
func nextCall(now time.Time, entry *v1alpha1.PreparationStatus) metav1.Time {
	at := moment(now)
	if at.Time.Equal(entry.LastRequestTime.Time) {
		at = metav1.NewTime(at.Add(time.Second))
	}
	return at
}

// due reports whether it is time to ask the system again. A time that lies in the future was written by a clock that has
// been set back.
func due(now time.Time, entry *v1alpha1.PreparationStatus, reply Reply) bool {
	age := now.Sub(entry.LastRequestTime.Time)
	return age >= wait(entry, reply) || age < -askAgain
}

// callLife is how long a call for a step may be on its way to the system: longer than any policy's timeout.
const callLife = v1alpha1.MaxTimeout + 10*time.Second

// over reports whether the last call for a step has certainly reached the system, or never will: one that arrives after
// the step was taken back would begin it again, unseen.
func over(now time.Time, entry *v1alpha1.PreparationStatus, reply Reply) bool {
	if reply.Step.Name != "" && (reply.Error == "" || reply.Terminal) {
		return true
	}
	age := now.Sub(entry.LastRequestTime.Time)
	return age >= callLife || age < -callLife
}

// wait is how long after a call the system is asked again. Each call is written down first, so one that can say nothing else than what is written already
// is put off.
func wait(entry *v1alpha1.PreparationStatus, reply Reply) time.Duration {
	switch {
	case reply.Terminal:
		return askRefused
	case reply.Error != "" && reply.Error == entry.Message:
		return max(askAgain, min(reply.Retry, askRefused))
	case reply.Error == "" && reply.Job.Progress == ProgressSoon:
		return askSoon
	}
	return askAgain
}
