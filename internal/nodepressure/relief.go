package nodepressure

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Requester is the name under which EvictionRequests are made on account of pressure.
const Requester = "pressure.usher.sh"

// Relief is what the agent remembers from one look at its node to the next. The zero value is an agent that has just
// started. It is changed by Next alone and can be kept as JSON.
//
// It has a clock of its own, by which all its times are measured: it runs with Now, but never backwards and never by more than
// 15 seconds from one look to the next. A clock that jumps, or an agent that was stopped, therefore counts for 15 seconds of
// a grace period, a pause or a refusal at most. Nows with a monotonic reading do not jump at all.
type Relief struct {
	Clock time.Duration `json:"clock"`
	Last  time.Time     `json:"last,omitzero"`
	// Breaches are the thresholds that are met.
	Breaches map[string]Breach `json:"breaches,omitempty"`
	// Conditions is when each condition was last true; Said are those that were said last.
	Conditions map[corev1.NodeConditionType]time.Duration `json:"conditions,omitempty"`
	Said       []corev1.NodeConditionType                 `json:"said,omitempty"`
	// Acts are what was done to pods and has not shown its effect.
	Acts []Act `json:"acts,omitempty"`
	// Departures is since when a pod is seen leaving.
	Departures map[types.UID]time.Duration `json:"departures,omitempty"`
	// Holds are refusals that stand.
	Holds map[types.UID]Hold `json:"holds,omitempty"`
	// Requested is the governed pod that is being prepared on account of pressure.
	Requested *Requested `json:"requested,omitempty"`
	// Pause is until when nothing is done after a kill.
	Pause time.Duration `json:"pause,omitempty"`
}

// Breach is a threshold that is met.
type Breach struct {
	// Held is how long it is met, as far as that was seen; Seen is when the latest reading was, At that reading's own time.
	Held time.Duration `json:"held"`
	Seen time.Duration `json:"seen"`
	At   time.Time     `json:"at"`
	// Due: its grace had passed, so its minimum reclaim counts.
	Due bool `json:"due,omitempty"`
}

// Act is something that was done to a pod.
type Act struct {
	UID       types.UID  `json:"uid"`
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Signal    Signal     `json:"signal"`
	Kind      ActionKind `json:"kind"`
	// Asked is when, AskedAt the same on the clock of readings.
	Asked   time.Duration `json:"asked"`
	AskedAt time.Time     `json:"askedAt"`
	Grace   time.Duration `json:"grace"`
	// Used is what the pod used, Available what was available.
	Used      int64 `json:"used"`
	Available int64 `json:"available"`
	// Gone: it was seen gone, at that time.
	Gone   bool          `json:"gone,omitempty"`
	Ended  time.Duration `json:"ended,omitempty"`
	GoneAt time.Time     `json:"goneAt,omitzero"`
}

func (a *Act) local() bool { return a.Kind == KillLocally }
func (a *Act) key() string { return a.Namespace + "/" + a.Name }

// Hold is a refusal that stands until a time.
type Hold struct {
	At      time.Time     `json:"at"`
	Until   time.Duration `json:"until"`
	Message string        `json:"message"`
	// Forced: it was refused although it was not asked for leave, so that no last resort is left.
	Forced bool `json:"forced,omitempty"`
}

// Requested is a pod for which an EvictionRequest was made.
type Requested struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Withdrawn: its withdrawal was begun; until that is confirmed or refused, no other pod's preparation is asked for.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

func (r Relief) clone() Relief {
	r.Breaches = cloneMap(r.Breaches)
	r.Conditions = cloneMap(r.Conditions)
	r.Departures = cloneMap(r.Departures)
	r.Holds = cloneMap(r.Holds)
	r.Acts = slices.Clone(r.Acts)
	r.Said = slices.Clone(r.Said)
	return r
}

func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	maps.Copy(out, m)
	return out
}
