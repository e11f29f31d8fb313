package nodepressure

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is what the kubelet remembers from one look at its node to the next. The zero value is a kubelet that has just
// started.
type State struct {
	// FirstMet is since when a threshold is met; Due are those whose grace had passed at the last look.
	FirstMet map[string]time.Time `json:"firstMet,omitempty"`
	Due      []string             `json:"due,omitempty"`
	// Conditions is when each condition was last true.
	Conditions map[corev1.NodeConditionType]time.Time `json:"conditions,omitempty"`
	// Readings is when what was read of each signal at the last look was measured.
	Readings map[Signal]time.Time `json:"readings,omitempty"`
}

// Input is one look at a node.
type Input struct {
	Now        time.Time
	Node       Node
	Pods       []Pod
	Thresholds []Threshold
	Config     Config
	// Order is OrderKubelet where it is empty.
	Order Order
}

// Output is what follows from one look.
type Output struct {
	// Conditions are those that the node reports, sorted.
	Conditions []corev1.NodeConditionType
	// Taints are those that the conditions bring.
	Taints []corev1.Taint
	// Met are the thresholds that are below their value now or have not yet come far enough above it, whether their grace
	// has passed or not.
	Met []Threshold
	// Due are the thresholds that call for a victim now; the first is the one that is acted upon.
	Due []Threshold
	// Reclaim is what the kubelet clears away first; if the node is Cleared then, no pod is evicted.
	Reclaim []Reclaim
	// Ranking is the order for the first of Due.
	Ranking []Ranked
	// Victim is nil where no pod is evicted.
	Victim *Victim
	// Skipped are signals with a threshold on which nothing was decided.
	Skipped []Skipped
}

// Reclaim is something that a node clears away before it evicts.
type Reclaim string

// What is cleared away.
const (
	DeadContainers Reclaim = "dead containers"
	UnusedImages   Reclaim = "unused images"
)

// Victim is the pod that is evicted.
type Victim struct {
	Pod       Pod
	Grace     time.Duration // at least 1 s
	Threshold Threshold
	Message   string
}

// Step is one look of the kubelet: the state after it and what follows. The state given is not changed. There is never
// more than one victim, and none on a reading that was acted upon before.
func (s State) Step(in Input) (State, Output) {
	thresholds := ForLayout(in.Thresholds, in.Node.Layout)
	var out Output
	for _, t := range thresholds {
		if r, found := in.Node.Readings[t.Signal]; found && (t.Met(r) || slices.Contains(s.Due, t.key()) && t.MetWithReclaim(r)) {
			out.Met = append(out.Met, t)
		}
	}
	next := State{FirstMet: map[string]time.Time{}, Readings: map[Signal]time.Time{}}
	next.Conditions, out.Conditions = s.conditions(in, out.Met)
	out.Taints = taintsOf(out.Conditions)
	var passed []Threshold
	for _, t := range out.Met {
		since, found := s.FirstMet[t.key()]
		if !found {
			since = in.Now
		}
		next.FirstMet[t.key()] = since
		if in.Now.Sub(since) >= t.Grace {
			next.Due = append(next.Due, t.key())
			passed = append(passed, t)
		}
	}
	for signal, r := range in.Node.Readings {
		next.Readings[signal] = r.At
	}
	out.Skipped = missing(thresholds, in.Node)
	out.Due, out.Skipped = s.fresh(passed, in.Node, out.Skipped)
	if len(out.Due) > 0 {
		sortDue(out.Due)
		in.choose(&out)
	}
	return next, out
}

// conditions returns when each condition was last true and which are reported: those that are true now or were within the
// transition period.
func (s State) conditions(in Input, met []Threshold) (map[corev1.NodeConditionType]time.Time, []corev1.NodeConditionType) {
	seen := map[corev1.NodeConditionType]time.Time{}
	maps.Copy(seen, s.Conditions)
	for _, t := range met {
		seen[t.Signal.Condition()] = in.Now
	}
	transition := in.Config.withDefaults().EvictionPressureTransitionPeriod.Duration
	var reported []corev1.NodeConditionType
	for _, c := range slices.Sorted(maps.Keys(seen)) {
		if in.Now.Sub(seen[c]) < transition {
			reported = append(reported, c)
		}
	}
	return seen, reported
}

// fresh leaves out the thresholds whose reading is the one that was seen before, and says so.
func (s State) fresh(thresholds []Threshold, node Node, skipped []Skipped) ([]Threshold, []Skipped) {
	var out []Threshold
	for _, t := range thresholds {
		at := node.Readings[t.Signal].At
		last, found := s.Readings[t.Signal]
		if found && !at.IsZero() && !at.After(last) {
			skipped = append(skipped, Skipped{Signal: t.Signal, Reason: SkipStale, Message: staleMessage(t.Signal)})
			continue
		}
		out = append(out, t)
	}
	return out, skipped
}

// sortDue puts memory first, as the kubelet does, then what is hard.
func sortDue(due []Threshold) {
	slices.SortStableFunc(due, func(a, b Threshold) int {
		return cmp.Or(
			first(a.Signal.Resource() == resourceMemory, b.Signal.Resource() == resourceMemory),
			first(a.Hard(), b.Hard()),
			cmp.Compare(a.Signal.place(), b.Signal.place()),
		)
	})
}

// choose ranks the pods for what is due first and takes the first that is not exempt.
func (in Input) choose(out *Output) {
	t := out.Due[0]
	order := cmp.Or(in.Order, OrderKubelet)
	out.Reclaim = reclaimFirst(t.Signal, in.Node.Layout)
	out.Ranking = rankAt(order, t, in.Node, in.Pods)
	for i := range out.Ranking {
		if r := &out.Ranking[i]; r.Exempt == "" {
			out.Victim = &Victim{
				Pod: r.Pod, Threshold: t, Grace: in.Config.graceAt(t, r.Pod.evictionGrace()),
				Message: message(t.Signal, out.Due, in.Node, &r.Pod),
			}
			return
		}
	}
}

// leastGrace is the shortest grace that a pod is given: with 0 it would be taken off the books while it runs.
const leastGrace = time.Second

// graceAt is how long a pod may take to shut down: at a soft threshold its own grace, but not longer than configured.
func (c Config) graceAt(t Threshold, own time.Duration) time.Duration {
	switch longest := time.Duration(c.EvictionMaxPodGracePeriod) * time.Second; {
	case t.Hard():
		return leastGrace
	case longest < 0:
		return max(own, leastGrace)
	default:
		return max(min(own, longest), leastGrace)
	}
}

// taintsOf returns the taints that the control plane puts on a node for its conditions.
func taintsOf(conditions []corev1.NodeConditionType) []corev1.Taint {
	keys := map[corev1.NodeConditionType]string{
		corev1.NodeMemoryPressure: corev1.TaintNodeMemoryPressure,
		corev1.NodeDiskPressure:   corev1.TaintNodeDiskPressure,
		corev1.NodePIDPressure:    corev1.TaintNodePIDPressure,
	}
	var out []corev1.Taint
	for _, c := range conditions {
		out = append(out, corev1.Taint{Key: keys[c], Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}
