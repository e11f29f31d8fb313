package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// finish writes the plan once the cluster has come to rest.
func (f *forecast) finish() Plan {
	p := Plan{
		Outcome: cmp.Or(f.end.Outcome, Waiting), Duration: f.log.ended, Tick: f.sim.cfg.Tick,
		Steps: f.log.steps, Waves: f.log.waves(f.sim.cfg.Tick),
		Budgets: f.log.budgets(), Surges: f.log.surgeList(),
		Blockers: f.end.Blockers(), Notes: append(f.end.Notes, f.returned()...),
		Unknown: f.unknown(), Pods: f.gone(), Requests: f.log.writes,
	}
	for i := range p.Steps {
		slices.SortFunc(p.Steps[i].Pods, snapshot.ComparePods)
		slices.Sort(p.Steps[i].Nodes)
	}
	p.Left = append(f.stillThere(), f.homeless()...)
	p.Recovered = f.recovered()
	return p
}

// stillThere lists the pods that should have left.
func (f *forecast) stillThere() []Left {
	var left []Left
	for i := range f.end.Pods {
		s := &f.end.Pods[i]
		if s.State == drain.Staying || s.State == drain.Emptied || s.State == drain.GoneState || s.State == drain.Replaced || s.State == drain.Ended {
			continue
		}
		var why []string
		for _, b := range s.Blockers {
			why = append(why, b.Message)
		}
		left = append(left, Left{Pod: s.Pod, Node: s.Pod.Node, Why: strings.Join(why, "; ")})
	}
	return left
}

// returned says whose pods come back to the nodes of the drain and stay there.
func (f *forecast) returned() []string {
	var notes []string
	for i := range f.end.Pods {
		s := &f.end.Pods[i]
		if p := s.Pod; s.State == drain.Staying && !p.Owner.DaemonSet() && f.learn.cluster.Pod(p.UID) == nil {
			notes = append(notes, fmt.Sprintf("a pod of %s %s/%s has come back to node %s in place of one that left: %s", p.Owner.Kind, p.Namespace, p.Owner.Name, p.Node, s.Note))
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// gone counts the pods of the drain that were on the nodes and are no more.
func (f *forecast) gone() int {
	n := 0
	for _, name := range f.req.Nodes {
		for _, p := range f.learn.cluster.PodsOn(name) {
			if f.sim.truth.Pod(p.UID) == nil && !f.excluded[p.UID] {
				n++
			}
		}
	}
	return n
}

// homeless lists the replacements for which no node has room.
func (f *forecast) homeless() []Left {
	var left []Left
	for _, uid := range f.sim.scheduler.queue {
		if p := f.sim.truth.Pod(uid); p != nil && p.Node == "" && p.Created.After(f.sim.start.Add(-time.Nanosecond)) {
			left = append(left, Left{Pod: p, Why: p.NotReadyWhy})
		}
	}
	slices.SortFunc(left, func(a, b Left) int { return snapshot.ComparePods(a.Pod, b.Pod) })
	return left
}

// recovered returns when the last pod became ready that was started meanwhile.
func (f *forecast) recovered() time.Duration {
	last := f.log.ended
	for _, c := range f.sim.controllers {
		for _, p := range f.sim.truth.PodsOf(c.key()) {
			if p.Ready {
				last = max(last, p.ReadySince.Sub(f.sim.start))
			}
		}
	}
	return last
}

// finalized names the pods of the drain that were terminating already, and what may hold
// them once their containers have ended.
func (f *forecast) finalized() []string {
	var held []string
	for _, name := range f.req.Nodes {
		for _, p := range f.learn.cluster.PodsOn(name) {
			if p.Terminating() && p.Deletion.After(f.sim.start) && len(p.Finalizers) > 0 && !f.excluded[p.UID] {
				held = append(held, p.Key().String()+" ("+strings.Join(p.Finalizers, ", ")+")")
			}
		}
	}
	return held
}

func (f *forecast) unknown() []string {
	said := f.learn.unknown()
	if n := f.log.asked(); n > 0 {
		said = append(said, fmt.Sprintf("that governed pods (%d) may go when they are asked to: no system was asked; usher why POD asks its own", n))
	}
	if held := f.finalized(); len(held) > 0 {
		said = append(said, "that finalizers are removed when the containers have ended: "+strings.Join(held, "; "))
	}
	if f.end.Outcome == drain.Running {
		said = append(said, "when it ends: it waits for what its blockers say")
	}
	return said
}
