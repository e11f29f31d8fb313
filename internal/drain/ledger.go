package drain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// Ledger is what this process has asked of the cluster and what it was told. It
// holds nothing that a restarted drain could not find out again by asking. It is
// not safe for concurrent use.
type Ledger struct {
	Ending Outcome // set once by End; from then on Decide only tidies up

	tries      map[tryKey]*try
	departures map[types.UID]*departure
	since      map[sinceKey]time.Time
	deaf       map[types.UID]string // workloads that may not or cannot be surged, and why
}

type tryKey struct {
	kind   Kind
	target types.UID
}

type try struct {
	action  Action
	sent    time.Time
	done    time.Time // zero while in flight
	answer  Answer
	count   int
	retryAt time.Time
	budget  types.UID // evictions: the budget that it used
	version string    // of that budget when it was decided upon
}

type departure struct {
	pod  *snapshot.Pod
	at   time.Time // accepted
	gone time.Time // seen gone; zero until then
}

type sinceKey struct {
	pod    snapshot.Key
	node   string
	reason Reason
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		tries:      map[tryKey]*try{},
		departures: map[types.UID]*departure{},
		since:      map[sinceKey]time.Time{},
		deaf:       map[types.UID]string{},
	}
}
