package maintenance

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

const (
	marking = v1alpha1.StepMarking
	isMark  = v1alpha1.StepMarked
)

func cordons(m *v1alpha1.NodeMaintenance) { m.Spec.Action = v1alpha1.ActionCordon }

// taints has a maintenance set example.com/bad with a value.
func taints(value string) change {
	return func(m *v1alpha1.NodeMaintenance) {
		m.Spec.Action = v1alpha1.ActionTaint
		m.Spec.Taint = &v1alpha1.MaintenanceTaint{Key: "example.com/bad", Value: value}
	}
}

// calls has a maintenance call a hook, and do nothing else.
func calls(m *v1alpha1.NodeMaintenance) {
	m.Spec.Action = v1alpha1.ActionHook
	m.Spec.WhenDrained = v1alpha1.WhenDrained{Hook: &v1alpha1.MaintenanceHook{URL: "http://h"}}
}

func having(marks ...string) func(*Node) { return func(n *Node) { n.Marks = marks } }

func unschedulable(n *Node) { n.Unschedulable = true }

func tainted(value string) func(*Node) {
	return func(n *Node) {
		n.Taints = append(n.Taints, corev1.Taint{Key: "example.com/bad", Value: value, Effect: corev1.TaintEffectNoSchedule})
	}
}

const badDisk = "example.com/bad=disk:NoSchedule"

