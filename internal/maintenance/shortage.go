package maintenance

import (
	"fmt"
	"maps"
	"slices"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/text"
)

// shortage is why a node is not begun: a limit of concurrency, or a status that has no room for another entry.
type shortage struct {
	node  string
	limit *work // nil: its own maintenance's status is full
}

// lack notes of maintenances what a node of theirs waits for. The first one counts.
func (s shortage) lack(waiting []*work) {
	for _, w := range waiting {
		if w.lacks == nil {
			w.lacks = &s
		}
	}
}

// holders are the nodes that are out of service, in words.
type holders struct {
	words string
	stuck bool   // none of them comes back by itself
	by    string // a maintenance that has one of those that do not, "" where none has
}

// holdersOf says whose the nodes are that are out of service, those first that do not come back by themselves. A maintenance that keeps a drained node
// is none of those that have it out of service: it does nothing more to it.
func (d *decider) holdersOf(out outOfService) holders {
	has := map[string][]*work{}
	for _, w := range d.works {
		for i := range w.status.Nodes {
			if e := &w.status.Nodes[i]; e.Step != v1alpha1.StepDrained {
				has[e.Name] = append(has[e.Name], w)
			}
		}
	}
	var stuck, others []string
	var by string
	for _, name := range slices.Sorted(maps.Keys(out.nodes)) {
		words, stays := d.holder(name, has[name])
		switch {
		case !stays:
			others = append(others, words)
			continue
		case by == "" && len(has[name]) > 0:
			by = has[name][0].m.Name
		}
		stuck = append(stuck, words)
	}
	return holders{text.List(append(stuck, others...), 3), len(others) == 0, by}
}

// holder says whose a node is that is out of service, and why it does not come back by itself, where it does not.
func (d *decider) holder(name string, has []*work) (words string, stuck bool) {
	if len(has) == 0 {
		if run := d.Drains[name]; run != nil && run.Failure != "" {
			return fmt.Sprintf("node %s (its drain cannot be ended: %s)", name, cut(text.Line(run.Failure), briefly)), true
		}
		return fmt.Sprintf("node %s (it is being given back)", name), false
	}
	w := has[0]
	for _, other := range has {
		if other.holdsBy(name) == "" {
			return fmt.Sprintf("node %s (NodeMaintenance %s)", name, other.m.Name), false
		}
	}
	return fmt.Sprintf("node %s (NodeMaintenance %s, %s)", name, w.m.Name, w.holdsBy(name)), true
}

// holdsBy says why a maintenance does not go on with a node that it has in work, "" where it does.
func (w *work) holdsBy(node string) string {
	switch {
	case w.entry(node).Blocked:
		return "blocked"
	case w.active() || !w.live():
		return ""
	}
	return "suspended"
}

// noRoom is the blocker of a node whose turn has not come.
func (h holders) noRoom(m *v1alpha1.NodeMaintenance) v1alpha1.MaintenanceBlocker {
	limit := "spec.concurrency of NodeMaintenance " + m.Name
	b := v1alpha1.MaintenanceBlocker{
		Reason:  string(drain.NodeWaitsTurn),
		Message: "as many nodes or zones are out of service as " + limit + " allows: " + h.words,
		Remedy:  "wait until one of them is given back, or raise " + limit,
	}
	if h.by != "" {
		b.Remedy = fmt.Sprintf("see what holds them: kubectl describe nodemaintenance %[1]s; give them back: usher maintain --delete %[1]s; or raise %[2]s", h.by, limit)
	}
	return b
}

// sayWaits says of nodes in work whose turn has not come what they wait for.
func (d *decider) sayWaits() {
	d.held = d.holdersOf(d.service)
	for _, w := range d.works {
		for i := range w.status.Nodes {
			if e := &w.status.Nodes[i]; d.waits[e.Name] != nil && w.active() && e.Step == v1alpha1.StepDraining {
				block(e, d.held.noRoom(d.waits[e.Name].m))
			}
		}
	}
}

// advances reports whether something is done to a node of the maintenance, or is awaited that comes by itself.
func (d *decider) advances(w *work) bool {
	return slices.ContainsFunc(w.status.Nodes, func(e v1alpha1.MaintainedNode) bool {
		return !e.Blocked && e.Step != w.keptStep() && d.waits[e.Name] == nil
	})
}

// lackingWords says what the nodes of a maintenance wait for that are not begun, and whether that comes by itself.
func (d *decider) lackingWords(w *work) (reason, message string) {
	if w.lacks.limit == nil {
		return reasonNoRoom, fmt.Sprintf("its status has no room for more nodes than the %d that it has in work, and %s: give those back (usher maintain --delete %s), or make another NodeMaintenance for the others",
			len(w.status.Nodes), waitsWords(w.status.Counts.Planned), w.m.Name)
	}
	reason = reasonWaits
	if d.held.stuck {
		reason = reasonNoRoom
	}
	b := d.held.noRoom(w.lacks.limit.m)
	return reason, fmt.Sprintf("node %s waits: %s; %s", w.lacks.node, b.Message, b.Remedy)
}

func waitsWords(count int32) string {
	if count == 1 {
		return "1 node waits"
	}
	return fmt.Sprintf("%d nodes wait", count)
}
