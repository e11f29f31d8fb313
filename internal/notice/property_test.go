package notice

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
)

// silent is a node whose kubelet reports nothing.
var silent = Node{Name: "n2", UID: "uid-n2", Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}

// world is the maintenances that are there, and which notices stand, by what was reported.
type world struct {
	t      *rapid.T
	now    time.Time
	config *Config
	nodes  []Node
	all    map[string]*v1alpha1.NodeMaintenance
	stands map[string]Reported // by name, of those that lead to a drain
	events map[string]bool
}

func (w *world) input(notices ...Reported) Input {
	in := Input{Now: w.now, Config: w.config, Nodes: w.nodes, Notices: notices, Reported: w.events}
	for _, name := range slices.Sorted(maps.Keys(w.all)) {
		in.Maintenances = append(in.Maintenances, w.all[name].DeepCopy())
	}
	return in
}

// apply does what was decided, as the API would, and fails where that refuses it.
func (w *world) apply(d Decision) {
	for _, m := range d.Create {
		if w.all[m.Name] != nil {
			w.t.Fatalf("%s is made, and is there", m.Name)
		}
		w.all[m.Name] = m.DeepCopy()
	}
	for _, c := range d.Change {
		before, after := w.all[c.To.Name].Spec, c.To.Spec
		if before.DeadlineTime != nil && (after.DeadlineTime == nil || after.DeadlineTime.After(before.DeadlineTime.Time)) {
			w.t.Fatalf("the deadline %s becomes %s", before.DeadlineTime, after.DeadlineTime)
		}
		if after.Suspend && !before.Suspend {
			w.t.Fatalf("%s is suspended", c.To.Name)
		}
		w.all[c.To.Name] = c.To.DeepCopy()
	}
	for _, m := range d.Delete {
		if _, is := noticeOf(m); !is {
			w.t.Fatalf("%s is deleted, and was made by no notice", m.Name)
		}
		if rapid.Bool().Draw(w.t, "given back at once") {
			delete(w.all, m.Name)
		} else {
			w.all[m.Name].DeletionTimestamp = new(metav1.NewTime(w.now))
		}
	}
	for _, e := range d.Events {
		w.events[e.Name] = true
	}
}

// report has notices reported, at once with others or alone, and notes which stand by then.
func (w *world) report(complete []Source, notices ...Reported) {
	in := w.input(notices...)
	in.Complete = complete
	if len(complete) > 0 {
		for name, r := range w.stands {
			if slices.Contains(complete, r.Source) && (r.Source != Kubelet || r.Node != silent.Name) {
				delete(w.stands, name)
			}
		}
	}
	anew := map[string]bool{}
	for _, r := range notices {
		delete(w.stands, r.Name())
		m := w.all[r.Name()]
		if m != nil && m.DeletionTimestamp != nil { // it waits, and is reported again
			continue
		}
		if m != nil && string(m.Spec.Action) != string(w.config.action(&r)) { // it is given back first, and made anew once it is gone
			anew[r.Name()] = true
			continue
		}
		if !r.over(w.now) && w.config.action(&r) != Report && slices.ContainsFunc(w.nodes, func(n Node) bool { return n.Name == r.Node }) {
			w.stands[r.Name()] = r
		}
	}
	w.apply(Decide(in))
	again := w.input(notices...)
	again.Complete = complete
	again.Notices = slices.DeleteFunc(slices.Clone(notices), func(r Reported) bool { return anew[r.Name()] && w.all[r.Name()] == nil })
	if d := Decide(again); len(d.Create)+len(d.Change)+len(d.Delete)+len(d.Events) > 0 {
		w.t.Fatalf("what was decided is decided anew: %+v, %+v, %+v, %+v", d.Create, d.Change, d.Delete, d.Events)
	}
	w.check()
	for _, r := range notices {
		m := w.all[r.Name()]
		if _, stands := w.stands[r.Name()]; stands && drains(m) && timeOf(m, EffectiveAnnotation).Sub(w.now) >= 2*time.Second && (m.Spec.DeadlineTime == nil || m.Spec.DeadlineTime.After(timeOf(m, EffectiveAnnotation))) {
			w.t.Fatalf("%s takes effect at %s, and has until %s", m.Name, timeOf(m, EffectiveAnnotation), m.Spec.DeadlineTime)
		}
	}
}

// pass lets time pass: what ends or begins by then does at the next look, which comes no later than was said.
func (w *world) pass(by time.Duration) {
	until := w.now.Add(by)
	for {
		d := Decide(w.input())
		w.apply(d)
		w.check()
		if d = Decide(w.input()); d.Next.IsZero() || d.Next.After(until) {
			w.now = until
			w.apply(Decide(w.input()))
			w.check()
			return
		}
		w.now = d.Next
	}
}

