package maintenance

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/snapshot"
)

// world is what is there, and one process that leads.
type world struct {
	t     *rapid.T
	now   time.Time
	nodes map[string]*Node
	all   map[string]*v1alpha1.NodeMaintenance
	runs  map[string]*process
	calls map[Call]*Attempt
	asked map[Call]bool // for successors, in the API
	made  int
	stuck map[string]bool // nodes whose pods do not leave
	risky map[string]bool // nodes with pods that would be lost
}

// process is a drain of the process that leads. A drain that is killed leaves its record.
type process struct {
	Drain

	ending bool
	back   bool
	over   bool
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, now: noon, nodes: map[string]*Node{}, all: map[string]*v1alpha1.NodeMaintenance{}, runs: map[string]*process{},
		calls: map[Call]*Attempt{}, asked: map[Call]bool{}, stuck: map[string]bool{}, risky: map[string]bool{},
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		name := fmt.Sprintf("n%d", i)
		w.nodes[name] = node(name, inZone(rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "zone")))
	}
	return w
}

func (w *world) input() Input {
	in := Input{Now: w.now, Drains: map[string]*Drain{}, Calls: w.calls}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		in.Nodes = append(in.Nodes, w.nodes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.all)) {
		in.Maintenances = append(in.Maintenances, w.all[name].DeepCopy())
	}
	for name, r := range w.runs {
		in.Drains[name] = new(r.Drain)
	}
	return in
}

// look decides and carries out. The process may be killed after each write.
func (w *world) look(mayDie bool) {
	decision := Decide(w.input())
	dies := func() bool {
		if mayDie && rapid.IntRange(0, 19).Draw(w.t, "killed") == 0 {
			w.kill()
			return true
		}
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(decision.Statuses)) {
		w.checkBegins(name, decision.Statuses)
		w.all[name].Status = *decision.Statuses[name]
		if dies() {
			return
		}
	}
	for _, name := range decision.Adopt {
		w.all[name].Finalizers = []string{Finalizer}
	}
	for _, name := range decision.Release {
		delete(w.all, name)
	}
	wanted := map[string]bool{}
	for _, o := range decision.Orders {
		wanted[o.Node] = true
		w.obey(o)
		if dies() {
			return
		}
	}
	for name, r := range w.runs {
		if !wanted[name] && r.over {
			delete(w.runs, name)
		}
	}
	for _, h := range decision.Hooks {
		w.checkKept(h.Body.Node)
		w.calls[h.Call] = &Attempt{Done: true}
	}
	for _, r := range decision.Replacements {
		if !r.Gone {
			w.checkKept(r.Node)
		}
		w.calls[r.Call] = &Attempt{Failure: "refused", Since: w.now}
		if w.asked[r.Call] || rapid.IntRange(0, 3).Draw(w.t, "requests are refused") > 0 {
			w.asked[r.Call], w.calls[r.Call] = true, &Attempt{Done: true}
		}
		if dies() {
			return
		}
	}
	for _, d := range decision.Deletions {
		w.checkRequested(d.Node)
		w.checkKept(d.Node)
		delete(w.nodes, d.Node)
	}
}

// checkRequested fails where a Node is deleted before successors are requested for members with data on it.
func (w *world) checkRequested(name string) {
	for _, m := range w.all {
		when, e := m.Spec.WhenDrained.DeleteNode, entryOf(m.Status.Nodes, name)
		if m.DeletionTimestamp == nil && e != nil && when != nil && when.Members == v1alpha1.MembersReplace && !w.asked[Call{Maintenance: m.UID, Node: e.UID, Step: v1alpha1.StepReplacingMembers}] {
			w.show()
			w.t.Fatalf("node %s is deleted before %s has requested successors", name, m.Name)
		}
	}
}

// checkKept fails where something is done to a node that another client has given back.
func (w *world) checkKept(name string) {
	if n := w.nodes[name]; n != nil && (!n.Unschedulable || !Owned(n.Node)) {
		w.show()
		w.t.Fatalf("something is done to node %s, which is in service again", name)
	}
}

// uncordon makes a drained node schedulable, by another client.
func (w *world) uncordon(name string) {
	n := *w.nodes[name]
	if Owned(n.Node) && n.Drain.State == string(drain.Drained) {
		facts := *n.Node
		facts.Unschedulable, n.Node = false, &facts
		w.nodes[name] = &n
	}
}

