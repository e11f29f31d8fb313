package notice

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func node(name string) Node { return Node{Name: name, UID: types.UID("uid-" + name)} }

// spot is a notice of node n1 that takes effect after so long.
func spot(after time.Duration, change ...func(*Reported)) Reported {
	r := Reported{Notice: Notice{Source: EC2, Kind: SpotInterruption, Event: "e1", Node: "n1", Message: "terminate"}}
	if after != 0 {
		r.EffectiveTime = noon.Add(after)
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func of(kind Kind) func(*Reported)   { return func(r *Reported) { r.Kind = kind } }
func on(node string) func(*Reported) { return func(r *Reported) { r.Node = node } }
func until(after time.Duration) func(*Reported) {
	return func(r *Reported) { r.EndTime = noon.Add(after) }
}
func from(source Source) func(*Reported) { return func(r *Reported) { r.Source = source } }
func by(rule Rule) func(*Reported)       { return func(r *Reported) { r.Rule = &rule } }
func withdrawn(r *Reported)              { r.Withdrawn = true }

// made is the maintenance that a notice made, an hour ago or less.
func made(r Reported, ago time.Duration, change ...func(*v1alpha1.NodeMaintenance)) *v1alpha1.NodeMaintenance {
	n := node(r.Node)
	m := Default().maintenance(&r, &n, noon.Add(-ago))
	for _, c := range change {
		c(m)
	}
	return m
}

func deleted(m *v1alpha1.NodeMaintenance) { m.DeletionTimestamp = new(metav1.NewTime(noon)) }

func TestDecide(t *testing.T) {
	plain := made(spot(2*time.Minute), 0)
	later := made(spot(5*time.Hour), 0)
	for name, test := range map[string]struct {
		in   Input
		want []string
		next time.Duration
	}{
		"a spot instance with two minutes": {
			in:   Input{Notices: []Reported{spot(2 * time.Minute)}},
			want: []string{"create n1 until 12:01:55", "Acts e1"},
		},
		"with thirty seconds": {in: Input{Notices: []Reported{spot(30 * time.Second)}}, want: []string{"create n1 until 12:00:25", "Acts e1"}},
		"with four seconds: the margin is a quarter": {
			in: Input{Notices: []Reported{spot(4 * time.Second)}}, want: []string{"create n1 until 12:00:03", "Acts e1"},
		},
		"whose time has passed": {in: Input{Notices: []Reported{spot(-time.Minute)}}, want: []string{"create n1", "Acts e1"}},
		"without a time":        {in: Input{Notices: []Reported{spot(0)}}, want: []string{"create n1", "Acts e1"}},
		"in hours": {
			in:   Input{Notices: []Reported{spot(5*time.Hour, of(Reboot))}},
			want: []string{"create n1 until 16:59:55 suspended", "Acts e1"}, next: 4 * time.Hour,
		},
		"again":   {in: Input{Notices: []Reported{spot(2 * time.Minute)}, Maintenances: all(plain)}, want: []string{"Acts e1"}},
		"earlier": {in: Input{Notices: []Reported{spot(time.Minute)}, Maintenances: all(plain)}, want: []string{"change n1 until 12:00:55", "Acts e1"}},
		"later":   {in: Input{Notices: []Reported{spot(time.Hour)}, Maintenances: all(plain)}, want: []string{"Acts e1"}},
		"earlier by so little that the deadline would be later": {
			in:   Input{Notices: []Reported{spot(9 * time.Second)}, Maintenances: all(made(spot(10*time.Second), 110*time.Second))},
			want: []string{"change n1 until 12:00:05", "Acts e1"},
		},
		"with a time, where it had none": {
			in: Input{Notices: []Reported{spot(time.Minute)}, Maintenances: all(made(spot(0), 0))}, want: []string{"change n1 until 12:00:55", "Acts e1"},
		},
		"without a time, where it had one":  {in: Input{Notices: []Reported{spot(0)}, Maintenances: all(plain)}, want: []string{"Acts e1"}},
		"twice at once: the earlier counts": {in: Input{Notices: []Reported{spot(time.Minute), spot(2 * time.Minute)}}, want: []string{"create n1 until 12:00:55", "Acts e1"}},
		"withdrawn and reported anew":       {in: Input{Notices: []Reported{spot(time.Minute, withdrawn), spot(2 * time.Minute)}}, want: []string{"create n1 until 12:01:55", "Acts e1"}},
		"withdrawn":                         {in: Input{Notices: []Reported{spot(2*time.Minute, withdrawn)}, Maintenances: all(plain)}, want: []string{"delete n1", "Withdraws e1"}},
		"withdrawn, and nothing was done":   {in: Input{Notices: []Reported{spot(0, withdrawn)}}, want: []string{"Nothing e1"}},
		"withdrawn of a node that is gone":  {in: Input{Notices: []Reported{spot(0, withdrawn, on("n9"))}}, want: []string{"Nothing e1"}},
		"withdrawn again":                   {in: Input{Notices: []Reported{spot(0, withdrawn)}, Maintenances: all(made(spot(0), 0, deleted))}, want: []string{"Nothing e1"}},
		"another event of the node": {
			in: Input{Notices: []Reported{spot(time.Minute, func(r *Reported) { r.Event = "e2" })}, Maintenances: all(plain)}, want: []string{"create n1 until 12:00:55", "Acts e2"},
		},
		"while it is given back": {in: Input{Notices: []Reported{spot(time.Minute)}, Maintenances: all(made(spot(0), 0, deleted))}, want: []string{"Waits e1"}},
		"an unknown node":        {in: Input{Notices: []Reported{spot(0, on("n9"))}}, want: []string{"NoNode e1"}},
		"a name that another maintenance has": {
			in: Input{Notices: []Reported{spot(0)}, Maintenances: all(made(spot(0), 0, func(m *v1alpha1.NodeMaintenance) { m.Spec.Requester = "person.usher.sh/anna" }))}, want: []string{"Waits e1"},
		},
		"that only is reported":       {in: Input{Notices: []Reported{spot(time.Minute, of(Rebalance))}}, want: []string{"event n1 NoticeRebalance", "Reports e1"}},
		"that was reported":           {in: Input{Notices: []Reported{spot(0, of(Rebalance))}, Reported: map[string]bool{plain.Name: true}}, want: []string{"Reports e1"}},
		"that is reported, and acted": {in: Input{Notices: []Reported{spot(0, of(Rebalance))}, Maintenances: all(plain)}, want: []string{"delete n1", "event n1 NoticeRebalance", "Reports e1"}},
		"that has ended":              {in: Input{Notices: []Reported{spot(0, until(0))}, Maintenances: all(plain)}, want: []string{"delete n1", "Withdraws e1"}},
		"that stands for a while":     {in: Input{Notices: []Reported{spot(0, until(time.Minute))}}, want: []string{"create n1 ends 12:01:00", "Acts e1"}, next: time.Minute},
		"that stands longer": {
			in:   Input{Notices: []Reported{spot(0, until(2*time.Minute))}, Maintenances: all(made(spot(0, until(time.Minute)), 0))},
			want: []string{"change n1 ends 12:02:00", "Acts e1"}, next: 2 * time.Minute,
		},
		"that was not reported again":  {in: Input{Maintenances: all(made(spot(0, until(-time.Second)), time.Minute))}, want: []string{"delete n1"}},
		"that is to be reported again": {in: Input{Maintenances: all(made(spot(0, until(time.Second)), time.Minute))}, next: time.Second},
		"whose begin is to come":       {in: Input{Maintenances: all(later)}, next: 4 * time.Hour},
		"whose begin has come":         {in: Input{Maintenances: all(made(spot(time.Hour), time.Minute))}, want: []string{"change n1 until 12:59:55"}},
		"whose begin comes earlier": {
			in:   Input{Notices: []Reported{spot(90 * time.Minute)}, Maintenances: all(later)},
			want: []string{"change n1 until 13:29:55 suspended", "Acts e1"}, next: 30 * time.Minute,
		},
		"that a person has suspended": {in: Input{Notices: []Reported{spot(2 * time.Minute)}, Maintenances: all(made(spot(2*time.Minute), 0, func(m *v1alpha1.NodeMaintenance) { m.Spec.Suspend = true }))}, want: []string{"Acts e1"}},
		"by which the node is cordoned": {
			in: Input{Notices: []Reported{spot(2*time.Minute, by(Rule{Action: Cordon}))}}, want: []string{"create n1 Cordon", "Acts e1"},
		},
		"… again":   {in: Input{Notices: []Reported{spot(2*time.Minute, by(Rule{Action: Cordon}))}, Maintenances: all(made(spot(2*time.Minute, by(Rule{Action: Cordon})), 0))}, want: []string{"Acts e1"}},
		"… earlier": {in: Input{Notices: []Reported{spot(time.Minute, by(Rule{Action: Cordon}))}, Maintenances: all(made(spot(2*time.Minute, by(Rule{Action: Cordon})), 0))}, want: []string{"change n1 Cordon", "Acts e1"}},
		"by which it is drained instead": {
			in: Input{Notices: []Reported{spot(2 * time.Minute)}, Maintenances: all(made(spot(2*time.Minute, by(Rule{Action: Cordon})), 0))}, want: []string{"delete n1 Cordon", "Waits e1"},
		},
		"by which it has another taint": {
			in:   Input{Notices: []Reported{spot(0, by(Rule{Action: SetTaint, Sets: &v1alpha1.MaintenanceTaint{Key: "b"}}))}, Maintenances: all(made(spot(0, by(Rule{Action: SetTaint, Sets: &v1alpha1.MaintenanceTaint{Key: "a"}})), 0))},
			want: []string{"delete n1 Taint", "Waits e1"},
		},
		"by which a hook is called": {in: Input{Notices: []Reported{spot(0, by(Rule{Action: CallHook, Hook: "http://h"}))}}, want: []string{"create n1 Hook", "Acts e1"}},
		"a source of which all is known": {
			in: Input{
				Complete: []Source{Condition}, Notices: []Reported{spot(0, from(Condition), on("n2"))},
				Maintenances: all(made(spot(0, from(Condition)), 0), made(spot(0, from(Condition), on("n2")), 0), plain, made(spot(0, from(Condition), on("n3")), 0, deleted)),
			},
			want: []string{"delete n1", "Acts e1"},
		},
		"of a kubelet that has shut down, and reports nothing": {in: Input{Complete: []Source{Kubelet}, Maintenances: all(made(spot(0, from(Kubelet), of(Shutdown), on("silent")), 0))}},
		"of a kubelet that has come back":                      {in: Input{Complete: []Source{Kubelet}, Maintenances: all(made(spot(0, from(Kubelet), of(Shutdown)), 0))}, want: []string{"delete n1"}},
		"of a condition of a node that reports nothing":        {in: Input{Complete: []Source{Condition}, Maintenances: all(made(spot(0, from(Condition), on("silent")), 0))}, want: []string{"delete silent"}},
		"a maintenance of a person, and such that only look like a notice's": {
			in: Input{Complete: []Source{EC2}, Maintenances: all(
				made(spot(0), 0, func(m *v1alpha1.NodeMaintenance) { m.Spec.Requester = "person.usher.sh/anna" }),
				made(spot(0), 0, func(m *v1alpha1.NodeMaintenance) { m.Name = "other" }),
				made(spot(0), 0, func(m *v1alpha1.NodeMaintenance) { m.Annotations[EventAnnotation] = "other" }),
				made(spot(0), 0, func(m *v1alpha1.NodeMaintenance) { m.Spec.Nodes.Names = append(m.Spec.Nodes.Names, "n2") }),
			)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := test.in
			in.Now, in.Config, in.Nodes = noon, Default(), []Node{node("n1"), node("n2"), node("n3"), node("silent")}
			in.Nodes[3].Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			got := Decide(in)
			if diff := cmp.Diff(test.want, brief(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			want := time.Time{}
			if test.next > 0 {
				want = noon.Add(test.next)
			}
			if !got.Next.Equal(want) {
				t.Errorf("next look at %s, want %s", got.Next, want)
			}
		})
	}
}

func all(m ...*v1alpha1.NodeMaintenance) []*v1alpha1.NodeMaintenance { return m }

// brief says of a decision what is to be done, in lines.
func brief(d Decision) []string {
	var lines []string
	say := func(what string, m *v1alpha1.NodeMaintenance) {
		line := what + " " + strings.Join(m.Spec.Nodes.Names, ",")
		if what != "delete" && m.Spec.DeadlineTime != nil {
			line += " until " + m.Spec.DeadlineTime.UTC().Format(time.TimeOnly)
		}
		if end := timeOf(m, EndAnnotation); what != "delete" && !end.IsZero() {
			line += " ends " + end.Format(time.TimeOnly)
		}
		if m.Spec.Suspend {
			line += " suspended"
		}
		if !drains(m) {
			line += " " + string(m.Spec.Action)
		}
		lines = append(lines, line)
	}
	for _, m := range d.Create {
		say("create", m)
	}
	for _, c := range d.Change {
		say("change", c.To)
	}
	for _, m := range d.Delete {
		say("delete", m)
	}
	for _, e := range d.Events {
		lines = append(lines, "event "+e.Node+" "+e.Reason)
	}
	for _, o := range d.Outcomes {
		lines = append(lines, fmt.Sprintf("%s %s", o.Result, o.Event))
		if o.Message == "" {
			lines = append(lines, "no message")
		}
	}
	return lines
}

// A maintenance says all that its drain goes by: nothing is left to defaults, by which it would differ from itself.
func TestMaintenanceOfANotice(t *testing.T) {
	n := node("n1")
	c := parsed(t, `{atDeadline: DeletePods, rules: [{name: r, taint: {key: a}, action: Drain, hook: "http://h"}]}`)
	r := spot(2*time.Minute, func(r *Reported) { r.Message = "a\nb" + strings.Repeat("c", 300) })
	got := c.maintenance(&r, &n, noon)
	if len(got.Spec.Reason) > 256 || !strings.HasPrefix(got.Spec.Reason, "ec2: SpotInterruption: a bccc") {
		t.Errorf("reason %s", got.Spec.Reason)
	}
	got.Spec.Reason = ""
	deadline := metav1.NewTime(noon.Add(115 * time.Second))
	want := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.Name(), Annotations: map[string]string{EventAnnotation: "e1", EffectiveAnnotation: "2026-11-29T12:02:00Z"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "uid-n1"}},
		},
		Spec: v1alpha1.NodeMaintenanceSpec{
			Nodes: v1alpha1.NodeSelection{Names: []string{"n1"}}, Action: v1alpha1.ActionDrain, Requester: "ec2.notice.usher.sh/SpotInterruption",
			Drain: v1alpha1.MaintenanceDrain{
				UnmanagedPods: v1alpha1.PodsEvict, EmptyDirPods: v1alpha1.PodsEvict, DaemonSetPods: v1alpha1.DaemonSetsIgnore, Surge: v1alpha1.SurgeAuto,
			},
			Concurrency:  v1alpha1.MaintenanceConcurrency{Nodes: math.MaxInt32, Zones: math.MaxInt32},
			DeadlineTime: &deadline, AtDeadline: v1alpha1.DeadlineDeletePods,
			WhenDrained: v1alpha1.WhenDrained{KeepCordoned: &v1alpha1.KeepCordoned{}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	problem := Reported{Notice{Source: Taint, Kind: Problem, Event: "r", Node: "n1"}, &c.Rules[0]}
	m := c.maintenance(&problem, &n, noon)
	if m.Spec.Concurrency.Nodes != 1 || m.Spec.Concurrency.Zones != 1 || m.Spec.WhenDrained.Hook == nil || m.Spec.AtDeadline != v1alpha1.DeadlineStop || m.Spec.Reason != "taint: Problem: r" {
		t.Errorf("of a problem: %+v", m.Spec)
	}
	sets := &v1alpha1.MaintenanceTaint{Key: "a", Value: "b", Effect: v1alpha1.TaintNoExecute}
	for _, rule := range []Rule{{Action: SetTaint, Sets: sets}, {Action: CallHook, Hook: "http://h"}} {
		m := c.maintenance(&Reported{r.Notice, &rule}, &n, noon)
		hook := m.Spec.WhenDrained.Hook != nil
		if m.Spec.DeadlineTime != nil || (m.Spec.WhenDrained.KeepCordoned != nil) == hook || hook != (rule.Action == CallHook) || !cmp.Equal(m.Spec.Taint, rule.Sets) {
			t.Errorf("of a rule with action %s: %+v", rule.Action, m.Spec)
		}
	}
	late := Reported{Notice: Notice{Source: Taint, Kind: Problem, Event: "r", Node: "n1", EffectiveTime: noon.Add(time.Minute)}}
	if to := Decide(Input{Now: noon, Config: c, Nodes: []Node{n}, Notices: []Reported{late}, Maintenances: all(m)}).Change; len(to) != 0 {
		t.Errorf("a report by no rule, of a kind that is only reported, changes %+v", to)
	}
	late.Rule = &c.Rules[0]
	to := Decide(Input{Now: noon, Config: c, Nodes: []Node{n}, Notices: []Reported{late}, Maintenances: all(m)}).Change
	if len(to) != 1 || to[0].To.Spec.AtDeadline != v1alpha1.DeadlineDeletePods {
		t.Errorf("a deadline that comes later: %+v", to)
	}
}

func TestObserved(t *testing.T) {
	c := parsed(t, `
rules:
- name: kernel
  condition: {type: KernelDeadlock, status: "True", for: 5m}
  effectiveAfter: 10m
- name: shutdown
  condition: {type: Ready, status: "False", message: node is shutting down}
  kind: Shutdown
- name: autoscaler
  taint: {key: ToBeDeletedByClusterAutoscaler}
  kind: ScaleDown
  effectiveAfter: 1m
- name: karpenter
  taint: {key: karpenter.sh/disrupted, value: "", effect: NoSchedule}
  kind: ScaleDown
- name: alert
  alert: {matchers: [a=b]}
`)
	condition := func(kind, status, message string, ago time.Duration) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status), Message: message, LastTransitionTime: metav1.NewTime(noon.Add(-ago))}
	}
	ready := func(status, reason, message string) Node {
		c := condition("Ready", status, message, 0)
		c.Reason = reason
		return Node{Conditions: []corev1.NodeCondition{c}}
	}
	added := metav1.NewTime(noon.Add(-30 * time.Second))
	for name, test := range map[string]struct {
		node Node
		want []string
		next time.Duration
	}{
		"nothing":     {node: Node{Conditions: []corev1.NodeCondition{condition("KernelDeadlock", "False", "", time.Hour), condition("Ready", "True", "", 0)}}},
		"for so long": {node: Node{Conditions: []corev1.NodeCondition{condition("KernelDeadlock", "True", "task hung", 5*time.Minute)}}, want: []string{"condition Problem kernel 12:05:00: condition KernelDeadlock is True: task hung"}},
		"not yet":     {node: Node{Conditions: []corev1.NodeCondition{condition("KernelDeadlock", "True", "", 2*time.Minute)}}, next: 3 * time.Minute},
		"to come":     {node: Node{Conditions: []corev1.NodeCondition{condition("KernelDeadlock", "True", "", -time.Hour)}}, next: 5 * time.Minute},
		"a message":   {node: Node{Conditions: []corev1.NodeCondition{condition("Ready", "False", "[node is shutting down]", 0)}}, want: []string{"condition Shutdown shutdown: condition Ready is False: [node is shutting down]"}},
		"another":     {node: Node{Conditions: []corev1.NodeCondition{condition("Ready", "False", "PLEG is not healthy", 0)}}},
		"a taint that says since when": {
			node: Node{Taints: []corev1.Taint{{Key: "x"}, {Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: "NoSchedule", TimeAdded: &added}}},
			want: []string{"taint ScaleDown autoscaler 12:00:30: taint ToBeDeletedByClusterAutoscaler=1:NoSchedule"},
		},
		"and one that does not": {
			node: Node{Taints: []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: "NoSchedule"}}},
			want: []string{"taint ScaleDown autoscaler 12:01:00: taint ToBeDeletedByClusterAutoscaler:NoSchedule"},
		},
		"a kubelet that shuts down":          {node: ready("False", "KubeletNotReady", "node is shutting down"), want: []string{"kubelet Shutdown shutdown: node is shutting down", "condition Shutdown shutdown: condition Ready is False: node is shutting down"}},
		"… with other errors":                {node: ready("False", "KubeletNotReady", "[container runtime is down, node is shutting down]"), want: []string{"kubelet Shutdown shutdown: [container runtime is down, node is shutting down]", "condition Shutdown shutdown: condition Ready is False: [container runtime is down, node is shutting down]"}},
		"… with warnings":                    {node: ready("False", "KubeletNotReady", "node is shutting down. WARNING: CPU hardcapping unsupported"), want: []string{"kubelet Shutdown shutdown: node is shutting down. WARNING: CPU hardcapping unsupported", "condition Shutdown shutdown: condition Ready is False: node is shutting down. WARNING: CPU hardcapping unsupported"}},
		"a kubelet that quotes another":      {node: ready("False", "KubeletNotReady", "network said: node is shutting down soon"), want: []string{"condition Shutdown shutdown: condition Ready is False: network said: node is shutting down soon"}},
		"a kubelet that has shut down":       {node: ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")},
		"a kubelet that is back":             {node: ready("True", "KubeletReady", "kubelet is posting ready status")},
		"another client's word of a kubelet": {node: ready("False", "Other", "node is shutting down"), want: []string{"condition Shutdown shutdown: condition Ready is False: node is shutting down"}},
		"another effect":                     {node: Node{Taints: []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: "NoExecute"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.node.Name = "n1"
			found, next := c.Observed([]Node{test.node}, noon)
			var got []string
			for _, r := range found {
				line := fmt.Sprintf("%s %s %s", r.Source, r.Kind, r.Event)
				if !r.EffectiveTime.IsZero() {
					line += " " + r.EffectiveTime.Format(time.TimeOnly)
				}
				got = append(got, line+": "+r.Message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := noon.Add(test.next); test.next > 0 && !next.Equal(want) || test.next == 0 && !next.IsZero() {
				t.Errorf("next at %s", next)
			}
		})
	}
}
