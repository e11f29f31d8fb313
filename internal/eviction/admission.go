package eviction

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Verb is what a caller wants to do to a pod.
type Verb string

// The verbs.
const (
	VerbEvict  Verb = "evict"  // CREATE of pods/eviction
	VerbDelete Verb = "delete" // DELETE of pods
)

// AdmissionInput is a caller's request beside the facts for a verdict.
type AdmissionInput struct {
	Input
	Verb   Verb
	User   string
	Groups []string
	DryRun bool
	// Ask is the value of VerdictAnnotation on the Eviction.
	Ask string
	// ByName: an eviction without the UID of a pod.
	ByName bool
	// Requester is the name under which EvictionRequests are made for User.
	Requester string
	// OwnRequest is set by SkipEvictionRequestAnnotation on the Eviction.
	OwnRequest bool
	// Grace is the grace period in seconds that the caller asked for, nil for the pod's own.
	Grace *int64
	// NamespaceEnding says that the namespace is being deleted.
	NamespaceEnding bool
	// Self are the users that Usher's own processes are: no EvictionRequest is made in their names, and their permits are
	// Usher's own.
	Self []string
	// audit names the policies where they are in mode Audit, "" where they are not.
	audit string
}

// AdmissionResult is the answer. Its actions are carried out before the answer is given; when one is refused everything is looked at again,
// and if time does not allow that, the answer is a refusal, unless it is Regardless.
type AdmissionResult struct {
	Allow bool
	// Regardless: it is let through whatever becomes of its actions. They are tried again while they only meet others' writes: a leave
	// that is not written down does not keep the next member.
	Regardless bool
	// Code is the HTTP status of a refusal: 429, 404 where the pod that the caller means is gone, or 400 for a question that
	// cannot be understood.
	Code int32
	// Message, Causes and RetryAfter go into the refusal's status; Done is to be added to Message once the actions were
	// carried out.
	Message    string
	Done       string
	Causes     []metav1.StatusCause
	RetryAfter time.Duration
	// Warnings go to the caller of what is allowed.
	Warnings []string
	Actions  []Action
	// ByReadiness: it is allowed by which members of the policy are Ready, or on the pod's node, or by which locks are there.
	ByReadiness bool
	// Note is for events, metrics and the audit log.
	Note    Note
	Verdict Verdict
}

// Note says in a word and a sentence what was answered.
type Note struct {
	Kind    NoteKind
	Message string
}

// NoteKind classifies answers. The set is closed; it is a label of metrics.
type NoteKind string

// The kinds.
const (
	NotGoverned    NoteKind = "NotGoverned"    // no policy claims the pod
	NoSuchPod      NoteKind = "NoSuchPod"      // there is none of the name
	GoneMeanwhile  NoteKind = "GoneMeanwhile"  // the pod that the caller was refused for is gone, and another has its name
	Asked          NoteKind = "Asked"          // the verdict was asked for
	LetThrough     NoteKind = "LetThrough"     // the verdict allows it
	Refused        NoteKind = "Refused"        // the verdict does not
	BrokenGlass    NoteKind = "BrokenGlass"    // let through against the verdict, by the pod's annotation
	AlreadyLeaving NoteKind = "AlreadyLeaving" // it is terminating already
	ByOwner        NoteKind = "ByOwner"        // the pod's own controller
	ByGarbage      NoteKind = "ByGarbage"      // garbage collection of pods or owners
	ByNamespace    NoteKind = "ByNamespace"    // its namespace goes
	ByKubelet      NoteKind = "ByKubelet"      // the kubelet of its node
	ByReplacement  NoteKind = "ByReplacement"  // Usher itself, since the member is being replaced
	DeleteIsFree   NoteKind = "DeleteIsFree"   // the policy says that a DELETE does not concern it
	HoldExpired    NoteKind = "HoldExpired"    // let through against the verdict, since a maintenance was held for longer than maxHold
	WouldRefuse    NoteKind = "WouldRefuse"    // let through by policies in mode Audit, which refuse it in mode Enforce
	WouldAllow     NoteKind = "WouldAllow"     // these would let it through in mode Enforce, too
	NotJudged      NoteKind = "NotJudged"      // let through because what these say could not be found out
)

// HTTP statuses of a refusal.
const (
	badRequest      = 400
	notFound        = 404
	tooManyRequests = 429
)

// Admit answers a caller.
func Admit(in AdmissionInput) AdmissionResult {
	if in.Ask != "" {
		return answerAsk(&in)
	}
	if gone := in.departed(); gone != nil {
		return goneMeanwhile(&in, gone)
	}
	j := judgeFor(&in)
	if in.forced() && j.role != nil && j.entry.counted() && !j.idle() {
		j.force(&in)
	}
	if in.Verb == VerbEvict {
		j.stay()
	}
	switch kind := exemption(&in, j); {
	case kind != "":
		return j.exempt(&in, kind)
	case j.verdict.Answer == Allowed:
		return j.letThrough(&in)
	case j.verdict.BreakGlass != "":
		return j.breakGlass(&in)
	case j.endsHold(&in):
		return j.endHold(&in)
	}
	return j.refuse(&in)
}

