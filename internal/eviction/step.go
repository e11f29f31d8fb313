package eviction

import (
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// ResponderInput is what is known of a governed pod that is wanted gone.
type ResponderInput struct {
	Input
	// Wanted: an EvictionRequest with intent Eviction is there for the pod (by UID).
	Wanted bool
	// Requests are those of them that admission made; OnlyAdmission says that there are no others.
	Requests      []AdmissionRequest
	OnlyAdmission bool
	// Active: it is Usher's turn in the Eviction. If it is not, Usher prepares, but neither evicts nor reports.
	Active bool
	// Accepted is when the eviction API accepted the eviction of this pod by this process, zero if it did not.
	Accepted time.Time
	// Replies is what the system said to the last call for each step of this pod's member, in this process.
	Replies []Reply
	// HoldRefused is what the apiserver said when the policy was to be held just now, "" where it was not asked to.
	HoldRefused string
}

// Reply is a system's answer to a Prepare or an Undo. One that was given to an earlier call does not count.
type Reply struct {
	Step     Preparation // of the action
	Undo     bool
	Error    string // "": it was taken
	Terminal bool   // asking again will not help
	Done     bool   // Undo: there is nothing left that may be undone
	Left     string // Undo: what stays in force, since it is not known to be the step's own
	Job      Job    // Prepare: what the system knows the work by
	// Retry is how long asking for an Undo again will not help; 0: that is not known.
	Retry time.Duration
}

// StepResult is what to do now.
type StepResult struct {
	Verdict Verdict
	Actions []Action
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
}

// Holds reports whether the policy is to be held first. Then that is all there is to do, and everything is looked at anew.
func (r *StepResult) Holds() (Action, bool) {
	if len(r.Actions) == 1 && r.Actions[0].Kind == Hold {
		return r.Actions[0], true
	}
	return Action{}, false
}

// Empties reports whether the pod stays and is emptied now.
func (r *StepResult) Empties() bool {
	return slices.ContainsFunc(r.Actions, func(a Action) bool {
		return a.Kind == Respond && strings.HasPrefix(a.Report.Message, v1alpha1.EmptiedPrefix)
	})
}

// Evicts reports whether the pod is to be evicted now.
func (r *StepResult) Evicts() bool {
	return slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Kind == Evict })
}

const (
	// askAgain is how long after a call for a step the system is asked again.
	askAgain = 10 * time.Second
	// askSoon is the same for one that has more to do at once.
	askSoon = time.Second
	// askRefused is the same for a system that has said that asking again will not help.
	askRefused = 5 * time.Minute
	// leastGrace is what a pod gets whose spec gives it no time: so that its object stays until its process was seen to end.
	leastGrace = time.Second
	// shortEnd is how long a pod may terminate before its Eviction says so: many are gone by then.
	shortEnd = 2 * time.Second
	// holdAgain is how long after a refusal the policy is to be held again: that will hardly be accepted sooner.
	holdAgain = 10 * time.Second
	// heartbeat keeps the responder's entry alive while nothing changes.
	heartbeat = 3 * time.Minute
)

// Step says what Usher as a responder does for one pod. A result holds at most one write of the policy's status. It may be
// carried out to any prefix, and more than once.
func Step(in ResponderInput) StepResult {
	switch {
	case in.Deleted:
		return StepResult{Actions: in.respond(Report{Message: "the pod is gone", Completed: true})}
	case !in.Wanted:
		return StepResult{} // ReconcileStatus takes back what was begun
	}
	j := judgeEviction(in.Input)
	result := StepResult{Verdict: j.verdict, NextLook: in.Now.Add(heartbeat)}
	ungoverned := j.entry == nil && j.verdict.Answer == Allowed
	switch {
	case in.Pod.Terminating() && ungoverned: // in a namespace without policies no event of its end comes; the next responder sees it
		result.Actions = in.respond(Report{Message: noPolicy, Completed: true})
	case in.Pod.Terminating() && in.terminatingFor() < shortEnd:
		result.NextLook = in.Now.Add(shortEnd - in.terminatingFor())
	case in.Pod.Terminating():
		result.Actions = in.respond(Report{Message: "the pod is terminating; it waits until its containers have ended", Expected: in.Pod.Deletion})
	case ungoverned:
		result.Actions = in.release()
	case in.OnlyAdmission && j.policy != nil && j.policy.Deleted:
		result.Actions = in.giveUp("its policy is being deleted")
	case in.notToBeEmptied():
		result.Actions = in.giveUpEmptying()
	case j.loads() && j.lets() && !j.halted():
		result.Actions, result.NextLook = in.empty(j), in.Now.Add(emptiedAgain)
	case j.lets() && !j.halted() && in.accepted():
		result.NextLook = in.Accepted.Add(lookAgain)
	case j.lets() && !j.halted():
		if who, until := in.pendingCaller(); who != "" {
			result.Actions, result.NextLook = in.waitForCaller(&j.verdict, who, until), until
			break
		}
		result.Actions = in.evict(j)
		result.NextLook = in.Now.Add(lookAgain)
	case j.filledAgain():
		result.Actions, result.NextLook = in.fill(j), in.Now
	default:
		result.Actions, result.NextLook = in.hold(j)
	}
	return result
}

