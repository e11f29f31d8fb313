package replacement

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// What is written down of a replacement is read back as it was, at every step.
func TestProgressIsKept(t *testing.T) {
	for _, phase := range []Phase{Waiting, Removing, Joining, Complete, Cancelled} {
		in := removing()
		in.Progress.LeftTime = noon
		want := in.Progress
		want.Phase = phase
		if phase == Waiting || phase == Cancelled {
			want = Progress{Phase: phase}
		}
		status := Written(&v1alpha1.ReplacementRequestStatus{}, &in, want)
		same(t, ProgressOf(&status), want)
		if status.StepTime == nil || status.Over() != phase.Over() {
			t.Errorf("%q: %+v", phase, status)
		}
		later := removing()
		later.Now = noon.Add(time.Hour)
		if again := Written(&status, &later, want); !again.StepTime.Equal(status.StepTime) {
			t.Errorf("%q: the step begins anew at %s", phase, again.StepTime)
		}
	}
}

func TestReported(t *testing.T) {
	conditions := func(status v1alpha1.ReplacementRequestStatus) string {
		var words []string
		for _, kind := range []string{"Ready", "Reconciling", "Stalled"} {
			if meta.IsStatusConditionTrue(status.Conditions, kind) {
				words = append(words, kind)
			}
		}
		c := meta.FindStatusCondition(status.Conditions, "Ready")
		return strings.Join(words, ",") + " " + c.Reason
	}
	phase := func(phase Phase) StepInput {
		return joining(func(in *StepInput) { in.Progress.Phase = phase })
	}
	blocked := func(all ...Blocker) *StepResult { return &StepResult{Blockers: all} }
	for name, test := range map[string]struct {
		in     StepInput
		result *StepResult
		want   string
	}{
		"it goes on":       {phase(Removing), blocked(), "Reconciling Removing"},
		"it waits":         {lost(), blocked(nodeLost("n1", ""), podLeaving("db-0", "shop")), "Reconciling NodeNotProvenOff"},
		"waiting is vain":  {lost(), blocked(nodeLost("n1", ""), NoSource("db")), "Stalled SourceMissing"},
		"it is complete":   {phase(Complete), blocked(), "Ready Complete"},
		"it was cancelled": {phase(Cancelled), blocked(), " Cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			status := Reported(&v1alpha1.ReplacementRequestStatus{}, 3, &test.in, test.result)
			if got := conditions(status); got != test.want || status.ObservedGeneration != 3 || len(status.Blockers) != len(test.result.Blockers) {
				t.Errorf("%s, want %s; %+v", got, test.want, status)
			}
		})
	}
	for name, test := range map[string]struct {
		phase Phase
		since time.Duration
		want  string
	}{
		"it goes for a while": {Removing, stalledAfter - time.Second, "Reconciling PredecessorLeaving"},
		"it goes for long":    {Removing, stalledAfter, "Stalled PredecessorLeaving"},
		"it joins for long":   {Joining, stalledAfter, "Reconciling PredecessorLeaving"},
	} {
		in := phase(test.phase)
		before := v1alpha1.ReplacementRequestStatus{Step: stepOf(test.phase), StepTime: stamp(noon.Add(-test.since))}
		if got := conditions(Reported(&before, 1, &in, blocked(podLeaving("db-0", "shop")))); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	in := phase(Joining)
	status := Reported(&v1alpha1.ReplacementRequestStatus{}, 1, &in, blocked(notReady("db-0", "shop")))
	if s := status.Successor; s == nil || s.PodUID != "p3" || s.Node != "n2" {
		t.Errorf("the successor is %+v", s)
	}
	done := phase(Complete)
	if kept := Reported(&status, 1, &done, blocked()); kept.Successor == nil || kept.Successor.Node != "n2" {
		t.Errorf("the successor of one that is complete is %+v", kept.Successor)
	}
	long := Reported(&v1alpha1.ReplacementRequestStatus{}, 1, &in, blocked(Blocker{Reason: "R", Message: strings.Repeat("ä", 2000), Remedy: strings.Repeat("x", 2000)}))
	if b := long.Blockers[0]; len(b.Message) > 1024 || len(b.Remedy) > 1024 {
		t.Errorf("a message of %d bytes, and a remedy of %d", len(b.Message), len(b.Remedy))
	}
}

func TestNotePlaces(t *testing.T) {
	place := func(node string, uid types.UID, gone time.Time) v1alpha1.ReplacementPlace {
		p := v1alpha1.ReplacementPlace{Node: node, NodeUID: uid}
		if !gone.IsZero() {
			p.GoneTime = stamp(gone)
		}
		return p
	}
	var there time.Time
	hourAgo := ago(time.Hour)
	node := func(name string, uid types.UID) *Node { return &Node{Name: name, UID: uid} }
	places := func(all ...v1alpha1.ReplacementPlace) []v1alpha1.ReplacementPlace { return all }
	for name, test := range map[string]struct {
		before []v1alpha1.ReplacementPlace
		here   *Node
		data   []Node
		want   []v1alpha1.ReplacementPlace
	}{
		"nothing is known":             {},
		"its pod is there":             {here: node("a", "a"), want: places(place("a", "a", there))},
		"its volume is there":          {data: []Node{{Name: "a", UID: "a"}}, want: places(place("a", "a", noon))},
		"both are":                     {here: node("a", "a"), data: []Node{{Name: "a", UID: "a"}}, want: places(place("a", "a", there))},
		"the volume of a deleted Node": {data: []Node{{Name: "a"}}, want: places(place("a", "", noon))},
		"its pod has gone":             {before: places(place("a", "a", there)), want: places(place("a", "a", noon))},
		"its pod has been gone":        {before: places(place("a", "a", hourAgo)), data: []Node{{Name: "a", UID: "a"}}, want: places(place("a", "a", hourAgo))},
		"it has moved":                 {before: places(place("a", "a", there)), here: node("b", "b"), want: places(place("a", "a", noon), place("b", "b", there))},
		"it has come back":             {before: places(place("a", "a", hourAgo), place("b", "b", there)), here: node("a", "a"), want: places(place("b", "b", noon), place("a", "a", there))},
		"a new Node has the name":      {before: places(place("a", "a", there)), here: node("a", "a2"), want: places(place("a", "a", noon), place("a", "a2", there))},
	} {
		t.Run(name, func(t *testing.T) { same(t, NotePlaces(test.before, test.here, test.data, noon), test.want) })
	}
	var all []v1alpha1.ReplacementPlace
	for i := range 20 {
		all = NotePlaces(all, node("n"+string(rune('a'+i)), "u"), nil, noon)
	}
	if len(all) != 16 || all[15].Node != "nt" {
		t.Errorf("%d places, the last %s", len(all), all[len(all)-1].Node)
	}
}
