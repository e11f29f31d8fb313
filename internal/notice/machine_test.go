package notice

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// machine is one that is deleted since a minute, and has node n1.
func machine(change ...func(*Machine)) Machine {
	m := Machine{Namespace: "pool", Name: "m1", UID: "uid-m1", Node: "n1", DeletedSince: noon.Add(-time.Minute), Hooked: true}
	for _, c := range change {
		c(&m)
	}
	return m
}

func TestMachines(t *testing.T) {
	deleting := machine()
	n := deleting.notice()
	at := func(step v1alpha1.MaintenanceStep, blocked bool) *v1alpha1.NodeMaintenance {
		return made(Reported{Notice: n}, time.Minute, func(m *v1alpha1.NodeMaintenance) {
			m.Status.Nodes = []v1alpha1.MaintainedNode{{Name: "n1", Step: step, Blocked: blocked}}
		})
	}
	for name, test := range map[string]struct {
		machine Machine
		config  string
		all     []*v1alpha1.NodeMaintenance
		notices int
		why     string
		next    time.Duration
	}{
		"is being deleted":             {machine: machine(), notices: 1, next: 59 * time.Minute},
		"is not":                       {machine: machine(func(m *Machine) { m.DeletedSince = time.Time{} })},
		"does not wait for Usher":      {machine: machine(func(m *Machine) { m.Hooked = false })},
		"did, and is there":            {machine: machine(func(m *Machine) { m.Hooked = false }), all: all(at(v1alpha1.StepDrained, false)), notices: 1},
		"drains":                       {machine: machine(), all: all(at(v1alpha1.StepDraining, false)), notices: 1, next: 59 * time.Minute},
		"is drained":                   {machine: machine(), all: all(at(v1alpha1.StepDrained, false)), notices: 1, why: "NodeMaintenance " + n.Name() + " has done with node n1"},
		"is drained, and was opened":   {machine: machine(), all: all(at(v1alpha1.StepDrained, true)), notices: 1, next: 59 * time.Minute},
		"is being given back":          {machine: machine(), all: all(made(Reported{Notice: n}, 0, deleted)), notices: 1, next: 59 * time.Minute},
		"has no node yet":              {machine: machine(func(m *Machine) { m.Node = "" }), why: "it has no node"},
		"has a node that is gone":      {machine: machine(func(m *Machine) { m.Node = "n9" }), notices: 1, why: "it has no node"},
		"of which nothing is done":     {machine: machine(), config: "kinds: {Termination: Report}", notices: 1, why: "by the configuration of notices nothing is done about its node"},
		"was held for as long as said": {machine: machine(), config: "machineHold: 1m", all: all(at(v1alpha1.StepDraining, true)), notices: 1, why: "it was held for 1m0s (machineHold), and node n1 is not drained: Cluster API goes on"},
		"is held for longer":           {machine: machine(), config: "machineHold: 2h", notices: 1, next: 119 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c := parsed(t, test.config)
			if found := ByMachines([]Machine{test.machine}, test.all); len(found) != test.notices {
				t.Errorf("notices: %+v", found)
			}
			found, next := c.Releases([]Machine{test.machine}, []Node{node("n1")}, test.all, noon)
			why := ""
			if len(found) > 0 {
				why = found[0].Why
			}
			if diff := cmp.Diff(test.why, why); diff != "" {
				t.Errorf("released (-want +got):\n%s", diff)
			}
			if want := noon.Add(test.next); test.next > 0 && !next.Equal(want) || test.next == 0 && !next.IsZero() {
				t.Errorf("next look at %s", next)
			}
		})
	}
}