// checkBegins fails where a node is begun past the limit of its maintenance.
func (w *world) checkBegins(name string, decided map[string]*v1alpha1.NodeMaintenanceStatus) {
	before := map[string]bool{}
	for _, m := range w.all {
		for _, e := range m.Status.Nodes {
			before[e.Name] = true
		}
	}
	out := map[string]bool{}
	for _, n := range w.nodes {
		kept := false
		for _, m := range w.all {
			entries := m.Status.Nodes
			if status := decided[m.Name]; status != nil {
				entries = status.Nodes
			}
			e := entryOf(entries, n.Name)
			kept = kept || e != nil && e.Step == v1alpha1.StepDrained
		}
		if Owned(n.Node) && !kept {
			out[n.Name] = true
		}
	}
	begins := false
	for _, e := range decided[name].Nodes {
		if !before[e.Name] && !out[e.Name] && !w.leaves(e.Name) {
			out[e.Name], begins = true, true
		}
	}
	if limit := int(w.all[name].Spec.Concurrency.Nodes); begins && len(out) > limit {
		w.show()
		w.t.Fatalf("%s begins a node while %v are out of service: it allows %d", name, slices.Sorted(maps.Keys(out)), limit)
	}
}

// leaves reports whether a notice says that a node goes: no limit holds its drain.
func (w *world) leaves(name string) bool {
	for _, m := range w.all {
		if m.DeletionTimestamp == nil && !m.Spec.Suspend && notice.Leaves(m.Spec.Requester) && slices.Contains(m.Spec.Nodes.Names, name) {
			return true
		}
	}
	return false
}

// obey does to a node what the controller does.
func (w *world) obey(o Order) {
	r, n := w.runs[o.Node], w.nodes[o.Node]
	switch o.Want {
	case DrainNode:
		w.checkWanted(o.Node)
		if r != nil && (!r.over && !r.ending && r.Terms == o.Terms || r.over && !r.ending && r.Terms == o.Terms) {
			if !r.Checks || !r.over {
				return
			}
		}
		if r == nil || r.Checks {
			w.checkRoom(o.Node)
		}
		w.runs[o.Node] = &process{Drain: Drain{Terms: o.Terms}}
	case CheckNode:
		if r == nil || !r.Checks && r.over || r.Checks && r.over && (r.Terms != o.Terms || len(r.Blockers) > 0) {
			w.runs[o.Node] = &process{Drain: Drain{Terms: o.Terms, Checks: true}}
		}
	case StopDrain, GiveBack:
		back := o.Want == GiveBack
		switch {
		case r != nil && !r.over && r.ending && r.back == back:
		case n != nil && Owned(n.Node) && n.Drain.Working():
			w.runs[o.Node] = &process{Drain: Drain{Stopped: true, Begun: true}, ending: true, back: back}
		case back:
			delete(w.runs, o.Node)
			if n != nil && Owned(n.Node) {
				w.set(o.Node, "", false)
			}
		case r != nil:
			r.Stopped, r.ending, r.over = true, true, true
		}
	case KeepDrain:
	}
}

// checkRoom fails where a node is to be cordoned, and one that has it in work has no room.
func (w *world) checkRoom(name string) {
	if Owned(w.nodes[name].Node) || w.leaves(name) {
		return
	}
	out := map[string]bool{name: true}
	for _, n := range w.nodes {
		kept, r := false, w.runs[n.Name]
		for _, m := range w.all {
			e := entryOf(m.Status.Nodes, n.Name)
			kept = kept || e != nil && e.Step == v1alpha1.StepDrained
		}
		if !kept && (Owned(n.Node) || r != nil && !r.over && !r.Checks) {
			out[n.Name] = true
		}
	}
	zones := map[string]bool{}
	for n := range out {
		zones[w.nodes[n].Zone] = true
	}
	for _, m := range w.all {
		limits, e := m.Spec.Concurrency, entryOf(m.Status.Nodes, name)
		if e == nil || e.Step != v1alpha1.StepDraining || m.DeletionTimestamp != nil || m.Spec.Suspend {
			continue
		}
		if len(out) > int(limits.Nodes) || len(zones) > int(limits.Zones) {
			w.show()
			w.t.Fatalf("node %s is drained, so that %v are out of service: %s allows %+v", name, slices.Sorted(maps.Keys(out)), m.Name, limits)
		}
	}
}

