package notice

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Input is what a decision goes by.
type Input struct {
	Now     time.Time
	Config  *Config
	Nodes   []Node
	Notices []Reported // in the order in which they were reported
	// Complete are the sources of which Notices has all that stand: others of theirs are withdrawn, but for those of kubelets that report nothing.
	Complete     []Source
	Maintenances []*v1alpha1.NodeMaintenance // as read; they are not changed
	// Reported has the names of the notices that have their Events.
	Reported map[string]bool
}

// Result is what a notice comes to.
type Result string

// The results.
const (
	Acts      Result = "Acts"      // a maintenance drains the node, or does what else is to be done, or will
	Reports   Result = "Reports"   // an Event says it
	Withdraws Result = "Withdraws" // it does not stand any more, and what it has led to is undone
	Nothing   Result = "Nothing"   // it does not stand, and has led to nothing
	NoNode    Result = "NoNode"    // there is no such node
	Waits     Result = "Waits"     // nothing can be made under its name yet
)

// Outcome is what becomes of a notice, in the order in which they are given.
type Outcome struct {
	Notice

	Result  Result
	Message string // a sentence
}

// Change is a maintenance as it was seen, and as it is to be.
type Change struct {
	Seen, To *v1alpha1.NodeMaintenance
}

// Event is to be made about a node.
type Event struct {
	Name   string
	Node   string
	Reason string
	Note   string
}

// Decision is what to do now.
type Decision struct {
	Create   []*v1alpha1.NodeMaintenance
	Change   []Change
	Delete   []*v1alpha1.NodeMaintenance // as seen
	Events   []Event
	Outcomes []Outcome
	// Next is when to look again without an event; zero: only on one.
	Next time.Time
}

type decider struct {
	Input

	nodes map[string]*Node
	known map[string]*v1alpha1.NodeMaintenance // by name
	seen  map[string]bool                      // names of the notices of the input
	out   Decision
}

// Decide returns what follows from notices.
func Decide(in Input) Decision {
	d := &decider{Input: in, nodes: map[string]*Node{}, known: map[string]*v1alpha1.NodeMaintenance{}, seen: map[string]bool{}}
	for i := range in.Nodes {
		d.nodes[in.Nodes[i].Name] = &in.Nodes[i]
	}
	for _, m := range in.Maintenances {
		d.known[m.Name] = m
	}
	for _, r := range merged(in.Notices) {
		d.seen[r.Name()] = true
		result, message := d.follow(&r)
		d.out.Outcomes = append(d.out.Outcomes, Outcome{r.Notice, result, message})
	}
	for _, m := range in.Maintenances {
		if n, is := noticeOf(m); is && m.DeletionTimestamp == nil && !d.seen[m.Name] {
			d.keep(m, &n)
		}
	}
	return d.out
}

// follow decides about a notice that was reported.
func (d *decider) follow(r *Reported) (Result, string) {
	m, node := d.known[r.Name()], d.nodes[r.Node]
	if m != nil && !strings.Contains(m.Spec.Requester, domain+"/") {
		return Waits, fmt.Sprintf("NodeMaintenance %s, which was made by %s, has the name that this notice needs: delete it", m.Name, text.Name(m.Spec.Requester))
	}
	switch over := r.over(d.Now); {
	case over && (m == nil || m.DeletionTimestamp != nil):
		return Nothing, fmt.Sprintf("%s of node %s does not stand, and nothing is done for it", r.Kind, text.Name(r.Node))
	case over:
		d.out.Delete = append(d.out.Delete, m)
		return Withdraws, fmt.Sprintf("%s of node %s does not stand any more: the node is given back", r.Kind, r.Node)
	case node == nil:
		return NoNode, fmt.Sprintf("there is no node %s", text.Name(r.Node))
	case d.Config.action(r) == Report:
		return d.report(r, node, m)
	case m == nil:
		m = d.Config.maintenance(r, node, d.Now)
		d.out.Create = append(d.out.Create, m)
		d.wakeFor(m)
		return Acts, d.words(m, node)
	case m.DeletionTimestamp != nil:
		return Waits, fmt.Sprintf("node %s is being given back after an earlier report; the next one counts once that is done", r.Node)
	case !d.Config.does(r, m):
		d.out.Delete = append(d.out.Delete, m)
		return Waits, fmt.Sprintf("node %s is given back first, since by the configuration something else is to be done about %s now", r.Node, r.Kind)
	}
	return Acts, d.words(d.change(m, &r.Notice), node)
}

