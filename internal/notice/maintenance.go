package notice

import (
	"cmp"
	"math"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Annotations of the maintenances that notices make: what has to be known of a notice once it is not reported any more.
const (
	EventAnnotation     = "notice.usher.sh/event"
	EffectiveAnnotation = "notice.usher.sh/effective-time" // RFC 3339, as the others
	EndAnnotation       = "notice.usher.sh/end-time"       // it stands until then without being reported again
	BeginAnnotation     = "notice.usher.sh/begin-time"     // the maintenance is suspended until then
)

// noticeOf returns the notice that a maintenance was made by; false where none made it.
func noticeOf(m *v1alpha1.NodeMaintenance) (Notice, bool) {
	source, kind, is := Of(m.Spec.Requester)
	if !is || len(m.Spec.Nodes.Names) != 1 {
		return Notice{}, false
	}
	n := Notice{
		Source: source, Kind: kind, Event: m.Annotations[EventAnnotation], Node: m.Spec.Nodes.Names[0], Message: m.Spec.Reason,
		EffectiveTime: timeOf(m, EffectiveAnnotation), EndTime: timeOf(m, EndAnnotation),
	}
	return n, n.Name() == m.Name
}

// timeOf is a time that an annotation has; zero where it has none.
func timeOf(m *v1alpha1.NodeMaintenance, annotation string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, m.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// setTime writes a time as an annotation; zero takes it off.
func setTime(m *v1alpha1.NodeMaintenance, annotation string, t time.Time) {
	if t.IsZero() {
		delete(m.Annotations, annotation)
		return
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[annotation] = t.UTC().Format(time.RFC3339Nano)
}

// maintenance is what a notice about a node makes. The node owns it: it goes with the node, and is not meant for another one of the name.
func (c *Config) maintenance(r *Reported, node *Node, now time.Time) *v1alpha1.NodeMaintenance {
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{
			Name:            r.Name(),
			Annotations:     map[string]string{EventAnnotation: r.Event},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: v1alpha1.NodeMaintenanceSpec{
			Nodes:       v1alpha1.NodeSelection{Names: []string{node.Name}},
			Requester:   Requester(r.Source, r.Kind),
			Reason:      reason(&r.Notice),
			Drain:       c.Drain,
			Concurrency: c.Concurrency,
			AtDeadline:  v1alpha1.DeadlineStop,
			WhenDrained: v1alpha1.WhenDrained{KeepCordoned: &v1alpha1.KeepCordoned{}},
		},
	}
	if Leaves(m.Spec.Requester) {
		m.Spec.Concurrency = v1alpha1.MaintenanceConcurrency{Nodes: math.MaxInt32, Zones: math.MaxInt32}
	}
	c.act(m, r)
	if r.Rule != nil && r.Rule.Hook != "" {
		m.Spec.WhenDrained.Hook = &v1alpha1.MaintenanceHook{URL: r.Rule.Hook, Timeout: metav1.Duration{Duration: 10 * time.Second}}
	}
	setTime(m, EffectiveAnnotation, r.EffectiveTime)
	setTime(m, EndAnnotation, r.EndTime)
	if begin := c.begin(r.EffectiveTime); begin.After(now) {
		m.Spec.Suspend = true
		setTime(m, BeginAnnotation, begin)
	}
	c.tighten(m, r.EffectiveTime, now)
	return m
}

// act sets what is done to the node.
func (c *Config) act(m *v1alpha1.NodeMaintenance, r *Reported) {
	m.Spec.Action = v1alpha1.MaintenanceAction(c.action(r))
	switch m.Spec.Action {
	case v1alpha1.ActionTaint:
		m.Spec.Taint = r.Rule.Sets.DeepCopy()
	case v1alpha1.ActionHook:
		m.Spec.WhenDrained = v1alpha1.WhenDrained{}
	case v1alpha1.ActionDrain, v1alpha1.ActionCordon:
	}
}

// does reports whether a maintenance does to its node what the configuration says now of its notice.
func (c *Config) does(r *Reported, m *v1alpha1.NodeMaintenance) bool {
	wanted := &v1alpha1.NodeMaintenance{}
	c.act(wanted, r)
	return wanted.Spec.Action == cmp.Or(m.Spec.Action, v1alpha1.ActionDrain) && apiequality.Semantic.DeepEqual(wanted.Spec.Taint, m.Spec.Taint)
}

// drains reports whether a maintenance of a notice drains its node.
func drains(m *v1alpha1.NodeMaintenance) bool {
	return cmp.Or(m.Spec.Action, v1alpha1.ActionDrain) == v1alpha1.ActionDrain
}

// reason says for people why a node is drained, in as much as a maintenance may have.
func reason(n *Notice) string {
	const most = 256
	return text.Cut(strings.TrimSuffix(string(n.Source)+": "+string(n.Kind)+": "+cmp.Or(text.Line(n.Message), text.Line(n.Event)), ": "), most)
}

// begin is when the drain of a node begins that goes at a time; zero: at once.
func (c *Config) begin(effective time.Time) time.Time {
	if effective.IsZero() {
		return time.Time{}
	}
	return effective.Add(-c.BeginBefore)
}

// tighten sets the deadline of a drain whose node goes at a time, unless it has an earlier one.
func (c *Config) tighten(m *v1alpha1.NodeMaintenance, effective, now time.Time) {
	deadline, is := c.deadline(effective, now)
	if !is || !drains(m) || m.Spec.DeadlineTime != nil && !deadline.Before(m.Spec.DeadlineTime) {
		return
	}
	if m.Spec.DeadlineTime == nil {
		m.Spec.AtDeadline = c.AtDeadline
	}
	m.Spec.DeadlineTime = &deadline
}

// deadline is when a drain has to be over, in whole seconds: before the node goes, by the margin or a quarter of the time that is left. A time that has passed
// makes none: while the node is there, its pods leave as their budgets let them.
func (c *Config) deadline(effective, now time.Time) (deadline metav1.Time, is bool) {
	if effective.IsZero() {
		return metav1.Time{}, false
	}
	left := effective.Sub(now)
	at := effective.Add(-min(c.Margin, left/4)).Truncate(time.Second)
	return metav1.NewTime(at), at.After(now)
}