func (w *world) checkWanted(name string) {
	for _, m := range w.all {
		if m.DeletionTimestamp == nil && slices.ContainsFunc(m.Status.Nodes, func(e v1alpha1.MaintainedNode) bool { return e.Name == name }) {
			return
		}
	}
	w.t.Fatalf("node %s is drained, and no maintenance has it", name)
}

// set writes the record of a node; "" takes it off.
func (w *world) set(name, state string, cordoned bool) {
	n := *w.nodes[name]
	facts := *n.Node
	facts.Unschedulable, facts.Drain = cordoned, nil
	if state != "" {
		facts.Drain = &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: snapshot.MaintenancePrefix + name}, Cordoned: true, State: state}
	}
	n.Node = &facts
	w.nodes[name] = &n
}

// progress lets a drain do one thing.
func (w *world) progress(name string) {
	r, n := w.runs[name], w.nodes[name]
	if r == nil || r.over {
		return
	}
	switch {
	case n == nil:
		r.over, r.Outcome = true, drain.Drained
	case r.ending && r.back:
		w.set(name, "", false)
		r.over = true
	case r.ending:
		w.set(name, "interrupted", true)
		r.over = true
	case !Owned(n.Node) && (r.Checks || w.risky[name]):
		r.Checks, r.Checked, r.over, r.Blockers = true, true, true, nil
		if w.risky[name] {
			r.Blockers = []drain.Blocker{{Reason: drain.LocalStorage, Dead: true}}
		}
	case Owned(n.Node) && !n.Unschedulable: // a drain takes no node back
		r.Begun, r.Blockers = true, []drain.Blocker{{Reason: drain.NodeNotCordoned, Dead: true}}
	case !Owned(n.Node) || !n.Drain.Working():
		r.Begun = true
		w.set(name, snapshot.Draining, true)
	case w.stuck[name]:
		r.Blockers = []drain.Blocker{{Reason: drain.BudgetExhausted, Dead: true}}
	default:
		w.set(name, string(drain.Drained), true)
		r.over, r.Outcome = true, drain.Drained
	}
}

// kill ends the process that leads; another one leads.
func (w *world) kill() { w.runs, w.calls = map[string]*process{}, map[Call]*Attempt{} }

func (w *world) create() {
	w.made++
	name := fmt.Sprintf("m%d", w.made)
	when := rapid.SampledFrom([]v1alpha1.WhenDrained{
		{KeepCordoned: &v1alpha1.KeepCordoned{}},
		{Wait: &v1alpha1.MaintenanceWait{For: v1alpha1.WaitBootIDChanged, Timeout: metav1.Duration{Duration: time.Hour}}},
		{Hook: &v1alpha1.MaintenanceHook{URL: "http://hook"}},
		{DeleteNode: &v1alpha1.DeleteNode{}},
		replacing,
	}).Draw(w.t, "when")
	limit := int32(rapid.IntRange(1, 3).Draw(w.t, "at once"))       //nolint:gosec // at most 3
	zones := int32(rapid.IntRange(1, 3).Draw(w.t, "zones at once")) //nolint:gosec // at most 3
	m := maintenance(name, then(when), atOnce(limit, zones), func(m *v1alpha1.NodeMaintenance) {
		m.Finalizers, m.CreationTimestamp, m.UID = nil, metav1.NewTime(w.now), types.UID(name)
		if rapid.Bool().Draw(w.t, "dynamic") {
			m.Spec.Nodes.Selection = v1alpha1.SelectionDynamic
		}
		if names := slices.Sorted(maps.Keys(w.nodes)); len(names) > 0 && rapid.IntRange(0, 3).Draw(w.t, "notice") == 0 {
			m.Spec.Requester = notice.Requester(notice.EC2, notice.SpotInterruption)
			m.Spec.Nodes = v1alpha1.NodeSelection{Names: []string{rapid.SampledFrom(names).Draw(w.t, "of")}}
		}
	})
	w.all[name] = m
}