func TestMarks(t *testing.T) {
	hooked := map[Call]*Attempt{{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepCallingHook}: {Done: true}}
	cases := map[string]decided{
		"an entry is written first":           {maintenances: all(maintenance("m", of("n1"), cordons)), nodes: []*Node{node("n1")}, steps: []string{"n1 Marking"}},
		"nothing begins before the finalizer": {maintenances: all(maintenance("m", of("n1"), cordons, func(m *v1alpha1.NodeMaintenance) { m.Finalizers = nil })), nodes: []*Node{node("n1")}, want: []string{"adopt m"}},
		"then it is cordoned":                 {maintenances: all(maintenance("m", of("n1"), cordons, at("n1", marking, 0))), nodes: []*Node{node("n1")}, want: []string{"mark n1 cordon"}, steps: []string{"n1 Marking"}},
		"and kept so":                         {maintenances: all(maintenance("m", of("n1"), cordons, at("n1", marking, 0))), nodes: []*Node{node("n1", unschedulable, having("cordon"))}, steps: []string{"n1 Marked"}},
		"no node waits for room": {
			maintenances: all(maintenance("m", of("n1", "n2"), cordons), maintenance("other", of("n3"), at("n3", draining, 0))),
			nodes:        []*Node{node("n1"), node("n2", inZone("b")), node("n3")}, want: []string{"drain n3"}, steps: []string{"n1 Marking", "n2 Marking"},
		},
		"a node that is cordoned is takes no room, and gives none": {
			maintenances: all(maintenance("m", of("n1")), maintenance("other", of("n1", "n2"), cordons, at("n1", isMark, 0), at("n2", isMark, 0)), maintenance("third", of("n2"), at("n2", draining, 0))),
			nodes:        []*Node{node("n1", unschedulable, having("cordon")), node("n2", unschedulable, having("cordon"))}, want: []string{"drain n2"},
		},
		"another client's cordon is none of its": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", marking, 0))), nodes: []*Node{node("n1", unschedulable)}, steps: []string{"n1 Marked"},
		},
		"a drain's cordon is kept for it": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", marking, 0)), maintenance("other", of("n1"), at("n1", drained, 0))),
			nodes:        []*Node{node("n1", taken("drained"))}, want: []string{"mark n1 cordon"}, steps: []string{"n1 Marking"},
		},
		"a drain is given back beside it": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0)), maintenance("other", of("n1"), at("n1", drained, 0), deleted)),
			nodes:        []*Node{node("n1", taken("drained"), having("cordon"))}, want: []string{"give-back n1"}, steps: []string{"n1 Marked"},
		},
		"a node that another client uncordons is left alone": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0))), nodes: []*Node{node("n1", having("cordon"))}, steps: []string{"n1 Marked blocked"},
		},
		"deleted: it is uncordoned": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0), deleted)), nodes: []*Node{node("n1", unschedulable, having("cordon"))},
			want: []string{"unmark n1 cordon"}, steps: []string{"n1 Marked"},
		},
		"… and once it is, it is over": {maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0), deleted)), nodes: []*Node{node("n1")}},
		"… and not while another wants it": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0), deleted), maintenance("other", of("n1"), cordons, at("n1", isMark, 0))),
			nodes:        []*Node{node("n1", unschedulable, having("cordon"))},
		},
		"… and not while a drain has the node": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0), deleted), maintenance("other", of("n1"), at("n1", drained, 0))),
			nodes:        []*Node{node("n1", taken("drained"), having("cordon"))}, steps: []string{"n1 Marked"},
		},
		"… nor while its record cannot be read": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0), deleted)),
			nodes:        []*Node{node("n1", unschedulable, having("cordon"), func(n *Node) { n.DrainError = "bad" })}, steps: []string{"n1 Marked"},
		},
		"a mark that no maintenance has set stays": {
			maintenances: all(maintenance("m", of("n2"), cordons, at("n2", isMark, 0), deleted)), nodes: []*Node{node("n1", unschedulable, having("cordon")), node("n2")},
		},
		"a node that is another one now": {
			maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0), deleted)),
			nodes:        []*Node{node("n1", unschedulable, having("cordon"), func(n *Node) { n.UID = "other" })}, steps: []string{"n1 done"},
		},
		"suspended: nothing is set":   {maintenances: all(maintenance("m", of("n1"), cordons, at("n1", marking, 0), suspended)), nodes: []*Node{node("n1")}, steps: []string{"n1 Marking"}},
		"… and what is set stays":     {maintenances: all(maintenance("m", of("n1"), cordons, at("n1", isMark, 0), suspended)), nodes: []*Node{node("n1", unschedulable, having("cordon"))}, steps: []string{"n1 Marked"}},
		"a taint":                     {maintenances: all(maintenance("m", of("n1"), taints("disk"), at("n1", marking, 0))), nodes: []*Node{node("n1")}, want: []string{"mark n1 " + badDisk}, steps: []string{"n1 Marking"}},
		"… is there":                  {maintenances: all(maintenance("m", of("n1"), taints("disk"), at("n1", marking, 0))), nodes: []*Node{node("n1", tainted("disk"), having(badDisk))}, steps: []string{"n1 Marked"}},
		"… was there":                 {maintenances: all(maintenance("m", of("n1"), taints("disk"), at("n1", marking, 0))), nodes: []*Node{node("n1", tainted("disk"))}, steps: []string{"n1 Marked"}},
		"… and so is not taken off":   {maintenances: all(maintenance("m", of("n1"), taints("disk"), at("n1", isMark, 0), deleted)), nodes: []*Node{node("n1", tainted("disk"))}},
		"… goes with the last":        {maintenances: all(maintenance("m", of("n1"), taints("disk"), at("n1", isMark, 0), deleted)), nodes: []*Node{node("n1", tainted("disk"), having(badDisk))}, want: []string{"unmark n1 " + badDisk}, steps: []string{"n1 Marked"}},
		"… was taken off by others":   {maintenances: all(maintenance("m", of("n1"), taints("disk"), at("n1", isMark, 0))), nodes: []*Node{node("n1", having(badDisk))}, steps: []string{"n1 Marked blocked"}},
		"… has another one's place":   {maintenances: all(maintenance("m", of("n1"), taints("disk"), at("n1", marking, 0))), nodes: []*Node{node("n1", tainted("net"))}, steps: []string{"n1 Marking blocked"}},
		"a hook is called at once":    {maintenances: all(maintenance("m", of("n1"), calls)), nodes: []*Node{node("n1")}, steps: []string{"n1 CallingHook"}},
		"… once it is entered":        {maintenances: all(maintenance("m", of("n1"), calls, at("n1", v1alpha1.StepCallingHook, 0))), nodes: []*Node{node("n1")}, want: []string{"hook n1"}, steps: []string{"n1 CallingHook"}},
		"… and that is all":           {maintenances: all(maintenance("m", of("n1"), calls, at("n1", v1alpha1.StepCallingHook, 0))), nodes: []*Node{node("n1")}, calls: hooked, steps: []string{"n1 done"}},
		"a hook after a cordon":       {maintenances: all(maintenance("m", of("n1"), cordons, hookAndKeep, at("n1", marking, 0))), nodes: []*Node{node("n1", unschedulable, having("cordon"))}, steps: []string{"n1 CallingHook"}},
		"… is called before the rest": {maintenances: all(maintenance("m", of("n1"), cordons, hookAndKeep, at("n1", v1alpha1.StepCallingHook, 0))), nodes: []*Node{node("n1", unschedulable, having("cordon"))}, calls: hooked, steps: []string{"n1 Marked"}},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}

