package maintenance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// standingOf returns whether a status is stalled, and what it says of that.
func standingOf(status *v1alpha1.NodeMaintenanceStatus) (stalled bool, message string) {
	if c := meta.FindStatusCondition(status.Conditions, conditionReady); c != nil {
		message = c.Reason + ": " + c.Message
	}
	return meta.IsStatusConditionTrue(status.Conditions, conditionStalled), message
}

// A maintenance whose nodes wait for room says for which nodes and whose, and what to do; where these do not come back by themselves it is stalled.
func TestMaintenanceSaysWhatItWaitsFor(t *testing.T) {
	wait := then(v1alpha1.WhenDrained{Wait: &v1alpha1.MaintenanceWait{For: v1alpha1.WaitBootIDChanged, Timeout: metav1.Duration{Duration: time.Minute}}})
	const asMany = "node n2 waits: as many nodes or zones are out of service as spec.concurrency of NodeMaintenance m2 allows: node n1 "
	const waits, seeM1 = "; wait until one of them is given back, or raise spec.concurrency of NodeMaintenance m2", "; see what holds them: kubectl describe nodemaintenance m1; give them back: usher maintain --delete m1; or raise spec.concurrency of NodeMaintenance m2"
	for name, c := range map[string]struct {
		other   *v1alpha1.NodeMaintenance // nil: there is none any more
		drain   *Drain
		stalled bool
		want    string
	}{
		"a drain":                    {maintenance("m1", of("n1"), at("n1", draining, 0)), &Drain{Begun: true}, false, "WaitsForRoom: " + asMany + "(NodeMaintenance m1)" + waits},
		"a drain that is held":       {maintenance("m1", of("n1"), at("n1", draining, 0)), &Drain{Begun: true, PodCount: 1, Blockers: objectedTo.Blockers}, true, "NoRoom: " + asMany + "(NodeMaintenance m1, blocked)" + seeM1},
		"a node that is waited for":  {maintenance("m1", of("n1"), wait, at("n1", v1alpha1.StepWaiting, time.Second)), nil, false, "WaitsForRoom: " + asMany + "(NodeMaintenance m1)" + waits},
		"… for too long":             {maintenance("m1", of("n1"), wait, at("n1", v1alpha1.StepWaiting, 24*time.Hour)), nil, true, "NoRoom: " + asMany + "(NodeMaintenance m1, blocked)" + seeM1},
		"one that is suspended":      {maintenance("m1", of("n1"), suspended, at("n1", draining, 0)), nil, true, "NoRoom: " + asMany + "(NodeMaintenance m1, suspended)" + seeM1},
		"one that is being deleted":  {maintenance("m1", of("n1"), deleted, at("n1", draining, 0)), nil, false, "WaitsForRoom: " + asMany + "(NodeMaintenance m1)" + waits},
		"one that is gone":           {nil, nil, false, "WaitsForRoom: " + asMany + "(it is being given back)" + waits},
		"… whose drain does not end": {nil, &Drain{Stopped: true, Failure: "no answer"}, true, "NoRoom: " + asMany + "(its drain cannot be ended: no answer)" + waits},
		"a drain that cannot be run": {maintenance("m1", of("n1"), at("n1", draining, 0)), &Drain{Failure: "no answer"}, true, "NoRoom: " + asMany + "(NodeMaintenance m1, blocked)" + seeM1},
	} {
		t.Run(name, func(t *testing.T) {
			m2 := maintenance("m2", of("n2"))
			in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m2}, Nodes: []*Node{node("n1", taken("draining")), node("n2")}, Drains: map[string]*Drain{}}
			if c.other != nil {
				in.Maintenances = append(in.Maintenances, c.other)
			}
			if c.drain != nil {
				in.Drains["n1"] = c.drain
			}
			stalled, message := standingOf(Decide(in).Statuses["m2"])
			if stalled != c.stalled || message != c.want {
				t.Errorf("stalled %v, want %v\n got %s\nwant %s", stalled, c.stalled, message, c.want)
			}
		})
	}
}