// noPolicy is why Usher's responder leaves a pod to the next one.
const noPolicy = "no policy governs the pod"

// release lets go of a pod that no policy governs any more. What admission asked for was to make it safe first: the callers
// were refused, and may have given up since, so it is withdrawn. A request made by a client itself is served without a verdict.
func (in *ResponderInput) release() []Action {
	actions := in.giveUp(noPolicy)
	if in.OnlyAdmission {
		return actions
	}
	return append(actions, in.respond(Report{Message: noPolicy, Completed: true})...)
}

// giveUp withdraws what admission asked for.
func (in *ResponderInput) giveUp(why string) []Action {
	var actions []Action
	for i := range in.Requests {
		actions = append(actions, in.Requests[i].withdrawal(snapshot.Key{}, why))
	}
	return actions
}

// terminatingFor is since when the pod terminates; a while where that is not known.
func (in *ResponderInput) terminatingFor() time.Duration {
	if age := in.Now.Sub(in.Pod.Deletion.Add(-in.Pod.Grace)); age >= 0 {
		return age
	}
	return shortEnd
}

// accepted reports whether the pod was evicted just now, and the cache does not show it terminating yet. A second eviction would change
// the pod once more, which wakes everything that watches it: what ends pods by name then meets the one that follows.
func (in *ResponderInput) accepted() bool {
	age := in.Now.Sub(in.Accepted)
	return age >= 0 && age < lookAgain
}

// halted: glass that was broken lets callers through, but Usher does nothing for a policy whose owner has suspended it,
// nor for one that it does not understand.
func (j *judgement) halted() bool {
	return !j.expired() && (j.role == nil || j.policy.Policy.suspended)
}

func (in *ResponderInput) evict(j *judgement) []Action {
	if !in.Active {
		return nil
	}
	permit := withRefused(j.permit(usher, 0), in.Pod.UID, in.Requests)
	if j.verdict.Answer != Allowed {
		permit = bestEffort(permit)
	}
	evict := Action{Kind: Evict, Pod: in.Pod.Key(), UID: in.Pod.UID, Why: j.title() + " leaves: " + j.verdict.WhyItGoes()}
	if j.policy != nil {
		evict.Policy = j.policy.Key
	}
	if in.Pod.Grace == 0 {
		evict.Grace = leastGrace
	}
	return append(permit, evict)
}

// hold reports what keeps the pod and has its member prepared.
func (in *ResponderInput) hold(j *judgement) ([]Action, time.Time) {
	report := Report{Message: j.title() + " " + j.mayNot() + ": " + j.summary(), Expected: j.expected()}
	if said := in.lastError(j); said != "" {
		report.Message += "; the system's last answer: " + said
	}
	if job := j.foundJob(); job != "" {
		report.Message += "; job " + job + " was under way before Usher knew of one of its own, so it goes on when the eviction is withdrawn"
	}
	next := in.Now.Add(min(j.retryAfter(), heartbeat))
	if expiry := in.nextExpiry(); expiry.After(in.Now) && expiry.Before(next) {
		next = expiry
	}
	if j.verdict.Answer == Never {
		report.Message = v1alpha1.NeverPrefix + report.Message
		next = in.Now.Add(heartbeat)
	}
	var begin []Action
	if len(j.verdict.Needed) > 0 && !j.policy.Deleted { // or else they are taken back, so that the policy can go
		var again time.Time
		begin, again = in.begin(j, j.verdict.Needed[0])
		if again.After(in.Now) && again.Before(next) {
			next = again
		}
	}
	switch {
	case len(begin) == 0 || j.policy.Held:
	case in.HoldRefused == "":
		return []Action{{Kind: Hold, Policy: j.policy.Key, Version: j.policy.Version, Why: "what is to be undone stands in the policy only"}}, in.Now
	default:
		report.Message += "; nothing is prepared, because policy " + j.policy.Key.Name + " cannot be held while it is (finalizer " +
			v1alpha1.UndoFinalizer + "): " + in.HoldRefused
		begin, next = nil, in.Now.Add(holdAgain)
	}
	return append(bestEffort(in.respond(report)), begin...), next
}

