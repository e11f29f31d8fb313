package notice

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// State is where a notice's maintenance is.
type State string

// The states.
const (
	Planned    State = "Planned" // its drain is to begin, at BeginTime where that is set
	Suspended  State = "Suspended"
	Draining   State = "Draining"
	Blocked    State = "Blocked"
	Drained    State = "Drained"
	Cordoned   State = "Cordoned"
	Tainted    State = "Tainted"
	HookCalled State = "HookCalled"
	GivingBack State = "GivingBack" // it was withdrawn
)

// Standing is a notice that has led to a maintenance, and what came of it.
type Standing struct {
	Notice

	Maintenance  string
	Action       Action
	Since        time.Time
	BeginTime    time.Time // when its drain begins; zero: at once
	DeadlineTime time.Time // zero: none
	State        State
	PodCount     int    // that have to leave yet, while it drains
	Message      string // why it is planned or blocked
	// Warnings are what its drain costs, and what that will not have done in time.
	Warnings []v1alpha1.MaintenanceWarning
}

// OnlyReported is a notice that has led to an event about its node, and to nothing else.
type OnlyReported struct {
	Node    string
	Kind    Kind
	Since   time.Time
	Message string // of its source
}

// Left is how long is left until the node goes; false where that is not known.
func (s *Standing) Left(now time.Time) (time.Duration, bool) {
	return s.EffectiveTime.Sub(now), !s.EffectiveTime.IsZero()
}

// StandingOf returns the notices that maintenances were made by: those whose nodes go first come first, and those last of which that is not known.
func StandingOf(all []*v1alpha1.NodeMaintenance) []Standing {
	var found []Standing
	for _, m := range all {
		if n, is := noticeOf(m); is {
			found = append(found, standingOf(m, n))
		}
	}
	unknown := func(s *Standing) int {
		if s.EffectiveTime.IsZero() {
			return 1
		}
		return 0
	}
	slices.SortFunc(found, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(unknown(&a), unknown(&b)), a.EffectiveTime.Compare(b.EffectiveTime), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Maintenance, b.Maintenance))
	})
	return found
}

func standingOf(m *v1alpha1.NodeMaintenance, n Notice) Standing {
	s := Standing{Notice: n, Maintenance: m.Name, Action: cmp.Or(Action(m.Spec.Action), Drain), Since: m.CreationTimestamp.Time, BeginTime: timeOf(m, BeginAnnotation), State: Planned}
	if m.Spec.DeadlineTime != nil {
		s.DeadlineTime = m.Spec.DeadlineTime.Time
	}
	at := slices.IndexFunc(m.Status.Nodes, func(e v1alpha1.MaintainedNode) bool { return e.Name == n.Node })
	if at >= 0 {
		s.Warnings = m.Status.Nodes[at].Warnings
	}
	switch {
	case m.DeletionTimestamp != nil:
		s.State = GivingBack
	case m.Spec.Suspend && s.BeginTime.IsZero():
		s.State = Suspended
	case slices.Contains(m.Status.DoneNodes, n.Node):
		s.State = s.done()
	case at < 0:
		s.plan(m)
	case m.Status.Nodes[at].Blocked:
		s.State, s.PodCount = Blocked, int(m.Status.Nodes[at].PodCount)
		if b := m.Status.Nodes[at].Blockers; len(b) > 0 {
			s.Message = b[0].Message
		}
	case m.Status.Nodes[at].Step == v1alpha1.StepDraining:
		s.State, s.PodCount = Draining, int(m.Status.Nodes[at].PodCount)
	case m.Status.Nodes[at].Step == v1alpha1.StepMarking || s.Action == CallHook:
		s.plan(m)
	default:
		s.State = s.done()
	}
	return s
}

// done is the state of a notice whose action is done.
func (s *Standing) done() State {
	switch s.Action {
	case Cordon:
		return Cordoned
	case SetTaint:
		return Tainted
	case CallHook:
		return HookCalled
	case Drain, Report:
	}
	return Drained
}

// plan says of a maintenance that has not begun with its node what it waits for.
func (s *Standing) plan(m *v1alpha1.NodeMaintenance) {
	if s.BeginTime.IsZero() && meta.IsStatusConditionTrue(m.Status.Conditions, "Stalled") {
		s.State = Blocked
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, "Ready"); c != nil && c.Status == metav1.ConditionFalse && s.BeginTime.IsZero() {
		s.Message = c.Message
	}
}