// So says one that has its node in work already, since something has objected to its drain.
func TestNodeInWorkSaysWhatItWaitsFor(t *testing.T) {
	m1, m2 := maintenance("m1", of("n1"), at("n1", draining, 0)), maintenance("m2", of("n2"), at("n2", draining, 0))
	in := Input{
		Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m1, m2}, Nodes: []*Node{node("n1", taken("draining")), node("n2")},
		Drains: map[string]*Drain{"n1": {Begun: true, PodCount: 1, Blockers: objectedTo.Blockers}, "n2": unobjected},
	}
	status := Decide(in).Statuses["m2"]
	b := status.Nodes[0].Blockers
	if stalled, message := standingOf(status); !stalled || len(b) != 1 || !strings.HasSuffix(b[0].Message, "allows: node n1 (NodeMaintenance m1, blocked)") || !strings.Contains(b[0].Remedy, "--delete m1") {
		t.Errorf("stalled %v, %s; blockers %+v", stalled, message, b)
	}
}

// One that keeps the node that others are held at does nothing more to it, and does not hide that it does not come back by itself.
func TestKeptNodeThatAnotherIsHeldAt(t *testing.T) {
	m1, m2 := maintenance("m1", at("n1", v1alpha1.StepDrained, 0), at("n2", draining, 0)), maintenance("m2", of("n1"), at("n1", draining, 0))
	in := Input{
		Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m1, m2}, Nodes: []*Node{node("n1", taken("draining")), node("n2")},
		Drains: map[string]*Drain{"n1": {Begun: true, PodCount: 1, Blockers: objectedTo.Blockers}, "n2": unobjected},
	}
	const want = "NoRoom: node n2 waits: as many nodes or zones are out of service as spec.concurrency of NodeMaintenance m1 allows: node n1 (NodeMaintenance m2, blocked); " +
		"see what holds them: kubectl describe nodemaintenance m2; give them back: usher maintain --delete m2; or raise spec.concurrency of NodeMaintenance m1"
	if stalled, message := standingOf(Decide(in).Statuses["m1"]); !stalled || message != want {
		t.Errorf("stalled %v\n got %s\nwant %s", stalled, message, want)
	}
	in.Maintenances = []*v1alpha1.NodeMaintenance{m1} // what the remedy says
	if orders := brief(Decide(in)); !slices.Contains(orders, "drain n2") {
		t.Errorf("without m2: %v", orders)
	}
}

// Nodes that have no entry, and cannot be looked into, count as blocked, and the first is named.
func TestChecksThatFailCountAsBlocked(t *testing.T) {
	m := maintenance("m", atOnce(1000, 1))
	in := Input{Now: noon, Maintenances: []*v1alpha1.NodeMaintenance{m}, Drains: map[string]*Drain{}}
	for i := range 3 * mostUntouched {
		n := realNode(i)
		in.Nodes, in.Drains[n.Name] = append(in.Nodes, n), &Drain{Checks: true, Failure: "no answer"}
	}
	m.Status = *Decide(in).Statuses["m"]
	status := Decide(in).Statuses["m"]
	if status == nil {
		status = &m.Status
	}
	if c := status.Counts; c.Blocked != 3*mostUntouched || len(status.Nodes) > mostUntouched {
		t.Errorf("%d entries, counts %+v", len(status.Nodes), c)
	}
	status.Nodes = nil
	d := &decider{Input: in, looks: map[string][]*v1alpha1.NodeMaintenance{in.Nodes[7].Name: {m}}}
	w := &work{m: m, status: status, names: []string{in.Nodes[7].Name}}
	if words := d.blockedWords(w); !strings.Contains(words, "the first is "+in.Nodes[7].Name+": no answer") {
		t.Errorf("it says %q", words)
	}
}