// check fails where a node is drained that no notice which stands names, or one is not that such a notice names, or too late or early.
func (w *world) check() {
	for name, r := range w.stands {
		if r.over(w.now) {
			delete(w.stands, name)
		}
	}
	for name, m := range w.all {
		_, stands := w.stands[name]
		if _, is := noticeOf(m); is && !stands && m.DeletionTimestamp == nil {
			w.t.Fatalf("%s acts on %v, and no notice stands", name, m.Spec.Nodes.Names)
		}
		begin := timeOf(m, BeginAnnotation)
		if m.DeletionTimestamp == nil && m.Spec.Suspend != begin.After(w.now) {
			w.t.Fatalf("%s is suspended: %v, and begins at %s", name, m.Spec.Suspend, begin)
		}
	}
	for name, r := range w.stands {
		m := w.all[name]
		if m == nil {
			w.t.Fatalf("%s stands, and nothing is done", name)
		}
		if string(m.Spec.Action) != string(w.config.action(&r)) || !drains(m) && m.Spec.DeadlineTime != nil {
			w.t.Fatalf("%s is to %s, and leads to %+v", name, w.config.action(&r), m.Spec)
		}
		effective := timeOf(m, EffectiveAnnotation)
		if !r.EffectiveTime.IsZero() && effective.After(r.EffectiveTime) {
			w.t.Fatalf("%s takes effect at %s, by the maintenance at %s", name, r.EffectiveTime, effective)
		}
	}
}

func (w *world) draw() Reported {
	r := Reported{Notice: Notice{
		Source: rapid.SampledFrom([]Source{EC2, Alertmanager, Condition, Kubelet}).Draw(w.t, "source"),
		Kind:   rapid.SampledFrom(kinds).Draw(w.t, "kind"),
		Event:  rapid.SampledFrom([]string{"e1", "e2"}).Draw(w.t, "event"),
		Node:   rapid.SampledFrom([]string{"n1", "n2", "n9"}).Draw(w.t, "node"),
	}}
	if rule := rapid.IntRange(-2, len(w.config.Rules)-1).Draw(w.t, "rule"); rule >= 0 {
		r.Rule = &w.config.Rules[rule]
	}
	if rapid.Bool().Draw(w.t, "effective") {
		r.EffectiveTime = w.now.Add(time.Duration(rapid.Int64Range(-60_000, 7_200_000).Draw(w.t, "in")) * time.Millisecond)
	}
	if rapid.IntRange(0, 2).Draw(w.t, "ends") == 0 {
		r.EndTime = w.now.Add(time.Duration(rapid.IntRange(-1, 300).Draw(w.t, "stands")) * time.Second)
	}
	r.Withdrawn = rapid.IntRange(0, 4).Draw(w.t, "withdrawn") == 0
	return r
}

// Whatever is reported in whatever order: nothing is drained that no standing notice names, and nothing else is done than one asks for, deadlines only tighten,
// what is withdrawn or ends goes, deciding again does nothing, and what others have made stays.
func TestNotices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := Default()
		config.Rules = []Rule{
			{Name: "d", Action: Drain},
			{Name: "c", Action: Cordon},
			{Name: "h", Action: CallHook, Hook: "http://h"},
			{Name: "r", Action: Report},
			{Name: "t", Action: SetTaint, Sets: &v1alpha1.MaintenanceTaint{Key: "a", Effect: v1alpha1.TaintNoSchedule}},
		}
		w := &world{
			t: t, now: noon, config: config, nodes: []Node{node("n1"), silent}, all: map[string]*v1alpha1.NodeMaintenance{},
			stands: map[string]Reported{}, events: map[string]bool{},
		}
		w.all["notice-mine"] = &v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: "notice-mine", UID: types.UID("mine")},
			Spec:       v1alpha1.NodeMaintenanceSpec{Nodes: v1alpha1.NodeSelection{Names: []string{"n1"}}, Requester: "ec2.notice.usher.sh/Reboot"},
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				w.pass(time.Duration(rapid.IntRange(0, 4000).Draw(t, "seconds")) * time.Second)
			case 1: // what is being deleted is given back
				maps.DeleteFunc(w.all, func(_ string, m *v1alpha1.NodeMaintenance) bool { return m.DeletionTimestamp != nil })
			case 2:
				var whole []Reported
				for range rapid.IntRange(0, 3).Draw(t, "all of them") {
					r := w.draw()
					r.Source, r.Withdrawn = rapid.SampledFrom([]Source{Condition, Kubelet}).Draw(t, "whose"), false
					whole = append(whole, r)
				}
				w.report([]Source{Condition, Kubelet}, merged(whole)...)
			default:
				w.report(nil, w.draw())
			}
		}
		if w.all["notice-mine"] == nil {
			t.Fatal("another's maintenance is gone")
		}
	})
}
