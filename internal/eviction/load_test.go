package eviction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
)

// loaded is a pod of a DaemonSet, wanted gone, of a policy whose stores stay and are emptied. What the system says has s0 empty.
func loaded(t testing.TB, name string) ResponderInput {
	t.Helper()
	in := ResponderInput{Input: world(t), Wanted: true, Active: true}
	spec := toySpec()
	spec.Members[0].Leaves = v1alpha1.LeavesLoad
	in.Policies[0].Policy, in.Pod = compiled(t, spec), toyPod(name, "store")
	in.Pod.Owner = daemonSet
	return in
}

func isEmptied(pod string) v1alpha1.Emptied {
	return v1alpha1.Emptied{
		MemberRef: v1alpha1.MemberRef{Role: "store", ID: "m-" + pod, PodName: pod, PodUID: types.UID("uid-" + pod), Node: "node-a"},
		StartTime: metav1.NewTime(noon),
	}
}

func TestWhatStaysIsEmptiedAndNeverEvicted(t *testing.T) {
	in := loaded(t, "s0")
	got := Step(in)
	if diff := cmp.Diff([]ActionKind{Empty, Respond}, kinds(got.Actions)); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]v1alpha1.Emptied{isEmptied("s0")}, got.Actions[0].Status.Emptied); diff != "" {
		t.Error(diff)
	}
	if report := got.Actions[1].Report; !strings.HasPrefix(report.Message, v1alpha1.EmptiedPrefix) || report.Completed {
		t.Errorf("the next responder would evict it: %+v", report)
	}
	in.Policies[0].Status.Emptied = []v1alpha1.Emptied{isEmptied("s0")}
	if diff := cmp.Diff([]ActionKind{Respond}, kinds(Step(in).Actions)); diff != "" {
		t.Errorf("it is emptied already: %s", diff)
	}
	if got := Step(in); !got.NextLook.Equal(noon.Add(emptiedAgain)) || !got.Empties() {
		t.Errorf("what it carries may come back: next look at %s", got.NextLook)
	}
}

func TestEmptiedIsNotWrittenIntoAPolicyThatIsBeingDeleted(t *testing.T) {
	in := loaded(t, "s1")
	in.Policies[0].Deleted = true
	in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "INC-1"}
	if diff := cmp.Diff([]ActionKind{Respond}, kinds(Step(in).Actions)); diff != "" {
		t.Errorf("it would be crossed out and written down for ever: %s", diff)
	}
}

func TestWhatStaysIsPreparedFirst(t *testing.T) {
	in := loaded(t, "s1")
	if diff := cmp.Diff([]ActionKind{Respond, Begin, Prepare}, kinds(Step(in).Actions)); diff != "" {
		t.Error(diff)
	}
	in.Policies[0].Status.Emptied = []v1alpha1.Emptied{isEmptied("s1")}
	got := Step(in)
	if diff := cmp.Diff([]ActionKind{Empty, Respond}, kinds(got.Actions)); diff != "" || len(got.Actions[0].Status.Emptied) != 0 || got.Empties() {
		t.Errorf("it is filled again, which others must know first: %s", diff)
	}
	in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "the disk is dead"}
	if diff := cmp.Diff([]ActionKind{Respond}, kinds(Step(in).Actions)); diff != "" {
		t.Errorf("broken glass has it count as emptied: %s", diff)
	}
	in = loaded(t, "s0")
	in.Wanted = false
	if got := Step(in); len(got.Actions) > 0 {
		t.Errorf("no request wants it empty: %v", kinds(got.Actions))
	}
	suspended := loaded(t, "s0")
	spec := toySpec()
	spec.Members[0].Leaves, spec.Suspend = v1alpha1.LeavesLoad, true
	suspended.Policies[0].Policy = compiled(t, spec)
	if got := Step(suspended); got.Empties() {
		t.Error("a suspended policy empties nothing")
	}
}

// An emptied member has left: it holds none of its role back, and those of later roles may go.
func TestWhatIsEmptiedHoldsNoOther(t *testing.T) {
	in := loaded(t, "s1")
	begunFor := begun("Drain", "s2", v1alpha1.PreparationBegun, noon)
	in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begunFor}
	in.Evidence.System = expression.Facts{"leader": "m-s2"}
	if got := Judge(in.Input); got.Needed != nil {
		t.Errorf("s2 is being prepared: %v", stepNames(got))
	}
	in.Policies[0].Status.Emptied = []v1alpha1.Emptied{isEmptied("s2")}
	if got := Judge(in.Input); len(got.Needed) == 0 {
		t.Errorf("s2 is emptied: %v", reasons(got))
	}

	router := toyPod("r0", "router")
	spec := toySpec()
	after(1, "store")(spec)
	spec.Members[0].Leaves = v1alpha1.LeavesLoad
	in.Policies[0].Policy, in.Pod = compiled(t, spec), router
	s2 := toyPod("s2", "store")
	s2.Owner = daemonSet
	in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], []*snapshot.Pod{router, s2})}
	if got := Judge(in.Input); got.Answer != Allowed {
		t.Errorf("after s2 is emptied: %v", reasons(got))
	}
	in.Policies[0].Status.Emptied = nil
	got := Judge(in.Input)
	if diff := cmp.Diff([]string{EarlierRole}, reasons(got)); diff != "" || !strings.HasPrefix(got.Blockers[0].Remedy, "wait") {
		t.Errorf("before s2 is emptied: %s, %+v", diff, got.Blockers)
	}
}

func TestAnEvictionOfWhatStaysIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		pod     string
		emptied []v1alpha1.Emptied
		verb    Verb
		ask     string
		user    string
		glass   string
		want    []string
		says    string
	}{
		"it carries something":             {pod: "s1", verb: VerbEvict, want: []string{"NotDrained", "IsLeader", PodStays}},
		"it carries nothing":               {pod: "s0", verb: VerbEvict, want: []string{PodStays}, says: "usher drain node-a"},
		"it is emptied":                    {pod: "s0", verb: VerbEvict, emptied: []v1alpha1.Emptied{isEmptied("s0")}, want: []string{PodStays}, says: "emptied, the pod stays"},
		"Usher itself":                     {pod: "s0", verb: VerbEvict, user: "usher", want: []string{PodStays}},
		"a question":                       {pod: "s0", verb: VerbEvict, ask: AskEvict, emptied: []v1alpha1.Emptied{isEmptied("s0")}, want: []string{PodStays}, says: "emptied, the pod stays"},
		"broken glass":                     {pod: "s0", verb: VerbEvict, glass: "now"},
		"a DELETE restarts it":             {pod: "s0", verb: VerbDelete},
		"… not while it carries something": {pod: "s1", verb: VerbDelete, want: []string{"NotDrained", "IsLeader"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := loaded(t, c.pod).Input
			in.Policies[0].Status.Emptied = c.emptied
			if c.glass != "" {
				in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: c.glass}
			}
			got := Admit(AdmissionInput{Input: in, Verb: c.verb, User: c.user, Ask: c.ask, Self: []string{"usher"}})
			if got.Allow != (c.want == nil) {
				t.Fatalf("allowed: %v, %s", got.Allow, got.Message)
			}
			if c.want == nil {
				return
			}
			if diff := cmp.Diff(c.want, reasons(got.Verdict)); c.ask == "" && diff != "" {
				t.Error(diff)
			}
			if len(got.Actions) > 0 || got.Code != tooManyRequests || !strings.Contains(got.Message, c.says) {
				t.Errorf("%d %v %s", got.Code, kinds(got.Actions), got.Message)
			}
		})
	}
}

func TestEmptiedEndsWithTheRequest(t *testing.T) {
	pod := toyPod("s0", "store")
	for name, c := range map[string]struct {
		change func(*StatusInput)
		want   int
	}{
		"it is wanted gone":            {func(*StatusInput) {}, 1},
		"requests cannot be listed":    {func(in *StatusInput) { in.Wanted, in.WantedKnown = nil, false }, 1},
		"none is left":                 {func(in *StatusInput) { in.Wanted = nil }, 0},
		"the policy is being deleted":  {func(in *StatusInput) { in.Deleted = true }, 0},
		"the policy has the pod leave": {func(in *StatusInput) { in.Policy.Policy = compiled(t, toySpec()) }, 0},
		"a cache shows no pod":         {func(in *StatusInput) { in.Pods = nil }, 1},
		"the pod was seen gone": {func(in *StatusInput) {
			in.Pods, in.Presences = nil, map[types.UID]PodPresence{pod.UID: SeenGone}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			declared := loaded(t, "s0").Policies[0]
			declared.Status.Emptied = []v1alpha1.Emptied{isEmptied("s0")}
			in := StatusInput{
				Now: noon.Add(time.Minute), Policy: declared, Pods: []*snapshot.Pod{pod}, Wanted: map[types.UID]bool{pod.UID: true}, WantedKnown: true,
			}
			c.change(&in)
			got := ReconcileStatus(in)
			if c.want == 1 {
				if len(got.Actions) > 0 {
					t.Errorf("it is crossed out: %s", got.Actions[0].Why)
				}
				return
			}
			if len(got.Actions) != 1 || got.Actions[0].Kind != Settle || len(got.Actions[0].Status.Emptied) > 0 {
				t.Errorf("it still counts: %v", got.Actions)
			}
		})
	}
}