// foundJob is the job that does a step of the member and is not known to be the step's own, "" if there is none.
func (j *judgement) foundJob() string {
	preparations := j.status().Preparations
	at := slices.IndexFunc(preparations, func(p v1alpha1.PreparationStatus) bool {
		return j.sameMember(&p.MemberRef) && p.JobOrigin == v1alpha1.JobFound
	})
	if at < 0 {
		return ""
	}
	return preparations[at].Job
}

// begin asks for a step, having written it down, and returns when to ask again; zero: that is not known.
func (in *ResponderInput) begin(j *judgement, step Preparation) (actions []Action, again time.Time) {
	status := statusOf(j.policy)
	entry := v1alpha1.PreparationStatus{
		Name: step.Name, StartTime: moment(in.Now), State: v1alpha1.PreparationBegun, RemainingAtStart: step.Remaining,
	}
	at := stepOf(j.policy, &step)
	if at >= 0 && j.anotherPods(&status.Preparations[at]) && status.Preparations[at].State == v1alpha1.PreparationBegun {
		return nil, time.Time{} // that pod's is taken back first
	}
	if at >= 0 {
		entry = status.Preparations[at]
		reply := replyOf(in.Replies, &entry)
		changed := learn(&entry, reply)
		switch {
		case entry.State == v1alpha1.PreparationUndoing && !reply.Terminal:
			return nil, time.Time{} // it is taken back first, or the two would race
		case changed && entry.State == v1alpha1.PreparationBegun:
			status.Preparations[at] = entry
			return []Action{j.policy.write(Begin, status, step.Name+" of "+j.title()+" is job "+entry.Job)}, time.Time{}
		case entry.State == v1alpha1.PreparationUndoing:
			entry.State, entry.StartTime, entry.RemainingAtStart = v1alpha1.PreparationBegun, moment(in.Now), step.Remaining
			status.Epoch++
		case !due(in.Now, &entry, reply):
			return nil, entry.LastRequestTime.Add(wait(&entry, reply))
		}
		entry.Message = reply.Error
	} else {
		at = len(status.Preparations)
		status.Preparations = append(status.Preparations, entry)
	}
	entry.MemberRef, entry.LastRequestTime, entry.Remaining = step.Member, nextCall(in.Now, &entry), step.Remaining
	status.Preparations[at] = entry
	step.Asked, step.Job = entry.LastRequestTime.Time, jobOf(&entry)
	why := step.Name + " is needed for " + j.title()
	return []Action{
		j.policy.write(Begin, status, why),
		{Kind: Prepare, Policy: j.policy.Key, Step: step, Pod: in.Pod.Key(), UID: in.Pod.UID, Why: why},
	}, entry.LastRequestTime.Add(askAgain)
}

// learn takes in what the system knows the step's work by, and reports whether that is new. It is written down by itself, at once:
// a process that ends before cannot tell the step's own job from another client's, and leaves it alone. ReconcileStatus learns it too, of a
// member that leaves before the responder looks again.
func learn(entry *v1alpha1.PreparationStatus, reply Reply) bool {
	if reply.Undo || reply.Job.ID == "" || reply.Job.same(jobOf(entry)) {
		return false
	}
	entry.Job, entry.JobOrigin = reply.Job.ID, v1alpha1.JobBegun
	if reply.Job.Found {
		entry.JobOrigin = v1alpha1.JobFound
	}
	return true
}

func jobOf(entry *v1alpha1.PreparationStatus) Job {
	return Job{ID: entry.Job, Found: entry.JobOrigin == v1alpha1.JobFound}
}

func (in *ResponderInput) respond(report Report) []Action {
	if !in.Active {
		return nil
	}
	return []Action{{Kind: Respond, Pod: in.Pod.Key(), UID: in.Pod.UID, Report: report, Why: report.Message}}
}

// lastError is what the system said to the last call for the step that is under way, if that was an error.
func (in *ResponderInput) lastError(j *judgement) string {
	for i := range j.status().Preparations {
		entry := &j.status().Preparations[i]
		if !j.sameMember(&entry.MemberRef) {
			continue
		}
		if reply := replyOf(in.Replies, entry); reply.Error != "" && reply.Error != entry.Message {
			return reply.Error
		}
	}
	return ""
}