// judgeFor judges a DELETE as what may bring the pod back where it is.
func judgeFor(in *AdmissionInput) *judgement {
	if in.Verb == VerbDelete {
		return judgeDeletion(in.Input)
	}
	return judgeEviction(in.Input)
}

// by is the requester that is written into a permit.
func (in *AdmissionInput) by() string {
	if slices.Contains(in.Self, in.User) {
		return usher
	}
	return in.User
}

// exempt lets through what is no eviction. The leave is noted all the same, so that no other member is let go on
// evidence from before it, but a write that fails stops no caller.
func (j *judgement) exempt(in *AdmissionInput, kind NoteKind) AdmissionResult {
	result := AdmissionResult{Allow: true, Regardless: true, Verdict: j.verdict, Note: Note{Kind: kind, Message: exemptions[kind]}}
	linger := in.linger()
	if kind == ByKubelet || kind == ByOwner && (in.Pod.Terminating() || in.Pod.Finished()) {
		linger = 0 // they clear away what has ended
	}
	if !in.DryRun {
		result.Actions = j.permit(in.by(), linger)
	}
	return result
}

func (j *judgement) letThrough(in *AdmissionInput) AdmissionResult {
	result := AdmissionResult{
		Allow: true, Verdict: j.verdict, ByReadiness: j.role != nil && (j.entry.roster() || j.entry.nodeLock.waits()) && !j.idle(),
		Note: Note{Kind: LetThrough, Message: j.title() + " may leave"},
	}
	if !in.DryRun {
		result.Actions = j.permit(in.by(), 0)
	}
	return result
}

func (j *judgement) breakGlass(in *AdmissionInput) AdmissionResult {
	warning := "Usher would have refused this: " + j.summary() + "; annotation " + v1alpha1.BreakGlassAnnotation +
		" lets it through: " + j.verdict.BreakGlass
	result := AdmissionResult{
		Allow: true, Regardless: true, Verdict: j.verdict,
		Warnings: []string{warning},
		Note:     Note{Kind: BrokenGlass, Message: warning},
	}
	if !in.DryRun {
		result.Actions = j.permit(in.by(), in.linger())
	}
	return result
}

// endsHold reports whether Usher itself removes a pod that blockers hold no longer: by an eviction, or by a DELETE past budgets, which must
// neither be by force nor bring the pod back at once. One that stays is emptied, and never removed.
func (j *judgement) endsHold(in *AdmissionInput) bool {
	movable := in.Verb == VerbEvict || !in.forced() && !in.Pod.Owner.DaemonSet() && !in.Pod.Mirror
	if j.loads() && !in.Pod.Finished() {
		return false
	}
	return j.expired() && movable && slices.Contains(in.Self, in.User)
}

// endHold lets Usher's own eviction, or its DELETE past budgets, through as broken glass would, and says so.
func (j *judgement) endHold(in *AdmissionInput) AdmissionResult {
	warning := "Usher would have refused this: " + j.summary() + "; " + j.verdict.HoldExpired
	result := AdmissionResult{
		Allow: true, Regardless: true, Verdict: j.verdict, Warnings: []string{warning}, Note: Note{Kind: HoldExpired, Message: warning},
	}
	if !in.DryRun {
		result.Actions = j.permit(in.by(), in.linger())
	}
	return result
}

func (j *judgement) refuse(in *AdmissionInput) AdmissionResult {
	result := j.refusal()
	if j.entry != nil && in.Verb == VerbDelete && ownsPod(in.User, in.Pod) {
		result.Message += "; where the rollout is to go on whatever the system says, set ownerDeletes: Allow in spec.members of policy " + j.policy.Key.String()
	}
	result.Note = Note{Kind: Refused, Message: result.Message}
	if !in.DryRun && !in.OwnRequest && j.worthRequesting() && !slices.Contains(in.Self, in.User) {
		result.Actions = []Action{{
			Kind: Request, Policy: j.policy.Key, Pod: in.Pod.Key(), UID: in.Pod.UID, Requester: in.User,
			Why: in.User + " was refused and may ask again",
		}}
		result.Done = fmt.Sprintf("an EvictionRequest was created: Usher evicts the pod when it may go; it expires when %s has not retried for %d minutes "+
			"(usher evictions lists it, kubectl delete evictionrequest takes it back)", in.User, int(requestLife(slices.Contains(OwnerAccounts(), in.User)).Minutes()))
	}
	return result
}

// worthRequesting: a request for what can never be granted, or that its owner has stopped, would only stand around, and one
// that a policy takes back as it goes would be made and taken back at every try. No request takes a pod away that would be back at once, or that stays.
func (j *judgement) worthRequesting() bool {
	return j.role != nil && !j.loads() && !j.in.Pod.Mirror && !j.in.Pod.Owner.DaemonSet() && j.verdict.Answer != Never && !j.policy.Policy.suspended && !j.policy.Deleted && !j.in.Pod.Terminating()
}

func (j *judgement) refusal() AdmissionResult {
	return AdmissionResult{
		Code:       tooManyRequests,
		Message:    j.title() + " " + j.mayNot() + ": " + j.summary(),
		Causes:     j.causes(),
		RetryAfter: j.retryAfter(),
		Verdict:    j.verdict,
	}
}

func bestEffort(actions []Action) []Action {
	for i := range actions {
		actions[i].BestEffort = true
	}
	return actions
}
