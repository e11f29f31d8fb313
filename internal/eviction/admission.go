package eviction

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verb is what a caller wants to do to a pod.
type Verb string

// The verbs.
const (
	VerbEvict  Verb = "evict"  // CREATE of pods/eviction
	VerbDelete Verb = "delete" // DELETE of pods
)

// AdmissionInput is a caller's wish beside the facts for a verdict.
type AdmissionInput struct {
	Input
	Verb   Verb
	User   string
	Groups []string
	DryRun bool
	// Ask is the value of AskAnnotation on the Eviction.
	Ask string
	// Grace is the grace period that the caller asked for, nil for the pod's own.
	Grace *int64
	// NamespaceEnding says that the namespace is being deleted.
	NamespaceEnding bool
	// Self are the users that Usher's own processes are: no EvictionRequest is made in their names.
	Self []string
}

// AdmissionResult is the answer. Its actions are carried out before the answer is given; when one is refused that is not
// BestEffort, everything is looked at again, and if time does not allow that, the answer is a refusal.
type AdmissionResult struct {
	Allow bool
	// Code is the HTTP status of a refusal: 429.
	Code int32
	// Message, Causes and RetryAfter go into the refusal's status.
	Message    string
	Causes     []metav1.StatusCause
	RetryAfter time.Duration
	// Warnings go to the caller of what is allowed.
	Warnings []string
	Actions  []Action
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
	Asked          NoteKind = "Asked"          // the verdict was asked for
	LetThrough     NoteKind = "LetThrough"     // the verdict allows it
	Refused        NoteKind = "Refused"        // the verdict does not
	BrokenGlass    NoteKind = "BrokenGlass"    // let through against the verdict, by the pod's annotation
	AlreadyLeaving NoteKind = "AlreadyLeaving" // it is terminating already
	ByOwner        NoteKind = "ByOwner"        // the pod's own controller
	ByGarbage      NoteKind = "ByGarbage"      // garbage collection of pods or owners
	ByNamespace    NoteKind = "ByNamespace"    // its namespace goes
	ByKubelet      NoteKind = "ByKubelet"      // the kubelet of its node
	DeleteIsFree   NoteKind = "DeleteIsFree"   // the policy says that a DELETE does not concern it
)

// Admit answers a caller.
func Admit(in AdmissionInput) AdmissionResult { return AdmissionResult{Code: 429} }
