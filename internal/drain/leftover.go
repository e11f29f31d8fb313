package drain

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/snapshot"
)

// Leftover is one thing that a drain which ended without tidying up has left.
type Leftover struct {
	What   string // a sentence without its end
	Remedy string // the command that undoes it
}

// Remains lists what killed drains have left, for commands that only read. Drains that may
// still be alive have left nothing. Cordons come first: what tenants can write, the marks on their
// workloads and pods, does not hide them in a list that is cut.
func Remains(view snapshot.View, dead map[string]bool) []Leftover {
	d := newDecider(view, Request{Dead: dead}, NewLedger(), true)
	all := append(d.cordonsLeft(), d.surgesLeft()...)
	all = append(all, d.minimumsLeft()...)
	all = append(all, d.costsLeft()...)
	return append(all, d.requestsLeft()...)
}

func (d *decider) surgesLeft() []Leftover {
	var all []Leftover
	for _, w := range d.Cluster.Surged() {
		if w.Surge == nil || !d.ended(w.Surge.Drainer) {
			continue
		}
		what := fmt.Sprintf("%s %s is still scaled to %d (it was %d)", w.Kind, w.Key(), w.Replicas, w.Surge.Was)
		if w.Replicas != w.Surge.To {
			what = fmt.Sprintf("%s %s still has the record of a surge, and was scaled to %d since", w.Kind, w.Key(), w.Replicas)
		}
		all = append(all, Leftover{what, revert})
	}
	return all
}

func (d *decider) minimumsLeft() []Leftover {
	var all []Leftover
	for _, a := range d.Cluster.SurgedAutoscalers() {
		if a.Surge != nil && d.ended(a.Surge.Drainer) {
			all = append(all, Leftover{fmt.Sprintf("HorizontalPodAutoscaler %s still has minReplicas %d (it was %d)", a.Key(), a.Min, a.Surge.Was), revert})
		}
	}
	return all
}

func (d *decider) costsLeft() []Leftover {
	var all []Leftover
	for _, p := range d.Cluster.MarkedPods() {
		if id, _, _ := strings.Cut(p.CostMark, "="); !p.Terminating() && d.ended(snapshot.Drainer{ID: id}) {
			what := fmt.Sprintf("pod %s still has the lowest deletion cost", p.Key())
			if p.DeletionCost != snapshot.LowestCost {
				what = fmt.Sprintf("pod %s still has the mark of a surge", p.Key())
			}
			all = append(all, Leftover{what, revert})
		}
	}
	return all
}

func (d *decider) requestsLeft() []Leftover {
	var all []Leftover
	for _, r := range d.Cluster.Requests() {
		if who, drains := r.Drainer(); drains && !r.Deleted && d.ended(who) && !d.outlives(r, who) {
			all = append(all, Leftover{fmt.Sprintf("the request %s/%s still asks for the eviction of its pod", r.Namespace, r.Name), revert})
		}
	}
	return all
}

func (d *decider) cordonsLeft() []Leftover {
	var all []Leftover
	for _, n := range d.Cluster.Nodes() {
		if n.Drain != nil && n.Unschedulable && n.Drain.Working() && !d.mayRun(n.Drain.Drainer) {
			all = append(all, Leftover{fmt.Sprintf("node %s is still cordoned for a drain of %s", n.Name, n.Drain.By), "usher uncordon " + n.Name})
		}
	}
	return all
}
