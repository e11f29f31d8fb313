package maintenance

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// node is a Ready node in zone a, with label pool=web.
func node(name string, change ...func(*Node)) *Node {
	n := &Node{
		Node: &snapshot.Node{
			Name: name, UID: types.UID("uid-" + name), Zone: "a", Ready: true,
			Labels: map[string]string{"pool": "web"},
		},
		BootID: "boot-1", KubeletVersion: "v1.37.0",
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func inZone(zone string) func(*Node) { return func(n *Node) { n.Zone = zone } }

// taken is a node on which a maintenance's drain has this state.
func taken(state string) func(*Node) {
	return func(n *Node) {
		n.Unschedulable = true
		n.Drain = &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: snapshot.MaintenancePrefix + n.Name}, Cordoned: true, State: state}
	}
}

// maintenance is of the nodes with label pool=web, adopted, one node at a time.
func maintenance(name string, change ...func(*v1alpha1.NodeMaintenance)) *v1alpha1.NodeMaintenance {
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, Finalizers: []string{Finalizer}},
		Spec: v1alpha1.NodeMaintenanceSpec{
			Nodes:       v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "web"}}},
			Requester:   "person.usher.sh/anna",
			Concurrency: v1alpha1.MaintenanceConcurrency{Nodes: 1, Zones: 1},
			WhenDrained: v1alpha1.WhenDrained{KeepCordoned: &v1alpha1.KeepCordoned{}},
		},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

type change = func(*v1alpha1.NodeMaintenance)

func atOnce(nodes, zones int32) change {
	return func(m *v1alpha1.NodeMaintenance) {
		m.Spec.Concurrency = v1alpha1.MaintenanceConcurrency{Nodes: nodes, Zones: zones}
	}
}

func of(names ...string) change {
	return func(m *v1alpha1.NodeMaintenance) { m.Spec.Nodes = v1alpha1.NodeSelection{Names: names} }
}

func then(when v1alpha1.WhenDrained) change {
	return func(m *v1alpha1.NodeMaintenance) { m.Spec.WhenDrained = when }
}

// replacing deletes nodes, and has their members replaced before.
var replacing = v1alpha1.WhenDrained{DeleteNode: &v1alpha1.DeleteNode{Members: v1alpha1.MembersReplace}}

// at puts a node into a step, since so long.
func at(node string, step v1alpha1.MaintenanceStep, since time.Duration) change {
	return func(m *v1alpha1.NodeMaintenance) {
		began := metav1.NewTime(noon.Add(-since))
		m.Status.Nodes = append(m.Status.Nodes, v1alpha1.MaintainedNode{
			Name: node, UID: types.UID("uid-" + node), Step: step, StartTime: began, StepTime: began, BootID: "boot-1", KubeletVersion: "v1.37.0",
		})
	}
}

// blocked has something hold the nodes in work.
func blocked(m *v1alpha1.NodeMaintenance) {
	for i := range m.Status.Nodes {
		e := &m.Status.Nodes[i]
		e.Blocked, e.Blockers = true, []v1alpha1.MaintenanceBlocker{{Reason: "BudgetExhausted", Message: "a budget"}}
	}
}

func deleted(m *v1alpha1.NodeMaintenance) { m.DeletionTimestamp = new(metav1.NewTime(noon)) }

func suspended(m *v1alpha1.NodeMaintenance) { m.Spec.Suspend = true }

// outcome is a drain that has ended so.
func outcome(how drain.Outcome) *Drain { return &Drain{Begun: true, Outcome: how} }

// brief says of a decision what is to be done, in lines.
func brief(d Decision) []string {
	var lines []string
	for _, o := range d.Orders {
		lines = append(lines, fmt.Sprintf("%s %s", o.Want, o.Node))
	}
	for _, h := range d.Hooks {
		lines = append(lines, "hook "+h.Body.Node)
	}
	for _, r := range d.Replacements {
		lines = append(lines, fmt.Sprintf("replace the members %s %s for %s", map[bool]string{false: "on", true: "gone from"}[r.Gone], r.Node, r.Requester))
	}
	for _, del := range d.Deletions {
		lines = append(lines, "delete "+del.Node)
	}
	for _, m := range d.Marks {
		for _, mark := range m.Release {
			lines = append(lines, "unmark "+m.Node+" "+mark)
		}
		for _, mark := range m.Wanted {
			lines = append(lines, "mark "+m.Node+" "+mark)
		}
	}
	for _, name := range d.Adopt {
		lines = append(lines, "adopt "+name)
	}
	for _, name := range d.Release {
		lines = append(lines, "release "+name)
	}
	return lines
}

// steps says where the nodes of a maintenance are to be.
func steps(d Decision, name string) []string {
	status := d.Statuses[name]
	if status == nil {
		return nil
	}
	var lines []string
	for _, e := range status.Nodes {
		line := e.Name + " " + string(e.Step)
		if e.Blocked {
			line += " blocked"
		}
		lines = append(lines, line)
	}
	for _, done := range status.DoneNodes {
		lines = append(lines, done+" done")
	}
	return lines
}
