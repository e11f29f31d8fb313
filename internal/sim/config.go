package sim

import (
	"math/rand/v2"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Delay says how long something takes for a pod. It may draw from dice.
type Delay func(p *snapshot.Pod, dice *rand.Rand) time.Duration

// Config says how the simulated cluster behaves. The zero value is a cluster in
// which everything happens at once and nothing goes wrong.
type Config struct {
	Seed uint64
	Tick time.Duration // what takes time falls on whole ticks; 0: exact

	Schedule Delay // from creation to the first try of the scheduler
	Boot     Delay // from binding to running
	Ready    Delay // from running to ready
	Stop     Delay // from deletion to gone, cut to the grace

	Controllers time.Duration // how late controllers of pods react
	Budgets     time.Duration // how late the disruption controller reacts
	Scaler      time.Duration // period of the HorizontalPodAutoscaler
	ScaleDown   time.Duration // its stabilisation window
	Detach      time.Duration // from a pod gone to its volumes detached
	PodGC       time.Duration // from a node deleted to its pods deleted
	Respond     Delay         // from an EvictionRequest to the first eviction of a governed pod
	// Expire: the manager withdraws what a drain asked for that has ended, of pods that stay.
	Expire bool

	Lag    Lag
	Faults Faults

	HoldLimits map[string]snapshot.HoldLimit // how long budgets may hold a maintenance, by namespace

	Binds func(*snapshot.Pod) string // the node that the pod's template names; nil, "": the scheduler finds one

	Judge *drain.Request // whose actions Violations judges; nil: none
}

// Lag is by how much what is seen may be behind what is true: each observation
// waits for a drawn time up to it. Kinds have watches of their own, so observations
// of two kinds may change their order, those of one kind never do.
type Lag struct {
	Pods, Nodes, Budgets, Workloads, Requests, Leases time.Duration
}

// Faults is what goes wrong. Shares are between 0 and 1.
type Faults struct {
	LostAnswers float64 // share of writes that are carried out, but answered Unavailable
	Outages     float64 // share of writes that are not carried out and answered Unavailable
	Conflicts   float64 // share of writes that are answered Conflict and not carried out

	Deny       func(*snapshot.Pod) string // text with which a webhook denies to remove a pod; "" lets it through
	NoScale    bool                       // the caller may not scale
	NoCost     bool                       // the caller may not change pods
	NoLease    bool                       // the caller may not write Leases
	KeepsAll   bool                       // controllers that are scaled down remove no pods
	NeverReady func(*snapshot.Pod) bool   // the pod never becomes ready
	Stuck      func(*snapshot.Pod) bool   // the pod's finalizers are never removed
}

func (s *Sim) takes(delay Delay, p *snapshot.Pod) time.Duration {
	if delay == nil {
		return 0
	}
	return max(0, delay(p, s.dice))
}

func (s *Sim) chance(share float64) bool {
	return share > 0 && s.dice.Float64() < share
}
