// Package forecast answers: which pod goes first on a node, whatever it runs short of, and what is due as things stand?
//
// It decides nothing of its own: each answer is what nodepressure.Step does once the signal in question has fallen.
package forecast

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/nodepressure"
)

// Input is one look at a node.
type Input struct {
	Now    time.Time
	Node   nodepressure.Node
	Pods   []nodepressure.Pod
	Config nodepressure.Config
	Order  nodepressure.Order
	// OOMTable is OOM137 where it is empty.
	OOMTable nodepressure.OOMTable
	// About are the signals that the question is about, of which one becomes the focus; none: all.
	About []nodepressure.Signal
}

// Forecast is which pod goes first.
type Forecast struct {
	Order nodepressure.Order
	// Signals are those that were measured or that have a configured threshold, memory first.
	Signals []Signal
	// Focus is the signal that is furthest below a threshold or nearest to one; nil where nothing was measured.
	Focus *Signal
	// Ranking is the order in which pods go when Focus is short.
	Ranking []nodepressure.Ranked
	// Conditions and Taints are those that the readings bring, whatever the node itself reports.
	Conditions []corev1.NodeConditionType
	Taints     []corev1.Taint
	// Skipped are signals with a threshold on which nothing can be decided.
	Skipped []nodepressure.Skipped
	// OOM is the order in which the kernel would take containers when the memory that OOMWithin is about is used up.
	OOM       []nodepressure.OOM
	OOMTable  nodepressure.OOMTable
	OOMWithin nodepressure.Signal
}

// Signal is how a node stands with something it can run short of.
type Signal struct {
	Name nodepressure.Signal
	// Reading is nil where it was not measured.
	Reading *nodepressure.Reading
	// Levels are its thresholds, the hard one first.
	Levels []Level
}

// Level is how a signal stands with one of its thresholds.
type Level struct {
	Threshold nodepressure.Threshold
	// Limit is the threshold in the signal's unit.
	Limit int64
	// Headroom is by how much the signal is above it; below 0, the threshold is met.
	Headroom int64
	// First is the pod that goes once the threshold is met and its grace has passed; nil: no pod may be evicted.
	First *First
	// Reclaim is what the kubelet clears away before, which may make the eviction needless.
	Reclaim []nodepressure.Reclaim

	ranking []nodepressure.Ranked // once the threshold is met
}

// First is the pod that goes first.
type First struct {
	Pod nodepressure.Pod
	// Grace is how long it gets to shut down, at least 1 s.
	Grace time.Duration
	// Why is what puts it before the next one, a clause for people.
	Why string
}

// Met reports whether the signal is below the threshold now.
func (l Level) Met() bool { return l.Headroom < 0 }

// Of makes the forecast. The error is that of the thresholds.
func Of(in Input) (Forecast, error) {
	thresholds, err := in.Config.Thresholds()
	if err != nil {
		return Forecast{}, fmt.Errorf("reading the thresholds: %w", err)
	}
	_, now := nodepressure.State{}.Step(in.step(in.Now, in.Node, thresholds))
	f := Forecast{
		Order: in.Order, Signals: in.signals(thresholds), Conditions: now.Conditions, Taints: now.Taints,
		Skipped: now.Skipped, OOMTable: cmp.Or(in.OOMTable, nodepressure.OOM137), OOMWithin: nodepressure.OOMWithin(in.Node),
	}
	f.OOM = nodepressure.OOMScores(f.OOMTable, in.Node, scored(in.Pods))
	if f.Focus = focus(f.Signals, in.About); f.Focus != nil {
		if f.Ranking = f.Focus.ranking(); f.Ranking == nil {
			f.Ranking = nodepressure.Rank(in.Order, f.Focus.Name, in.Node, in.Pods)
		}
	}
	return f, nil
}

func (in Input) step(now time.Time, node nodepressure.Node, thresholds []nodepressure.Threshold) nodepressure.Input {
	return nodepressure.Input{Now: now, Node: node, Pods: in.Pods, Thresholds: thresholds, Config: in.Config, Order: in.Order}
}

func (in Input) signals(thresholds []nodepressure.Threshold) []Signal {
	var found []Signal
	for _, name := range nodepressure.Signals() {
		s := Signal{Name: name}
		if reading, measured := in.Node.Readings[name]; measured {
			s.Reading = &reading
		}
		for _, t := range nodepressure.ForLayout(thresholds, in.Node.Layout) {
			if t.Signal == name {
				s.Levels = append(s.Levels, in.level(thresholds, t, s.Reading))
			}
		}
		if s.Reading != nil || (len(s.Levels) > 0 && !derived(name)) {
			found = append(found, s)
		}
	}
	return found
}

// derived reports whether thresholds of a signal follow from those of another one: it may have no readings.
func derived(s nodepressure.Signal) bool {
	return s == nodepressure.AllocatableMemoryAvailable || s == nodepressure.ContainerFsAvailable || s == nodepressure.ContainerFsInodesFree
}

func (in Input) level(all []nodepressure.Threshold, t nodepressure.Threshold, r *nodepressure.Reading) Level {
	l := Level{Threshold: t}
	if r == nil {
		return l
	}
	l.Limit = t.Below.Of(r.Capacity)
	l.Headroom = r.Available - l.Limit
	out := in.fallen(all, t, nodepressure.Reading{Available: min(r.Available, l.Limit-1), Capacity: r.Capacity})
	l.Reclaim, l.ranking = out.Reclaim, out.Ranking
	if out.Victim != nil {
		l.First = &First{Pod: out.Victim.Pod, Grace: out.Victim.Grace, Why: reason(out)}
	}
	return l
}

// reason is what puts the victim before the next pod.
func reason(out nodepressure.Output) string {
	for i := range out.Ranking {
		if out.Ranking[i].Pod.UID == out.Victim.Pod.UID {
			return out.Ranking[i].Why
		}
	}
	return ""
}

// fallen is what is done when one signal reads so from now until the grace of a threshold has passed, and nothing is
// known of the others.
func (in Input) fallen(all []nodepressure.Threshold, t nodepressure.Threshold, r nodepressure.Reading) nodepressure.Output {
	var state nodepressure.State
	var out nodepressure.Output
	for _, after := range moments(t) {
		now := in.Now.Add(after)
		r.At = now
		node := in.Node
		node.Readings = map[nodepressure.Signal]nodepressure.Reading{t.Signal: r}
		state, out = state.Step(in.step(now, node, all))
	}
	return out
}

// moments are when to look for a threshold to be met and then due.
func moments(t nodepressure.Threshold) []time.Duration {
	if t.Hard() {
		return []time.Duration{0}
	}
	return []time.Duration{0, t.Grace}
}

// scored leaves out pods of which only the use is known: without requests there is no score.
func scored(pods []nodepressure.Pod) []nodepressure.Pod {
	var found []nodepressure.Pod
	for i := range pods {
		if pods[i].QoS != "" {
			found = append(found, pods[i])
		}
	}
	return found
}
