package maintenance

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
)

const (
	draining = v1alpha1.StepDraining
	drained  = v1alpha1.StepDrained
)

// What is known of nodes that nothing was done to.
var (
	objectedTo = &Drain{Checks: true, Checked: true, Blockers: []drain.Blocker{{Reason: drain.LocalStorage, Message: "its data is lost", Dead: true}}}
	unobjected = &Drain{Checks: true, Checked: true}
)

func TestDecide(t *testing.T) {
	wait := v1alpha1.WhenDrained{Wait: &v1alpha1.MaintenanceWait{For: v1alpha1.WaitBootIDChanged, Timeout: metav1.Duration{Duration: time.Hour}}}
	cases := map[string]decided{
		"nothing begins before the finalizer is there": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", func(m *v1alpha1.NodeMaintenance) { m.Finalizers = nil })},
			nodes:        []*Node{node("n1")},
			want:         []string{"adopt m"},
		},
		"an entry is written before its node is drained": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m")},
			nodes:        []*Node{node("n1"), node("n2")},
			steps:        []string{"n1 Draining"},
		},
		"what is entered is drained": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2")},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
		"as many nodes as there is room for, in one zone": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", atOnce(3, 1))},
			nodes:        []*Node{node("n1", inZone("b")), node("n2"), node("n3"), node("n4", inZone("b"))},
			steps:        []string{"n2 Draining", "n3 Draining"},
		},
		"a zone that is out of service already comes first": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", atOnce(2, 1), at("n4", draining, 0))},
			nodes:        []*Node{node("n1", inZone("b")), node("n2"), node("n4", inZone("b"))},
			want:         []string{"drain n4"},
			steps:        []string{"n4 Draining", "n1 Draining"},
		},
		"the nodes of all maintenances count": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1")), maintenance("other", of("n2"), at("n2", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2")},
			want:         []string{"drain n2"},
		},
		"a node that is being given back counts": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1"))},
			nodes:        []*Node{node("n1"), node("n2", taken("drained"))},
			want:         []string{"give-back n2"},
		},
		"a node that is kept does not count": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", drained, 0))},
			nodes:        []*Node{node("n1", taken("drained")), node("n2")},
			steps:        []string{"n1 Drained", "n2 Draining"},
		},
		"a node that was not touched does not count": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2")},
			drains:       map[string]*Drain{"n1": objectedTo},
			want:         []string{"check n1"},
			steps:        []string{"n1 Draining blocked", "n2 Draining"},
		},
		"what objected to several nodes is gone: as many begin as there is room for": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0), at("n2", draining, 0), at("n3", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2"), node("n3")},
			drains:       map[string]*Drain{"n1": objectedTo, "n2": unobjected, "n3": unobjected},
			want:         []string{"check n1", "drain n2", "check n3"},
			steps:        []string{"n1 Draining blocked", "n2 Draining", "n3 Draining"},
		},
		"… in as many zones": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", atOnce(3, 1), at("n1", draining, 0), at("n2", draining, 0), at("n3", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2", inZone("b")), node("n3")},
			drains:       map[string]*Drain{"n1": unobjected, "n2": unobjected, "n3": unobjected},
			want:         []string{"drain n1", "check n2", "drain n3"},
			steps:        []string{"n1 Draining", "n2 Draining", "n3 Draining"},
		},
		"… for every maintenance that has them": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", atOnce(3, 1), at("n1", draining, 0), at("n2", draining, 0)), maintenance("other", at("n2", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2")},
			drains:       map[string]*Drain{"n1": unobjected, "n2": unobjected},
			want:         []string{"drain n1", "check n2"},
			steps:        []string{"n1 Draining", "n2 Draining"},
		},
		"… also where a process leads that has looked at none": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0), at("n2", draining, 0), at("n3", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2", taken("draining")), node("n3")},
			want:         []string{"check n1", "drain n2", "check n3"},
			steps:        []string{"n1 Draining", "n2 Draining", "n3 Draining"},
		},
		"a drain that has not cordoned its node yet takes room": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0), at("n2", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2")},
			drains:       map[string]*Drain{"n1": unobjected, "n2": {}},
			want:         []string{"check n1", "drain n2"},
			steps:        []string{"n1 Draining", "n2 Draining"},
		},
		"… also once no maintenance has the node": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1"), at("n1", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2")},
			drains:       map[string]*Drain{"n1": unobjected, "n2": {}},
			want:         []string{"check n1", "give-back n2"},
			steps:        []string{"n1 Draining"},
		},
		"a node in work is another maintenance's at once": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1", "n2")), maintenance("other", of("n1"), at("n1", draining, 0))},
			nodes:        []*Node{node("n1"), node("n2")},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
		"a drain that has ended is followed, and known until that is written": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, time.Minute))},
			nodes:        []*Node{node("n1", taken("drained"))},
			drains:       map[string]*Drain{"n1": outcome(drain.Drained)},
			want:         []string{"keep n1"},
			steps:        []string{"n1 Drained"},
		},
		"a record that says drained is not believed": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, time.Minute))},
			nodes:        []*Node{node("n1", taken("drained"))},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
		"a deadline that has passed blocks": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, time.Minute))},
			nodes:        []*Node{node("n1", taken("deadline"))},
			drains:       map[string]*Drain{"n1": outcome(drain.DeadlinePassed)},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining blocked"},
		},
		"what is waited for": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(wait), at("n1", v1alpha1.StepWaiting, time.Minute))},
			nodes:        []*Node{node("n1", taken("drained"))},
			steps:        []string{"n1 Waiting"},
		},
		"what is waited for too long": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(wait), at("n1", v1alpha1.StepWaiting, time.Hour))},
			nodes:        []*Node{node("n1", taken("drained"))},
			steps:        []string{"n1 Waiting blocked"},
		},
		"a new boot that is not Ready is waited for": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(wait), at("n1", v1alpha1.StepWaiting, time.Minute))},
			nodes:        []*Node{node("n1", taken("drained"), func(n *Node) { n.BootID, n.Ready = "boot-2", false })},
			steps:        []string{"n1 Waiting"},
		},
		"what has happened ends it, and the node is given back once that is written": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(wait), at("n1", v1alpha1.StepWaiting, time.Minute))},
			nodes:        []*Node{node("n1", taken("drained"), func(n *Node) { n.BootID = "boot-2" })},
			steps:        []string{"n1 done"},
		},
		"done": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(wait), func(m *v1alpha1.NodeMaintenance) { m.Status.DoneNodes = []string{"n1"} })},
			nodes:        []*Node{node("n1", taken("drained"))},
			want:         []string{"give-back n1"},
			steps:        []string{"n1 done"},
		},
		"done for one, and another waits": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", then(wait), func(m *v1alpha1.NodeMaintenance) { m.Status.DoneNodes = []string{"n1"} }),
				maintenance("other", at("n1", drained, time.Minute)),
			},
			nodes: []*Node{node("n1", taken("drained"))},
			steps: []string{"n1 done"},
		},
		"done for one, and another is to have it": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", then(wait), func(m *v1alpha1.NodeMaintenance) { m.Status.DoneNodes = []string{"n1"} }),
				maintenance("other"),
			},
			nodes: []*Node{node("n1", taken("drained"))},
			steps: []string{"n1 done"},
		},
		"a hook is called once the step is written": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(v1alpha1.WhenDrained{Hook: &v1alpha1.MaintenanceHook{URL: "http://x"}}), at("n1", v1alpha1.StepCallingHook, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			want:         []string{"hook n1"},
			steps:        []string{"n1 CallingHook"},
		},
		"a hook that fails for long blocks": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(v1alpha1.WhenDrained{Hook: &v1alpha1.MaintenanceHook{URL: "http://x"}}), at("n1", v1alpha1.StepCallingHook, time.Hour))},
			nodes:        []*Node{node("n1", taken("drained"))},
			calls:        map[Call]*Attempt{{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepCallingHook}: {Failure: "500", Since: noon.Add(-failingFor)}},
			want:         []string{"hook n1"},
			steps:        []string{"n1 CallingHook blocked"},
		},
		"a hook that has answered": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(v1alpha1.WhenDrained{Hook: &v1alpha1.MaintenanceHook{URL: "http://x"}}), at("n1", v1alpha1.StepCallingHook, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			calls:        map[Call]*Attempt{{Maintenance: "uid-m", Node: "uid-n1", Step: v1alpha1.StepCallingHook}: {Done: true}},
			steps:        []string{"n1 done"},
		},
		"a Node is deleted once the step is written": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", then(v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{}}), at("n1", v1alpha1.StepDeletingNode, 0))},
			nodes:        []*Node{node("n1", taken("drained"))},
			want:         []string{"delete n1"},
			steps:        []string{"n1 DeletingNode"},
		},
		"a node that is gone is done": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1", "n2"), at("n1", draining, 0))},
			nodes:        []*Node{node("n2")},
			steps:        []string{"n2 Draining", "n1 done"},
		},
		"another node of the name is done": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1"), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", func(n *Node) { n.UID = "new" })},
			steps:        []string{"n1 done"},
		},
		"suspended: what drains stops, and nothing begins": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", suspended, atOnce(2, 1), at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining")), node("n2")},
			want:         []string{"stop n1"},
			steps:        []string{"n1 Draining"},
		},
		"suspended for one, and another goes on": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", suspended, at("n1", draining, 0)), maintenance("other", at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
		"suspended: what held its drain is said no longer": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", suspended, at("n1", draining, 0), blocked)},
			nodes:        []*Node{node("n1", taken("blocked"))},
			drains:       map[string]*Drain{"n1": {Begun: true, Stopped: true}},
			want:         []string{"stop n1"},
			steps:        []string{"n1 Draining"},
		},
		"… also where it goes on for another": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", suspended, at("n1", draining, 0), blocked), maintenance("other", at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": {Begun: true, Blockers: []drain.Blocker{{Reason: drain.TwoBudgets, Dead: true}}}},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
		"… or has drained the node": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", suspended, at("n1", draining, 0), blocked)},
			nodes:        []*Node{node("n1", taken("drained"))},
			drains:       map[string]*Drain{"n1": outcome(drain.Drained)},
			want:         []string{"stop n1"},
			steps:        []string{"n1 Draining"},
		},
		"suspended: that its drain could not be ended is said": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", suspended, at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": {Begun: true, Failure: "no answer"}},
			want:         []string{"stop n1"},
			steps:        []string{"n1 Draining blocked"},
		},
		"suspended: what has happened is not followed": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", suspended, then(wait), at("n1", v1alpha1.StepWaiting, time.Minute))},
			nodes:        []*Node{node("n1", taken("drained"), func(n *Node) { n.BootID = "boot-2" })},
			steps:        []string{"n1 Waiting"},
		},
		"deleted: its node is given back, and the entry stays until then": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", deleted, at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			want:         []string{"give-back n1"},
			steps:        []string{"n1 Draining"},
		},
		"deleted: its drain could not be ended": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", deleted, at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": {Stopped: true, Failure: "no answer"}},
			want:         []string{"give-back n1"},
			steps:        []string{"n1 Draining blocked"},
		},
		"deleted, and the node is back": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", deleted, at("n1", draining, 0))},
			nodes:        []*Node{node("n1")},
		},
		"deleted, and a drain has not returned": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", deleted, at("n1", draining, 0))},
			nodes:        []*Node{node("n1")},
			drains:       map[string]*Drain{"n1": {}},
			want:         []string{"give-back n1"},
			steps:        []string{"n1 Draining"},
		},
		"deleted, and another has the node": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", deleted, at("n1", draining, 0)), maintenance("other", at("n1", draining, 0))},
			nodes:        []*Node{node("n1", taken("draining"))},
			want:         []string{"drain n1"},
		},
		"deleted, with nothing left": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", deleted)},
			nodes:        []*Node{node("n1")},
			want:         []string{"release m"},
		},
		"the record of a maintenance that is gone": {
			nodes: []*Node{node("n1", taken("draining")), node("n2")},
			want:  []string{"give-back n1"},
		},
		"a drain that only an object wanted that is going ends where another keeps the node": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1"), at("n1", drained, 0)), maintenance("other", of("n1"), at("n1", draining, 0), deleted)},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": {Begun: true}},
			want:         []string{"stop n1"},
			steps:        []string{"n1 Drained"},
		},
		"… also where another process has begun it": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1"), at("n1", drained, 0)), maintenance("other", of("n1"), at("n1", draining, 0), deleted)},
			nodes:        []*Node{node("n1", taken("draining"))},
			want:         []string{"stop n1"},
			steps:        []string{"n1 Drained"},
		},
		"… or it is blocked": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1"), at("n1", drained, 0)), maintenance("other", of("n1"), at("n1", draining, 0), deleted)},
			nodes:        []*Node{node("n1", taken("blocked"))},
			drains:       map[string]*Drain{"n1": outcome(drain.Blocked)},
			want:         []string{"stop n1"},
			steps:        []string{"n1 Drained"},
		},
		"… and not where it has drained the node, though its record is not seen yet": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1"), at("n1", drained, 0)), maintenance("other", of("n1"), at("n1", draining, 0), deleted)},
			nodes:        []*Node{node("n1", taken("draining"))},
			drains:       map[string]*Drain{"n1": outcome(drain.Drained)},
			steps:        []string{"n1 Drained"},
		},
		"a node that a dynamic selector does not select any more": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0), func(m *v1alpha1.NodeMaintenance) { m.Spec.Nodes.Selection = v1alpha1.SelectionDynamic })},
			nodes:        []*Node{node("n1", taken("draining"), func(n *Node) { n.Labels = nil })},
		},
		"a node that a fixed selector would not select any more": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0), func(m *v1alpha1.NodeMaintenance) { m.Status.SelectedNodes = []string{"n1"} })},
			nodes:        []*Node{node("n1", taken("draining"), func(n *Node) { n.Labels = nil }), node("n2")},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}

