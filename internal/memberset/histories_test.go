package memberset

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// None of those that form a system starts before all have their claims.
func TestTheFirstStartOnceAllAreEquipped(t *testing.T) {
	w := newWorld(listing, 3, t.Fatalf)
	w.step(-1)
	w.step(5) // the last one's claim is not made
	for range 3 {
		if got := kinds(w.step(0)); slices.Contains(got, string(MakePod)+" kv-member-1") {
			t.Fatalf("a pod is made: %v", got)
		}
	}
	if !w.settle() {
		t.Errorf("the set is not Ready: %+v", w.in.Set.Status.Blockers)
	}
}

// What a set has asked for of a role that its group does not have any more is taken back.
func TestRequestsOfAFormerRole(t *testing.T) {
	w := newWorld(plain, 3, t.Fatalf)
	w.settle()
	w.in.Set.Spec.Groups[0].Replicas = new(int32(2))
	w.step(-1)
	w.in.Set.Spec.Groups[0].Role = "other"
	w.step(-1) // it takes note of its request
	if r := w.step(-1); !slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Kind == Unmark }) {
		t.Errorf("%v", kinds(r))
	}
	if w.permit(); !w.settle() || len(w.ids()) != 2 {
		t.Errorf("in the end there are %v: %+v", w.ids(), w.in.Set.Status.Blockers)
	}
}

// A request that another has made of a role that the group does not have any more holds the set up no longer.
func TestAnothersRequestOfAFormerRole(t *testing.T) {
	w := newWorld(plain, 3, t.Fatalf)
	w.settle()
	w.mark("kv-member-1")
	w.step(-1)
	w.in.Set.Spec.Groups[0].Role = "other"
	if !w.settle() || len(w.ids()) != 3 || w.member("kv-member-1").Removal != nil {
		t.Errorf("in the end there are %v: %+v", w.ids(), w.in.Set.Status.Blockers)
	}
}

// A member that is being removed has a request of the set's own where the one that let it go was taken away with its finalizer.
func TestARequestThatWasTakenAway(t *testing.T) {
	w := newWorld(listing, 3, t.Fatalf)
	w.settle()
	w.mark("kv-member-1")
	for range 60 {
		w.pass()
		w.permit()
		w.step(-1)
		if len(w.in.List.Entries) == 3 && w.member("kv-member-1") != nil && leaving(w.member("kv-member-1")) {
			break
		}
	}
	w.in.Requests = nil
	if r := w.step(0); !slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Kind == Mark && a.Member == "kv-member-1" }) {
		t.Errorf("%v", kinds(r))
	}
}

func (w *world) member(id string) *v1alpha1.SetMember {
	return (&decision{Input: &w.in, status: w.in.Set.Status}).member(id)
}

// A set that is stalled goes on with the members that join or leave.
func TestRests(t *testing.T) {
	stalled := v1alpha1.MemberSetStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionFalse}, {Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue},
	}}
	if !Rests(&stalled) {
		t.Error("nothing joins or leaves")
	}
	stalled.Groups = []v1alpha1.MemberGroupStatus{{JoiningCount: 1}}
	if Rests(&stalled) {
		t.Error("a member joins")
	}
}

// Without a list a member that works goes only while as many others work as there are to be: those that did once do not count.
func TestOthersThatDoNotWork(t *testing.T) {
	w := newWorld(plain, 2, t.Fatalf)
	w.settle()
	w.mark("kv-member-1")
	for range 20 {
		w.pass()
		w.step(-1)
	}
	at := slices.IndexFunc(w.in.Pods, func(p Pod) bool { return p.Name == "kv-member-2" })
	w.in.Pods[at].Ready = false
	w.step(-1)
	if got := w.member("kv-member-1").Removal.Step; got != v1alpha1.RemovalGrowing {
		t.Errorf("it is %s", got)
	}
	w.pass()
	w.step(-1)
	if got := w.member("kv-member-1").Removal.Step; got != v1alpha1.RemovalReplaced {
		t.Errorf("in the end it is %s", got)
	}
}
