package maintenance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/snapshot"
)

// says is a warning of a pod in namespace shop.
func says(reason drain.Reason, pod string) drain.Warning {
	return drain.Warning{Reason: reason, Pod: snapshot.Key{Namespace: "shop", Name: pod}, Node: "n1", Message: "words", Remedy: "--at-deadline=delete"}
}

func warned(reason drain.Reason, count int32, pods ...string) v1alpha1.MaintenanceWarning {
	w := v1alpha1.MaintenanceWarning{Reason: string(reason), Count: count}
	for _, name := range pods {
		w.Pods = append(w.Pods, v1alpha1.WarnedPod{
			Name: "shop/" + name, Message: "words", Remedy: `kubectl patch nodemaintenance m --type=merge -p '{"spec":{"atDeadline":"DeletePods"}}'`,
		})
	}
	return w
}

// stored gives the first node in work warnings that are in the API.
func stored(warnings ...v1alpha1.MaintenanceWarning) change {
	return func(m *v1alpha1.NodeMaintenance) { m.Status.Nodes[0].Warnings = warnings }
}

func TestWarningsOfANode(t *testing.T) {
	var dozen []drain.Warning
	var ten []string
	for i := range 12 {
		name := fmt.Sprintf("web-%02d", i)
		dozen = append(dozen, says(drain.LocalStorage, name))
		ten = append(ten, name)
	}
	ten = ten[:mostWarned]
	run := func(warnings ...drain.Warning) *Drain { return &Drain{Begun: true, PodCount: 1, Warnings: warnings} }
	lost, local := says(drain.WillBeLost, "db-0"), says(drain.LocalStorage, "db-0")
	for name, c := range map[string]struct {
		drain  *Drain
		before []v1alpha1.MaintenanceWarning
		change change
		want   []v1alpha1.MaintenanceWarning
	}{
		"what can be helped comes first":       {drain: run(local, says(drain.GraceCut, "web"), lost, says(drain.UnreplicatedPod, "once")), want: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "db-0"), warned(drain.GraceCut, 1, "web"), warned(drain.UnreplicatedPod, 1, "once"), warned(drain.LocalStorage, 1, "db-0")}},
		"all are counted, and ten are named":   {drain: run(dozen...), want: []v1alpha1.MaintenanceWarning{warned(drain.LocalStorage, 12, ten...)}},
		"what is not true any more":            {drain: run(), before: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "db-0"), warned(drain.GraceCut, 1, "web")}},
		"what is lost with pods that are gone": {drain: run(says(drain.LocalStorage, "db-1")), before: []v1alpha1.MaintenanceWarning{warned(drain.LocalStorage, 1, "db-0")}, want: []v1alpha1.MaintenanceWarning{warned(drain.LocalStorage, 2, "db-0", "db-1")}},
		"… as it was named before":             {drain: run(local), before: []v1alpha1.MaintenanceWarning{warned(drain.LocalStorage, 12, ten...)}, want: []v1alpha1.MaintenanceWarning{warned(drain.LocalStorage, 12, ten...)}},
		"… of a node that is drained":          {drain: outcome(drain.Drained), before: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "web"), warned(drain.LocalStorage, 1, "db-0")}, want: []v1alpha1.MaintenanceWarning{warned(drain.LocalStorage, 1, "db-0")}},
		"another process leads":                {before: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "db-0")}, want: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "db-0")}},
		"its deadline has passed":              {drain: &Drain{Begun: true, Outcome: drain.DeadlinePassed, Warnings: []drain.Warning{lost}}, want: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "db-0")}},
		"its drain is suspended":               {drain: run(lost, local), change: suspended, before: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "db-0")}},
		"it is deleted":                        {drain: run(lost), change: deleted, before: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "db-0")}},
		"something objects to it":              {drain: &Drain{Checks: true, Checked: true, Blockers: objectedTo.Blockers, Warnings: []drain.Warning{lost}}, want: []v1alpha1.MaintenanceWarning{warned(drain.WillBeLost, 1, "db-0")}},
	} {
		t.Run(name, func(t *testing.T) {
			m := maintenance("m", at("n1", draining, 0), stored(c.before...))
			if c.change != nil {
				c.change(m)
			}
			in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Nodes: []*Node{node("n1", taken("draining"))}, Drains: map[string]*Drain{}}
			if c.drain != nil {
				in.Drains["n1"] = c.drain
			}
			status := Decide(in).Statuses["m"]
			if status == nil {
				status = &m.Status
			}
			if diff := cmp.Diff(c.want, status.Nodes[0].Warnings, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Warnings fit into a status, whatever tenants name and however many nodes it has in work: their counts are left where their names have no room.
func TestWarningsFit(t *testing.T) {
	m := maintenance("m", atOnce(400, 1))
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Drains: map[string]*Drain{}}
	var all []drain.Warning
	for _, reason := range warningOrder {
		for i := range 20 {
			w := says(reason, fmt.Sprintf("%s-%d", strings.Repeat("x", 200), i))
			w.Message, w.Remedy = strings.Repeat("<", 2000), strings.Repeat("&", 2000)
			all = append(all, w)
		}
	}
	for i := range 400 {
		n := realNode(i)
		taken("draining")(n)
		in.Nodes = append(in.Nodes, n)
		m.Status.Nodes = append(m.Status.Nodes, entryFor(n, draining))
		in.Drains[n.Name] = &Drain{Begun: true, PodCount: 5, Warnings: all}
	}
	status := Decide(in).Statuses["m"]
	if size := jsonSize(t, status); size > mostStatus || size > mostWarnings+400*entrySize {
		t.Errorf("a status of %d bytes", size)
	}
	if first, last := status.Nodes[0].Warnings, status.Nodes[399].Warnings; len(first[0].Pods) != mostWarned || len(last) != len(warningOrder) || last[0].Count != 20 || last[0].Pods != nil {
		t.Errorf("the first node has %d pods, the last %+v", len(first[0].Pods), last)
	}
}

// Only a notice by which the node goes has it go at the deadline.
func TestNodeGoes(t *testing.T) {
	by := func(kind notice.Kind, change ...change) *v1alpha1.NodeMaintenance {
		return maintenance("m", append(change, func(m *v1alpha1.NodeMaintenance) { m.Spec.Requester = notice.Requester(notice.EC2, kind) })...)
	}
	deadline := func(m *v1alpha1.NodeMaintenance) { m.Spec.DeadlineTime = &m.CreationTimestamp }
	got := map[string]bool{}
	for name, all := range map[string][]*v1alpha1.NodeMaintenance{
		"spot": {by(notice.SpotInterruption, deadline)}, "no deadline": {by(notice.SpotInterruption)}, "problem": {by(notice.Problem, deadline)},
		"a person": {maintenance("m", deadline)}, "one of two": {maintenance("m"), by(notice.SpotInterruption, deadline)},
	} {
		got[name] = termsOf(all).Request("n1", snapshot.Drainer{}, noon).NodeGoes
	}
	want := map[string]bool{"spot": true, "no deadline": false, "problem": false, "a person": false, "one of two": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
