package eviction

import (
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// Answer is the heart of a verdict.
type Answer string

// The answers.
const (
	Allowed Answer = "Allowed"
	Blocked Answer = "Blocked"
	Never   Answer = "Never"
)

// Verdict says whether a member may go, and why not.
type Verdict struct {
	Answer   Answer
	Blockers []Blocker // all of them; empty only if allowed
	// Needed are the steps that the role asks for now, in order; of these only the first is begun.
	Needed []Preparation
	// Member and Role are what was judged, "" where that is not known.
	Member string
	Role   string
	// Evidence is the time of the evidence, zero where there is none.
	Evidence time.Time
	// BreakGlass is the reason on the pod that lets it go in spite of its blockers.
	BreakGlass string
	// HoldExpired says why blockers hold the pod no longer where Usher itself evicts it: a maintenance has waited for longer than
	// administrators allow.
	HoldExpired string
	// Audit names the policies that the verdict is of where they are in mode Audit: the pod is let through whatever it says. Only the
	// answer to a question has it.
	Audit string
}

// WhyItGoes says what lets a member go that is let go.
func (v *Verdict) WhyItGoes() string {
	if v.Answer == Allowed {
		return "its system lets it go"
	}
	if v.BreakGlass == "" && v.HoldExpired != "" {
		return v.HoldExpired + ", so it goes, whatever its system says"
	}
	return "annotation " + v1alpha1.BreakGlassAnnotation + " lets it go, whatever its system says"
}

// Blocker is one thing that keeps a member where it is.
type Blocker struct {
	Rule    string // the rule's name; "" for a blocker that no role wrote
	Reason  string // a rule's own, or one of the reasons below
	Message string
	Remedy  string
	Retry   time.Duration // when it is worth asking again; 0: only when something changes
	Never   bool
	// WaivedBy are the role's rules of replacement that have to be given up for it to hold a replacement no longer; nil: nothing that is given
	// up helps. JudgeReplacing alone sets it.
	WaivedBy []string
}

// Reasons of blockers that no role wrote. The set is closed.
const (
	NoEvidence          = "NoEvidence"          // the system was not asked yet, or could not be asked
	EvidenceStale       = "EvidenceStale"       // what is known is too old, or older than the last member's leave
	EvidenceTooLarge    = "EvidenceTooLarge"    // what the system answers needs more memory than it may have
	FactMissing         = "FactMissing"         // the system did not say what a rule asks for
	RuleFailed          = "RuleFailed"          // a rule could not be evaluated, or took too long
	MemberUnknown       = "MemberUnknown"       // the system or the policy does not know the member, or its id cannot be determined
	ClaimedTwice        = "ClaimedTwice"        // several policies, or several entries of one, claim the pod
	PolicyInvalid       = "PolicyInvalid"       // the policy that claims it cannot be used
	PolicySuspended     = "PolicySuspended"     // its owner has suspended it
	MemberShared        = "MemberShared"        // several pods give the same member's id
	ForcedRemoval       = "ForcedRemoval"       // the caller gives it no time to end
	Unmovable           = "Unmovable"           // an eviction would not take it off its node
	PodStays            = "PodStays"            // its policy says that its load leaves, and the pod does not
	AnotherIsLeaving    = "AnotherIsLeaving"    // as many members of the role as may be on their way are
	AnotherIsReplaced   = "AnotherIsReplaced"   // another member is being replaced, or this one for another request
	PreparationPending  = "PreparationPending"  // a step was begun and is not done
	TooFewReady         = "TooFewReady"         // fewer other members of the role have a Ready pod than the role asks for
	EarlierRole         = "EarlierRole"         // members of roles that leave before it are on its node
	NodeLocked          = "NodeLocked"          // locks of what needs it are on its node
	NodeLabelPending    = "NodeLabelPending"    // its node's label does not say yet that it leaves
	AnotherIsPrepared   = "AnotherIsPrepared"   // as many members of the role as may be on their way are being prepared
	NoSuccessor         = "NoSuccessor"         // the role says that no other member takes its place
	LeavesByReplacement = "LeavesByReplacement" // another member takes its place first, by its MemberSet
	PodMissing          = "PodMissing"          // a rule asks for the member's pod, and it has none
	PolicyUnknown       = "PolicyUnknown"       // the pod says that it is governed, and its policy is not there
)

// Preparation is a step for one member.
type Preparation struct {
	Name      string // as the role and the system know it
	Namespace string // of the policy, and of the member's pod
	Member    v1alpha1.MemberRef
	Message   string // for people
	// ExpectedDuration is how long it takes as a rule, Remaining how much is still to be done; 0: not known.
	ExpectedDuration time.Duration
	Remaining        int64
	// Asked is when the system is asked, as the policy's status has it: it distinguishes one call for the step from the next.
	Asked time.Time
	// Job is the system's job for the step as it was reported before.
	Job Job
}

// Job is what a system knows the work on a step by; without an ID nothing is known.
type Job struct {
	ID string
	// Found: it was under way when the step was asked for, and no answer had its ID. Another client has begun it, or an
	// earlier call did whose answer was lost: a system says no more of it.
	Found bool
	// Progress says when the next call is of use. It is written down nowhere.
	Progress Progress
}

// Progress is how far a call has brought a step.
type Progress string

// The values of Progress; "": another call is of use after a while.
const (
	// ProgressSoon: the call has done something, and the next one has more to do at once.
	ProgressSoon Progress = "Soon"
	// ProgressDone: the call has found nothing left to do. What was observed before it is out of date.
	ProgressDone Progress = "Done"
)

// same reports whether two are the same job, however far it is.
func (j Job) same(other Job) bool { return j.ID == other.ID && j.Found == other.Found }

// Own reports whether a job was begun for the step: only the answer to the call that begins it proves that.
func (j Job) Own() bool { return j.ID != "" && !j.Found }

// Undone is a system's answer to a call that takes a step back.
type Undone struct {
	// Done: undone, or nothing is left that may be undone.
	Done bool
	// Left is what stays in force because it is not known to be the step's own, and what a person can do about it; "": nothing.
	Left string
	// Retry is how long the system has to be left alone before it can do more, where an error says so; 0: that is not known.
	Retry time.Duration
}