func hookAndKeep(m *v1alpha1.NodeMaintenance) {
	m.Spec.WhenDrained.Hook = &v1alpha1.MaintenanceHook{URL: "http://h"}
}

func all(m ...*v1alpha1.NodeMaintenance) []*v1alpha1.NodeMaintenance { return m }

// What is written is written at once with its record, and nothing of others is changed.
func TestMarksOn(t *testing.T) {
	other := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}
	bad := taintOf(badDisk)
	for name, test := range map[string]struct {
		node  *Node
		marks Marks
		want  *MarksChange
	}{
		"a cordon":                    {node("n1"), Marks{Wanted: []string{"cordon"}}, &MarksChange{Marks: []string{"cordon"}, Unschedulable: new(true)}},
		"a cordon that a drain set":   {node("n1", taken("drained")), Marks{Wanted: []string{"cordon"}}, &MarksChange{Marks: []string{"cordon"}}},
		"a cordon that others set":    {node("n1", unschedulable), Marks{Wanted: []string{"cordon"}}, nil},
		"its end":                     {node("n1", unschedulable, having("x", "cordon")), Marks{Release: []string{"cordon"}}, &MarksChange{Marks: []string{"x"}, Unschedulable: new(false)}},
		"its end under another's":     {node("n1", unschedulable, having("cordon"), func(n *Node) { n.CordonedBy = "kubectl" }), Marks{Release: []string{"cordon"}}, &MarksChange{Marks: []string{}}},
		"its end where it is gone":    {node("n1", having("cordon")), Marks{Release: []string{"cordon"}}, &MarksChange{Marks: []string{}}},
		"a taint beside another":      {node("n1", func(n *Node) { n.Taints = []corev1.Taint{other} }), Marks{Wanted: []string{badDisk}}, &MarksChange{Marks: []string{badDisk}, Taints: &[]corev1.Taint{other, bad}}},
		"its end beside another":      {node("n1", having(badDisk), func(n *Node) { n.Taints = []corev1.Taint{bad, other} }), Marks{Release: []string{badDisk}}, &MarksChange{Marks: []string{}, Taints: &[]corev1.Taint{other}}},
		"its end where it is changed": {node("n1", having(badDisk), tainted("net")), Marks{Release: []string{badDisk}}, &MarksChange{Marks: []string{}}},
		"one in the place of another": {
			node("n1", having(badDisk), tainted("disk")),
			Marks{Release: []string{badDisk}, Wanted: []string{"example.com/bad=net:NoSchedule"}},
			&MarksChange{Marks: []string{"example.com/bad=net:NoSchedule"}, Taints: &[]corev1.Taint{taintOf("example.com/bad=net:NoSchedule")}},
		},
		"another node of the name": {node("n1", func(n *Node) { n.UID = "other" }), Marks{Wanted: []string{"cordon"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.marks.Node, test.marks.UID = "n1", "uid-n1"
			if diff := cmp.Diff(test.want, test.marks.On(test.node.Node)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// markWorld is a node, and maintenances that mark it, come and go while others cordon and taint it as well.
type markWorld struct {
	t    *rapid.T
	node *Node
	all  map[string]*v1alpha1.NodeMaintenance
	own  bool // another client has cordoned the node, and that stands
}

func (w *markWorld) decide() Decision {
	in := Input{Now: noon, Nodes: []*Node{w.node}}
	for _, name := range slices.Sorted(maps.Keys(w.all)) {
		in.Maintenances = append(in.Maintenances, w.all[name].DeepCopy())
	}
	return Decide(in)
}

// look decides and writes. The process may be killed after each write.
func (w *markWorld) look(mayDie bool) (idle bool) {
	d := w.decide()
	dies := func() bool { return mayDie && rapid.IntRange(0, 4).Draw(w.t, "killed") == 0 }
	for _, name := range slices.Sorted(maps.Keys(d.Statuses)) {
		w.all[name].Status = *d.Statuses[name]
		if dies() {
			return false
		}
	}
	for _, name := range d.Adopt {
		w.all[name].Finalizers = []string{Finalizer}
	}
	for _, name := range d.Release {
		delete(w.all, name)
	}
	for i := range d.Marks {
		if c := d.Marks[i].On(w.node.Node); c != nil {
			w.write(c)
		}
	}
	return len(d.Statuses)+len(d.Adopt)+len(d.Release)+len(d.Marks) == 0
}

func (w *markWorld) write(c *MarksChange) {
	w.node.Marks = c.Marks
	if c.Unschedulable != nil {
		if w.own {
			w.t.Fatalf("the cordon of another client becomes %v", *c.Unschedulable)
		}
		w.node.Unschedulable = *c.Unschedulable
	}
	if c.Taints != nil {
		w.node.Taints = *c.Taints
	}
}

// Whatever comes in whatever order: no drain begins, what is wanted is set, and once the last requester has gone the node is as other clients have left it.
func TestMarksGoWithTheLastRequester(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &markWorld{t: t, node: node("n1"), all: map[string]*v1alpha1.NodeMaintenance{}}
		foreign := corev1.Taint{Key: "example.com/bad", Value: "foreign", Effect: corev1.TaintEffectNoSchedule}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				what := rapid.SampledFrom([]change{cordons, taints("disk"), taints("net")}).Draw(t, "action")
				w.all[fmt.Sprintf("m%d", i)] = maintenance(fmt.Sprintf("m%d", i), of("n1"), what)
			case 2:
				for _, name := range slices.Sorted(maps.Keys(w.all)) {
					if rapid.Bool().Draw(t, "ends") {
						deleted(w.all[name])
						break
					}
				}
			case 3:
				if !w.node.Unschedulable {
					w.node.Unschedulable, w.own = true, true
					w.node.CordonedBy = "kubectl"
				} else if w.own {
					w.node.Unschedulable, w.own, w.node.CordonedBy = false, false, ""
				}
			case 4:
				if !slices.ContainsFunc(w.node.Taints, inPlaceOf(badDisk)) {
					w.node.Taints = append(w.node.Taints, foreign)
				}
			default:
				w.look(true)
			}
			if d := w.decide(); len(d.Orders) > 0 {
				t.Fatalf("a drain: %+v", d.Orders)
			}
		}
		w.settle()
		w.checkSet()
		for _, m := range w.all {
			deleted(m)
		}
		w.settle()
		if len(w.all)+len(w.node.Marks) > 0 || w.node.Unschedulable != w.own || slices.ContainsFunc(w.node.Taints, func(t corev1.Taint) bool { return t.Value != "foreign" }) {
			t.Fatalf("left: %v, marks %v, unschedulable %v (another's: %v), taints %v", slices.Sorted(maps.Keys(w.all)), w.node.Marks, w.node.Unschedulable, w.own, w.node.Taints)
		}
	})
}

// settle looks until there is nothing to do.
func (w *markWorld) settle() {
	for range 20 {
		if w.look(false) {
			return
		}
	}
	w.t.Fatal("there is something to do for ever")
}

// checkSet fails where a node lacks what a maintenance wants, and that says nothing of it.
func (w *markWorld) checkSet() {
	for name, m := range w.all {
		e := entryOf(m.Status.Nodes, "n1")
		set := w.node.Unschedulable
		if m.Spec.Action == v1alpha1.ActionTaint {
			set = slices.ContainsFunc(w.node.Taints, sameTaint(markOf(m)))
		}
		if m.DeletionTimestamp == nil && !set && (e == nil || !e.Blocked) {
			w.t.Fatalf("%s (%s) wants %s, and the node has %v, %v: %+v", name, m.Spec.Action, markOf(m), w.node.Marks, w.node.Taints, e)
		}
	}
}

// A taint and the mark that names it are each other's.
func TestMarksNameTaints(t *testing.T) {
	for _, taint := range []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a.b/c", Value: "d", Effect: "NoExecute"}} {
		if got := taintOf(taint.ToString()); got != taint {
			t.Errorf("%s is %+v", taint.ToString(), got)
		}
	}
	if got := snapshot.ParseMarks("cordon, a=b:NoSchedule,"); !slices.Equal(got, []string{"cordon", "a=b:NoSchedule"}) {
		t.Errorf("%q", got)
	}
}