// decided is what is known, and what follows.
type decided struct {
	maintenances []*v1alpha1.NodeMaintenance
	nodes        []*Node
	drains       map[string]*Drain
	calls        map[Call]*Attempt
	want         []string // what is to be done
	steps        []string // where the nodes of the first maintenance are to be
}

func (c decided) check(t *testing.T) {
	t.Helper()
	in := Input{Now: noon, Maintenances: c.maintenances, Nodes: c.nodes, Drains: c.drains, Calls: c.calls}
	got := Decide(in)
	if diff := cmp.Diff(c.want, brief(got)); diff != "" {
		t.Errorf("to be done (-want +got):\n%s", diff)
	}
	if len(c.maintenances) == 0 {
		return
	}
	if diff := cmp.Diff(c.steps, steps(got, c.maintenances[0].Name)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// A status that was written is not written again: a write would bring another look, and that another write.
func TestDecideComesToRest(t *testing.T) {
	m := maintenance("m", then(v1alpha1.WhenDrained{Wait: &v1alpha1.MaintenanceWait{For: v1alpha1.WaitBootIDChanged}}))
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Nodes: []*Node{node("n1"), node("n2")}}
	for i := range 4 {
		in.Now = in.Now.Add(time.Second)
		status := Decide(in).Statuses["m"]
		if status == nil {
			if i == 0 {
				t.Error("nothing is written at first")
			}
			return
		}
		m.Status = *status
	}
	t.Error("it is written again and again")
}

func TestTerms(t *testing.T) {
	deadline := func(minutes int, action v1alpha1.DeadlineAction) change {
		return func(m *v1alpha1.NodeMaintenance) {
			m.Spec.DeadlineTime, m.Spec.AtDeadline = new(metav1.NewTime(noon.Add(time.Duration(minutes)*time.Minute))), action
		}
	}
	forceful := func(m *v1alpha1.NodeMaintenance) {
		m.Spec.Drain = v1alpha1.MaintenanceDrain{
			UnmanagedPods: v1alpha1.PodsEvict, EmptyDirPods: v1alpha1.PodsEvict, DaemonSetPods: v1alpha1.DaemonSetsEvict, Surge: v1alpha1.SurgeAlways,
		}
		m.Spec.Reason = "kernel"
	}
	cautious := Terms{
		By: "NodeMaintenance a", UnmanagedPods: v1alpha1.PodsBlock, EmptyDirPods: v1alpha1.PodsBlock, DaemonSetPods: v1alpha1.DaemonSetsIgnore,
		Surge: v1alpha1.SurgeAuto, AtDeadline: v1alpha1.DeadlineStop,
	}
	with := func(change func(*Terms)) Terms {
		terms := cautious
		change(&terms)
		return terms
	}
	cases := map[string]struct {
		all  []*v1alpha1.NodeMaintenance
		want Terms
	}{
		"defaults": {[]*v1alpha1.NodeMaintenance{maintenance("a")}, cautious},
		"of one": {[]*v1alpha1.NodeMaintenance{maintenance("a", forceful, deadline(5, v1alpha1.DeadlineDeletePods))}, Terms{
			By: "NodeMaintenance a", Why: "kernel", UnmanagedPods: v1alpha1.PodsEvict, EmptyDirPods: v1alpha1.PodsEvict, DaemonSetPods: v1alpha1.DaemonSetsEvict,
			Surge: v1alpha1.SurgeAlways, Deadline: noon.Add(5 * time.Minute).Unix(), AtDeadline: v1alpha1.DeadlineDeletePods,
		}},
		"the least force": {[]*v1alpha1.NodeMaintenance{maintenance("a", forceful), maintenance("b")}, with(func(t *Terms) {
			t.By, t.Why = "NodeMaintenance a, b", "kernel"
		})},
		"the tightest deadline, in either order": {
			[]*v1alpha1.NodeMaintenance{maintenance("a", deadline(9, v1alpha1.DeadlineDeletePods)), maintenance("b", deadline(5, v1alpha1.DeadlineDeletePods))},
			with(func(t *Terms) {
				t.By, t.Deadline, t.AtDeadline = "NodeMaintenance a, b", noon.Add(5*time.Minute).Unix(), v1alpha1.DeadlineDeletePods
			}),
		},
		"a deadline of one that deletes, and one that does not": {
			[]*v1alpha1.NodeMaintenance{maintenance("a", deadline(9, v1alpha1.DeadlineDeletePods)), maintenance("b")},
			with(func(t *Terms) { t.By, t.Deadline = "NodeMaintenance a, b", noon.Add(9*time.Minute).Unix() }),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, termsOf(c.all)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A node whose drain is suspended is not said to be drained.
func TestConditionsOfASuspendedDrain(t *testing.T) {
	for name, c := range map[string]struct {
		change change
		want   []corev1.NodeConditionType
	}{
		"suspended": {suspended, []corev1.NodeConditionType{corev1.NodeMaintenancePlanned}},
		"going on":  {atOnce(1, 1), []corev1.NodeConditionType{corev1.NodeDrainInProgress, corev1.NodeDrained, corev1.NodeMaintenanceInProgress}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0), c.change)}, Nodes: []*Node{node("n1", taken("draining"))}}
			var got []corev1.NodeConditionType
			for _, change := range Decide(in).Conditions {
				for _, condition := range change.Set {
					got = append(got, condition.Type)
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// What a blocker advises is a change of the object, not the flag of a command.
func TestRemediesChangeTheMaintenance(t *testing.T) {
	in := Input{
		Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", at("n1", draining, 0))}, Nodes: []*Node{node("n1")},
		Drains: map[string]*Drain{"n1": {Blockers: []drain.Blocker{{Reason: drain.UnreplicatedPod, Remedy: "--force to evict it all the same", Dead: true}}}},
	}
	const want = `kubectl patch nodemaintenance m --type=merge -p '{"spec":{"drain":{"unmanagedPods":"Evict"}}}' to evict it all the same`
	if got := Decide(in).Statuses["m"].Nodes[0].Blockers[0].Remedy; got != want {
		t.Errorf("the remedy is %q", got)
	}
}
