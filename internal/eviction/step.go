package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ResponderInput is what is known of somebody's wish that a governed pod goes.
type ResponderInput struct {
	Input
	// Wanted: an EvictionRequest with intent Eviction is there for the pod (by UID).
	Wanted bool
	// Active: it is Usher's turn in the Eviction. If it is not, Usher prepares, but neither evicts nor tells.
	Active bool
	// Heard is what the system said to the last call for each step of this pod's member, in this process.
	Heard []Heard
}

// Heard is a system's answer to a Prepare or an Undo. One that was given to an earlier call does not count.
type Heard struct {
	Step     Preparation // of the action
	Undo     bool
	Error    string // "": it was taken
	Terminal bool   // asking again will not help
	Done     bool   // Undo: there is nothing left to undo
}

// StepResult is what to do now.
type StepResult struct {
	Verdict Verdict
	Actions []Action
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
}

// Step says what Usher as a responder does for one pod.
func Step(in ResponderInput) StepResult { return StepResult{} }

// CrossOut takes back the permit of a pod whose eviction was refused to Usher itself: nothing of it is under way any more.
// It returns false if there is none.
func CrossOut(policy Declared, uid types.UID) (Action, bool) { return Action{}, false }