func (w *world) pick() *v1alpha1.NodeMaintenance {
	names := slices.Sorted(maps.Keys(w.all))
	if len(names) == 0 {
		return nil
	}
	return w.all[rapid.SampledFrom(names).Draw(w.t, "maintenance")]
}

func (w *world) remove(m *v1alpha1.NodeMaintenance) {
	if len(m.Finalizers) == 0 {
		delete(w.all, m.Name)
	} else if m.DeletionTimestamp == nil {
		m.DeletionTimestamp = new(metav1.NewTime(w.now))
	}
}

func (w *world) reboot(name string) {
	if w.nodes[name] != nil {
		n := *w.nodes[name]
		n.BootID += "'"
		w.nodes[name] = &n
	}
}

// settle lets everything that can happen happen.
func (w *world) settle() {
	for range 60 {
		w.look(false)
		for _, name := range slices.Sorted(maps.Keys(w.runs)) {
			w.progress(name)
		}
		for _, m := range w.all {
			for _, e := range m.Status.Nodes {
				if e.Step == v1alpha1.StepWaiting {
					w.reboot(e.Name)
				}
			}
		}
		w.now = w.now.Add(time.Second)
	}
}

// Whatever requesters and processes do: no node is drained that none asks for, no limit is passed, what is wanted comes to its end or has a
// named blocker, and once none wants anything every node is as it was.
func TestMaintenances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			names := slices.Sorted(maps.Keys(w.nodes))
			switch rapid.IntRange(0, 14).Draw(t, "what") {
			case 0:
				if len(w.all) < 4 {
					w.create()
				}
			case 1:
				if m := w.pick(); m != nil {
					w.remove(m)
				}
			case 2:
				if m := w.pick(); m != nil {
					m.Spec.Suspend = !m.Spec.Suspend
				}
			case 3:
				w.kill()
			case 4:
				if len(names) > 0 {
					name := rapid.SampledFrom(names).Draw(t, "node")
					w.stuck[name] = !w.stuck[name]
				}
			case 5:
				if m := w.pick(); m != nil {
					m.Spec.DeadlineTime = new(metav1.NewTime(w.now.Add(time.Hour)))
				}
			case 6: // several at one moment, as by other terms
				risky := rapid.Bool().Draw(t, "objected to")
				for _, name := range names {
					w.risky[name] = risky
				}
			case 7:
				if len(names) > 0 {
					name := rapid.SampledFrom(names).Draw(t, "node")
					w.risky[name] = !w.risky[name]
				}
			case 8:
				if len(names) > 0 {
					w.uncordon(rapid.SampledFrom(names).Draw(t, "node"))
				}
			case 9, 10, 11:
				w.look(true)
			default:
				if len(names) > 0 {
					w.progress(rapid.SampledFrom(names).Draw(t, "node"))
				}
			}
			w.now = w.now.Add(time.Second)
		}
		w.checkEnd()
	})
}

func (w *world) checkEnd() {
	for _, m := range w.all {
		m.Spec.Suspend = false
	}
	w.settle()
	for _, m := range w.all {
		c := meta.FindStatusCondition(m.Status.Conditions, conditionReady)
		stalled := meta.IsStatusConditionTrue(m.Status.Conditions, conditionStalled)
		if c == nil || c.Status != metav1.ConditionTrue && !stalled {
			w.show()
			w.t.Fatalf("%s comes to no end: %s", m.Name, c.Message)
		}
	}
	for _, m := range w.all {
		w.remove(m)
	}
	w.settle()
	if len(w.all) > 0 {
		w.t.Fatalf("maintenances are left that were deleted: %v", slices.Collect(maps.Keys(w.all)))
	}
	for _, n := range w.nodes {
		if n.Drain != nil || n.Unschedulable {
			w.t.Fatalf("node %s was not given back: %+v", n.Name, n.Drain)
		}
	}
}

// show logs what is there.
func (w *world) show() {
	for _, m := range w.all {
		w.t.Logf("%s: deleted %v, suspended %v, finalizers %v, entries %+v, done %v", m.Name, m.DeletionTimestamp != nil, m.Spec.Suspend, m.Finalizers, m.Status.Nodes, m.Status.DoneNodes)
	}
	for _, n := range w.nodes {
		w.t.Logf("%s: record %+v, drain %+v", n.Name, n.Drain, w.runs[n.Name])
	}
}
