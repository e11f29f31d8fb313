package maintenance

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/snapshot"
)

// Terms are what the drain of a node goes by. They are comparable: other terms are another request.
type Terms struct {
	By            string // the maintenances, for people
	Why           string
	UnmanagedPods v1alpha1.PodHandling
	EmptyDirPods  v1alpha1.PodHandling
	DaemonSetPods v1alpha1.DaemonSetHandling
	Surge         v1alpha1.SurgePolicy
	Deadline      int64 // in Unix seconds; 0: none
	AtDeadline    v1alpha1.DeadlineAction
	NodeGoes      bool // by itself, as a notice says
}

// termsOf merges what several maintenances want of one node: the tightest deadline and the least force.
func termsOf(all []*v1alpha1.NodeMaintenance) Terms {
	var t Terms
	var names, reasons []string
	for i, m := range all {
		names = append(names, m.Name)
		if m.Spec.Reason != "" {
			reasons = append(reasons, m.Spec.Reason)
		}
		t.add(&m.Spec, i == 0)
		t.NodeGoes = t.NodeGoes || m.Spec.DeadlineTime != nil && notice.Leaves(m.Spec.Requester)
	}
	t.By = "NodeMaintenance " + strings.Join(names, ", ")
	t.Why = strings.Join(reasons, "; ")
	return t
}

// add adds what one more maintenance wants. What a field without a value means is what the schema's default does.
func (t *Terms) add(spec *v1alpha1.NodeMaintenanceSpec, first bool) {
	own := Terms{
		UnmanagedPods: cmp.Or(spec.Drain.UnmanagedPods, v1alpha1.PodsBlock), EmptyDirPods: cmp.Or(spec.Drain.EmptyDirPods, v1alpha1.PodsBlock),
		DaemonSetPods: cmp.Or(spec.Drain.DaemonSetPods, v1alpha1.DaemonSetsIgnore), Surge: cmp.Or(spec.Drain.Surge, v1alpha1.SurgeAuto),
		AtDeadline: cmp.Or(spec.AtDeadline, v1alpha1.DeadlineStop),
	}
	if spec.DeadlineTime != nil {
		own.Deadline = spec.DeadlineTime.Unix()
	}
	if first {
		*t = own
		return
	}
	t.UnmanagedPods = lesser(t.UnmanagedPods, own.UnmanagedPods, v1alpha1.PodsBlock)
	t.EmptyDirPods = lesser(t.EmptyDirPods, own.EmptyDirPods, v1alpha1.PodsBlock)
	t.DaemonSetPods = lesser(t.DaemonSetPods, own.DaemonSetPods, v1alpha1.DaemonSetsIgnore)
	t.Surge = lesser(t.Surge, own.Surge, v1alpha1.SurgeNever, v1alpha1.SurgeAuto)
	t.AtDeadline = lesser(t.AtDeadline, own.AtDeadline, v1alpha1.DeadlineStop)
	if own.Deadline != 0 && (t.Deadline == 0 || own.Deadline < t.Deadline) {
		t.Deadline = own.Deadline
	}
}

// lesser returns the first of weakest that is one of two values; of two others, which are the same, one of these.
func lesser[T comparable](a, b T, weakest ...T) T {
	for _, value := range weakest {
		if value == a || value == b {
			return value
		}
	}
	return a
}

// Request is what a drain of the node is asked for. It is kept up as long as it is wanted: where only what cannot clear by itself is left,
// it waits for somebody to clear it.
func (t Terms) Request(node string, self snapshot.Drainer, now time.Time) drain.Request {
	self.By = fmt.Sprintf("%s (%s)", t.By, self.By)
	request := drain.Request{
		Self: self, Why: t.Why, Nodes: []string{node}, Started: now, Persistent: true,
		Force: t.UnmanagedPods == v1alpha1.PodsEvict, DeleteEmptyDir: t.EmptyDirPods == v1alpha1.PodsEvict,
		NodeGoes: t.NodeGoes, DaemonSets: drain.DaemonSetsIgnore, Surge: drain.SurgeAuto, AtDeadline: drain.AtDeadlineStop,
	}
	if t.DaemonSetPods == v1alpha1.DaemonSetsEvict {
		request.DaemonSets = drain.DaemonSetsEvict
	}
	switch t.Surge {
	case v1alpha1.SurgeNever:
		request.Surge = drain.SurgeNever
	case v1alpha1.SurgeAlways:
		request.Surge = drain.SurgeAlways
	case v1alpha1.SurgeAuto:
	}
	if t.Deadline != 0 {
		request.Deadline = time.Unix(t.Deadline, 0)
	}
	if t.AtDeadline == v1alpha1.DeadlineDeletePods {
		request.AtDeadline = drain.AtDeadlineDelete
	}
	return request
}

// Plan is the drain of nodes that a maintenance alone makes, for a forecast: what would hold it for ever ends it.
func Plan(m *v1alpha1.NodeMaintenance, nodes []string, now time.Time) drain.Request {
	request := termsOf([]*v1alpha1.NodeMaintenance{m}).Request("", snapshot.Drainer{}, now)
	request.Nodes, request.Persistent = nodes, false
	request.MaxParallel, request.MaxZones = atLeastOne(m.Spec.Concurrency.Nodes), atLeastOne(m.Spec.Concurrency.Zones)
	return request
}
