package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// TidyInput is what is known when a policy's status is put in order.
type TidyInput struct {
	Now    time.Time
	Policy Declared
	// Pods are all pods of the namespace.
	Pods []*snapshot.Pod
	// Sights are what live GETs said of the pods that a former result asked to Confirm. They must be younger than the
	// version of Policy's status.
	Sights map[types.UID]Sight
	// Wanted are the pods, by UID, with a live EvictionRequest. WantedKnown is false while requests cannot be listed:
	// then nothing is undone and nothing withdrawn.
	Wanted      map[types.UID]bool
	WantedKnown bool
	// Requests are those that admission made.
	Requests []AdmissionRequest
	// Heard is what the system said to the last Undo of each step, in this process.
	Heard []Heard
}

// Doubt is a pod of which the cache is not believed.
type Doubt struct {
	Pod snapshot.Key
	UID types.UID
}

// Sight is what a live GET says of a pod.
type Sight string

// What can be seen.
const (
	SeenGone        Sight = "Gone" // 404, or another UID under its name
	SeenTerminating Sight = "Terminating"
	SeenStaying     Sight = "Staying"
)

// AdmissionRequest is an EvictionRequest that admission made in a caller's name.
type AdmissionRequest struct {
	Pod       snapshot.Key
	UID       types.UID
	Requester string
	Asked     time.Time // when the caller asked last
	// Held: what made the caller ask stands still, and it will not ask again: a NoExecute taint on the pod's node.
	Held bool
}

// TidyResult is what to do now.
type TidyResult struct {
	Actions []Action
	// Confirm are the pods to GET live, after which Tidy is called again with Sights.
	Confirm []Doubt
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
}

// Tidy puts a policy's status in order.
func Tidy(in TidyInput) TidyResult { return TidyResult{} }
