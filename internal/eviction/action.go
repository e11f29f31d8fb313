package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Action is one thing to do. Those of one result are carried out in their order; when one is refused, the rest is dropped
// and everything is looked at again.
type Action struct {
	Kind   ActionKind
	Policy snapshot.Key
	// Version is the policy's resource version that was decided upon: a write of its status or its finalizers fails on another.
	Version string
	// Status is what Permit, Begin, Empty and Settle write into the policy's status: Epoch, Leaving, Emptied and Preparations of it
	// only, whole.
	Status *v1alpha1.EvictionPolicyStatus
	// Seen is what Settle writes with it of what is seen: everything else of the status. nil: nothing.
	Seen *v1alpha1.EvictionPolicyStatus
	// Step is what Prepare and Undo ask the system for.
	Step Preparation
	// Pod and UID are the pod that Evict, Request, Withdraw and Respond are about.
	Pod snapshot.Key
	UID types.UID
	// Grace is the grace period that Evict asks for, 0 for the pod's own.
	Grace time.Duration
	// Requester is the client that asks, for Request and Withdraw.
	Requester string
	// Report is what a responder says.
	Report Report
	// BestEffort: if it is refused, the rest is carried out all the same, unless a permit meets a conflict, or no policy.
	BestEffort bool
	// Left is what Settle crosses out although it stays in force at its system, and what a person can do about it. It is said
	// before the status is written: a process that ends in between says it again.
	Left []Leftover
	// Why is for people and logs.
	Why string
}

// Leftover is a step that is crossed out and stays in force at its system.
type Leftover struct {
	Step, Member string
	// Message says what stays, and what a person can do about it.
	Message string
}

// ActionKind says what an Action does.
type ActionKind string

// The kinds of action.
const (
	Permit   ActionKind = "permit"   // Status: write down that a member may go, before letting it
	Hold     ActionKind = "hold"     // Policy: its deletion waits from then on
	Begin    ActionKind = "begin"    // Status: write down a preparation, before asking for it
	Prepare  ActionKind = "prepare"  // Step: ask the system
	Undo     ActionKind = "undo"     // Step: ask the system to take it back
	Settle   ActionKind = "settle"   // Status: cross out what was seen done
	Empty    ActionKind = "empty"    // Status: write down that all that a pod carries has left, or is there again
	Evict    ActionKind = "evict"    // Pod, UID: the eviction API, with UID precondition
	Request  ActionKind = "request"  // Pod, UID, Requester: an EvictionRequest in the caller's name
	Withdraw ActionKind = "withdraw" // Pod, UID, Requester: that request's intent becomes Withdrawn
	Respond  ActionKind = "respond"  // Report: the responder's entry in the Eviction's status
)

// Report is what Usher as a responder says about an Eviction.
type Report struct {
	Message   string
	Expected  time.Time // when it is expected to be done; zero: not known
	Completed bool      // Usher's work is done, or it has none
}
