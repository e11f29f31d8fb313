package memberset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// While another cluster answers, what it says is not believed, and nothing of the set changes but that its pods are made anew.
func TestAnotherClusterAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		given func(w *world)
		made  []string
	}{
		"nothing else is amiss": {func(*world) {}, nil},
		"more are asked for":    {func(w *world) { w.in.Set.Spec.Groups[0].Replicas = new(int32(5)) }, nil},
		"fewer are asked for":   {func(w *world) { w.in.Set.Spec.Groups[0].Replicas = new(int32(3)) }, nil},
		"one is marked":         {func(w *world) { w.mark("kv-member-1") }, nil},
		"one may go":            {func(w *world) { w.goes("kv-member-1", v1alpha1.RemovalReplaced) }, nil},
		"one goes":              {func(w *world) { w.goes("kv-member-1", v1alpha1.RemovalRemoving) }, nil},
		"one goes, and its pod is gone": {func(w *world) {
			w.goes("kv-member-1", v1alpha1.RemovalRemoving)
			w.in.Pods = w.in.Pods[1:]
		}, nil},
		"one joins":       {func(w *world) { w.memberNamed("kv-member-2").State = v1alpha1.MemberJoining }, nil},
		"a pod has ended": {func(w *world) { w.in.Pods[0].Finished = true }, nil},
		"a pod is gone":   {func(w *world) { w.in.Pods = w.in.Pods[1:] }, []string{"makePod kv-member-1"}},
		"a claim is gone": {func(w *world) { w.in.Pods, w.in.Claims = w.in.Pods[1:], w.in.Claims[1:] }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 4)
			test.given(w)
			w.in.List = Listing{Cluster: "c2", Entries: []Entry{{Name: "kv-member-1", Whole: true, Healthy: true}}}
			before := w.in.Set.Status.DeepCopy()
			r := Decide(w.in)
			if diff := cmp.Diff(test.made, kinds(r)); diff != "" {
				t.Error(diff)
			}
			if !slices.Contains(reasons(&r), string(ClusterMismatch)) || ready(&r.Status) {
				t.Errorf("it waits for %v", reasons(&r))
			}
			if diff := cmp.Diff(before.Members, r.Status.Members); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A removal, which there is no way back from, is not begun while the list is not known.
func TestNoneBeginsToGoWhileTheListIsNotKnown(t *testing.T) {
	w := formed(t, listing, 4)
	w.in.Set.Spec.Groups[0].Replicas = new(int32(3))
	w.goes("kv-member-1", v1alpha1.RemovalReplaced)
	w.in.List = Listing{Unread: "no endpoint answers"}
	if r := Decide(w.in); r.Status.Members[0].Removal.Step != v1alpha1.RemovalReplaced || !slices.Contains(reasons(&r), string(MembershipUnknown)) {
		t.Errorf("it is %s, and waits for %v", r.Status.Members[0].Removal.Step, reasons(&r))
	}
}

// A learner that is none of the set keeps its members from joining, and is named: nothing here ever promotes it or takes it off.
func TestAStrangerThatJoins(t *testing.T) {
	w := formed(t, listing, 3)
	w.in.Set.Spec.Groups[0].Replicas = new(int32(4))
	stranger := Entry{}
	stranger.ID, stranger.Addresses = "beef", []string{"http://other.db.svc:2380"}
	w.in.List.Entries = append(w.in.List.Entries, stranger)
	var r Result
	for range 5 {
		r = w.step(-1)
	}
	want := "member kv-member-4 cannot join: the list of members has beef at [http://other.db.svc:2380] as a learner, which is none of this set, and one learner is taken in at a time"
	if b := r.Status.Blockers; len(b) != 1 || b[0].Message != want || !strings.Contains(b[0].Remedy, "etcdctl member remove beef") {
		t.Errorf("it waits for %+v", b)
	}
	if slices.Contains(kinds(r), "admit kv-member-4") {
		t.Error(kinds(r))
	}
}
