package notice

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

func TestStandingOf(t *testing.T) {
	entry := func(e v1alpha1.MaintainedNode) func(*v1alpha1.NodeMaintenance) {
		return func(m *v1alpha1.NodeMaintenance) {
			e.Name = m.Spec.Nodes.Names[0]
			m.Status.Nodes = []v1alpha1.MaintainedNode{e}
		}
	}
	stalled := func(m *v1alpha1.NodeMaintenance) {
		m.Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: "True", Message: "no room"}, {Type: "Ready", Status: "False", Message: "no room"}}
	}
	event := func(name string) func(*Reported) { return func(r *Reported) { r.Event = name } }
	got := StandingOf(all(
		made(spot(0, event("unknown")), 0, entry(v1alpha1.MaintainedNode{Step: v1alpha1.StepDrained})),
		made(spot(2*time.Minute, event("draining")), 0, entry(v1alpha1.MaintainedNode{Step: v1alpha1.StepDraining, PodCount: 3})),
		made(spot(time.Minute, event("blocked")), 0, entry(v1alpha1.MaintainedNode{Step: v1alpha1.StepDraining, PodCount: 1, Blocked: true, Blockers: []v1alpha1.MaintenanceBlocker{{Message: "a budget"}}})),
		made(spot(5*time.Hour, event("later")), 0, stalled),
		made(spot(3*time.Minute, event("stalled")), 0, stalled),
		made(spot(4*time.Minute, event("new")), 0),
		made(spot(5*time.Minute, event("suspended")), 0, func(m *v1alpha1.NodeMaintenance) { m.Spec.Suspend = true }),
		made(spot(6*time.Minute, event("withdrawn")), 0, deleted, entry(v1alpha1.MaintainedNode{Step: v1alpha1.StepDrained})),
		made(spot(7*time.Minute, event("to be cordoned"), by(Rule{Action: Cordon})), 0, entry(v1alpha1.MaintainedNode{Step: v1alpha1.StepMarking})),
		made(spot(8*time.Minute, event("cordoned"), by(Rule{Action: Cordon})), 0, entry(v1alpha1.MaintainedNode{Step: v1alpha1.StepMarked})),
		made(spot(9*time.Minute, event("tainted"), by(Rule{Action: SetTaint})), 0, entry(v1alpha1.MaintainedNode{Step: v1alpha1.StepMarked})),
		made(spot(10*time.Minute, event("calls"), by(Rule{Action: CallHook})), 0, entry(v1alpha1.MaintainedNode{Step: v1alpha1.StepCallingHook})),
		made(spot(11*time.Minute, event("called"), by(Rule{Action: CallHook})), 0, func(m *v1alpha1.NodeMaintenance) { m.Status.DoneNodes = []string{"n1"} }),
		made(spot(0), 0, func(m *v1alpha1.NodeMaintenance) { m.Spec.Requester = "person.usher.sh/anna" }),
	))
	var lines []string
	for i := range got {
		left, known := got[i].Left(noon)
		lines = append(lines, fmt.Sprintf("%s %s %d %s %v %v %s", got[i].Event, got[i].State, got[i].PodCount, left, known, !got[i].DeadlineTime.IsZero(), got[i].Message))
	}
	if diff := cmp.Diff([]string{
		"blocked Blocked 1 1m0s true true a budget", "draining Draining 3 2m0s true true ", "stalled Blocked 0 3m0s true true no room", "new Planned 0 4m0s true true ",
		"suspended Suspended 0 5m0s true true ", "withdrawn GivingBack 0 6m0s true true ",
		"to be cordoned Planned 0 7m0s true false ", "cordoned Cordoned 0 8m0s true false ", "tainted Tainted 0 9m0s true false ",
		"calls Planned 0 10m0s true false ", "called HookCalled 0 11m0s true false ",
		"later Planned 0 5h0m0s true true ", "unknown Drained 0 -2562047h47m16.854775808s false false ",
	}, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
