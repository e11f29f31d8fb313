package drain

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/internal/snapshot"
)

// SurgeMode says when replacements are started before pods are removed.
type SurgeMode string

// The surge modes.
const (
	SurgeAuto   SurgeMode = "auto"   // where a dead budget or a single replica would block or cause downtime
	SurgeNever  SurgeMode = "never"  // never
	SurgeAlways SurgeMode = "always" // wherever a Deployment can be scaled
)

// DaemonSetMode says what happens to DaemonSet pods.
type DaemonSetMode string

// The DaemonSet modes.
const (
	DaemonSetsObject DaemonSetMode = "object" // they are an objection to the drain
	DaemonSetsIgnore DaemonSetMode = "ignore" // they stay
	DaemonSetsEvict  DaemonSetMode = "evict"  // they leave after all others
)

// DeadlineMode says what happens to pods that are still held when the deadline is near.
type DeadlineMode string

// The deadline modes.
const (
	AtDeadlineStop   DeadlineMode = "stop"   // stop and report
	AtDeadlineDelete DeadlineMode = "delete" // delete past the budget, in safety order
)

// Request is what the operator asked for. It does not change during a drain.
type Request struct {
	Self  snapshot.Drainer // who drains; Beat is ignored
	Why   string           // written on the node
	Nodes []string         // in the order in which they are to be drained

	Force             bool
	DaemonSets        DaemonSetMode
	DeleteEmptyDir    bool
	PodSelector       labels.Selector // nil: every pod
	Grace             *time.Duration  // nil: each pod's own; 0: at once
	DisableEviction   bool            // delete instead of evicting: no budget is asked
	SkipDeletedBefore time.Duration   // pods whose deletion is older are not waited for; 0: all are

	Surge       SurgeMode
	MaxParallel int // nodes at once; 0: no limit
	MaxZones    int // zones that may have nodes draining at once; 0: no limit

	// Beside are nodes whose drains, of their own, began together with this one: their cordons are awaited for a while before anything leaves.
	Beside []string

	Started    time.Time
	Deadline   time.Time // zero: none
	AtDeadline DeadlineMode
	NodeGoes   bool // the node goes at the deadline, whatever is left on it

	// Persistent: where only what cannot clear by itself is left, the drain goes on and waits for somebody to clear it.
	Persistent        bool
	UncordonOnFailure bool
	WaitReplaced      bool // not done before every evicted pod has a ready replacement
	Forecast          bool // gives no signs of life: no other drain competes with it, and only it knows pods created after Started

	Dead map[string]bool // ids of drains that are known to have ended without tidying up
}