// report makes an Event of a notice that is only reported. What an earlier configuration had it lead to is undone.
func (d *decider) report(r *Reported, node *Node, m *v1alpha1.NodeMaintenance) (Result, string) {
	if m != nil && m.DeletionTimestamp == nil {
		d.out.Delete = append(d.out.Delete, m)
	}
	note := reason(&r.Notice)
	if !r.EffectiveTime.IsZero() {
		note += "; it takes effect at " + r.EffectiveTime.UTC().Format(time.RFC3339)
	}
	note += "; nothing is done about it, by the configuration of notices"
	if !d.Reported[r.Name()] {
		d.out.Events = append(d.out.Events, Event{Name: r.Name(), Node: node.Name, Reason: "Notice" + string(r.Kind), Note: note})
	}
	return Reports, fmt.Sprintf("%s of node %s is reported, and nothing is done about it", r.Kind, node.Name)
}

// change brings a maintenance to what its notice says now, and returns what it is to be. Its deadline only tightens.
func (d *decider) change(m *v1alpha1.NodeMaintenance, n *Notice) *v1alpha1.NodeMaintenance {
	to := m.DeepCopy()
	stored := timeOf(m, EffectiveAnnotation)
	if effective := earliest(stored, n.EffectiveTime); !effective.Equal(stored) {
		setTime(to, EffectiveAnnotation, effective)
		d.Config.tighten(to, effective, d.Now)
		if begin := d.Config.begin(effective); begin.Before(timeOf(m, BeginAnnotation)) {
			setTime(to, BeginAnnotation, begin)
		}
	}
	if !n.EndTime.Equal(timeOf(m, EndAnnotation)) {
		setTime(to, EndAnnotation, n.EndTime)
	}
	d.begin(to)
	d.changed(m, to)
	return to
}

// keep looks after a maintenance whose notice was not reported now.
func (d *decider) keep(m *v1alpha1.NodeMaintenance, n *Notice) {
	node := d.nodes[n.Node]
	silent := n.Source == Kubelet && node != nil && node.silent()
	if n.over(d.Now) || slices.Contains(d.Complete, n.Source) && !silent {
		d.out.Delete = append(d.out.Delete, m)
		return
	}
	to := m.DeepCopy()
	d.begin(to)
	d.changed(m, to)
}

// begin ends the suspension of a maintenance whose time has come.
func (d *decider) begin(m *v1alpha1.NodeMaintenance) {
	if begin := timeOf(m, BeginAnnotation); !begin.IsZero() && !begin.After(d.Now) {
		setTime(m, BeginAnnotation, time.Time{})
		m.Spec.Suspend = false
	}
}

func (d *decider) changed(m, to *v1alpha1.NodeMaintenance) {
	if !same(m, to) {
		d.out.Change = append(d.out.Change, Change{m, to})
	}
	d.wakeFor(to)
}

// same compares what a decision may change.
func same(a, b *v1alpha1.NodeMaintenance) bool {
	for _, annotation := range []string{EffectiveAnnotation, EndAnnotation, BeginAnnotation} {
		if a.Annotations[annotation] != b.Annotations[annotation] {
			return false
		}
	}
	return a.Spec.Suspend == b.Spec.Suspend && a.Spec.AtDeadline == b.Spec.AtDeadline && a.Spec.DeadlineTime.Equal(b.Spec.DeadlineTime)
}

// wakeFor asks for another look when time changes a maintenance.
func (d *decider) wakeFor(m *v1alpha1.NodeMaintenance) {
	for _, annotation := range []string{EndAnnotation, BeginAnnotation} {
		if t := timeOf(m, annotation); t.After(d.Now) {
			d.out.Next = earliest(d.out.Next, t)
		}
	}
}

// actionWords say what maintenances do to their nodes.
var actionWords = map[v1alpha1.MaintenanceAction]string{
	"": "drains", v1alpha1.ActionDrain: "drains", v1alpha1.ActionCordon: "cordons", v1alpha1.ActionTaint: "taints", v1alpha1.ActionHook: "calls a hook for",
}

// words say of a maintenance what it will do.
func (d *decider) words(m *v1alpha1.NodeMaintenance, node *Node) string {
	words := fmt.Sprintf("NodeMaintenance %s %s node %s", m.Name, actionWords[m.Spec.Action], node.Name)
	if begin := timeOf(m, BeginAnnotation); begin.After(d.Now) {
		words += " from " + begin.UTC().Format(time.RFC3339) + " on"
	}
	if m.Spec.DeadlineTime != nil {
		words += ", until " + m.Spec.DeadlineTime.UTC().Format(time.RFC3339)
	}
	return words
}
