package drain

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/snapshot"
)

// Leftover is one thing that a drain which ended without tidying up has left.
type Leftover struct {
	What   string // a sentence without its end
	WayOut string // the command that undoes it
}

// Remains lists what killed drains have left, for those who may only look. Drains that may
// still be alive have left nothing.
func Remains(view snapshot.View, dead map[string]bool) []Leftover {
	d := newDecider(view, Request{Dead: dead}, NewLedger(), true)
	var all []Leftover
	note := func(wayOut, what string, args ...any) {
		all = append(all, Leftover{What: fmt.Sprintf(what, args...), WayOut: wayOut})
	}
	for _, w := range d.Cluster.Surged() {
		switch {
		case w.Surge == nil || !d.ended(w.Surge.Drainer):
		case w.Replicas == w.Surge.To:
			note(revert, "%s %s is still scaled to %d (it was %d)", w.Kind, w.Key(), w.Replicas, w.Surge.Was)
		default:
			note(revert, "%s %s still has the record of a surge, and was scaled to %d since", w.Kind, w.Key(), w.Replicas)
		}
	}
	for _, a := range d.Cluster.SurgedAutoscalers() {
		if a.Surge != nil && d.ended(a.Surge.Drainer) {
			note(revert, "HorizontalPodAutoscaler %s still has minReplicas %d (it was %d)", a.Key(), a.Min, a.Surge.Was)
		}
	}
	for _, p := range d.Cluster.MarkedPods() {
		if id, _, _ := strings.Cut(p.CostMark, "="); !p.Terminating() && d.ended(snapshot.Drainer{ID: id}) {
			note(revert, "pod %s still has the lowest deletion cost", p.Key())
		}
	}
	for _, r := range d.Cluster.Requests() {
		if who, drains := r.Drainer(); drains && d.ended(who) {
			note(revert, "the request %s/%s still asks for the eviction of its pod", r.Namespace, r.Name)
		}
	}
	for _, n := range d.Cluster.Nodes() {
		if n.Drain != nil && n.Unschedulable && working(n.Drain) && !alive(n.Drain.Drainer, d.Now, dead) {
			note("usher uncordon "+n.Name, "node %s is still cordoned for a drain of %s", n.Name, n.Drain.By)
		}
	}
	return all
}
