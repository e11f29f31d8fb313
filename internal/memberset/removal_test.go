package memberset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// What goes with a member goes by its name: a label says nothing of whose a claim or a Service is.
func TestLabelsHaveNothingRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		given func(w *world)
		made  []string
		left  bool
	}{
		"its own": {func(*world) {}, []string{"retainVolume kv-member-1"}, true},
		"its own without labels": {func(w *world) {
			w.in.Claims[0].Member, w.in.Services[0].Member = "", ""
		}, []string{"retainVolume kv-member-1"}, true},
		"another's that carry its label": {func(w *world) {
			w.in.Claims, w.in.Services = w.in.Claims[1:], w.in.Services[1:]
			w.in.Claims[0].Member, w.in.Services[0].Member = "kv-member-1", "kv-member-1"
		}, nil, false},
		"a stranger's that carries its label": {func(w *world) {
			w.in.Claims, w.in.Services = w.in.Claims[1:], w.in.Services[1:]
			w.in.Claims = append(w.in.Claims, Claim{Object: Object{Name: "orders", UID: "o", Member: "kv-member-1", Ours: true}})
		}, nil, false},
		"its Service alone": {func(w *world) { w.in.Claims = w.in.Claims[1:] }, []string{"deleteService kv-member-1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 4)
			w.in.Set.Spec.Groups[0].Replicas = new(int32(3))
			w.goes("kv-member-1", v1alpha1.RemovalRemoving)
			w.in.Pods, w.in.List.Entries = w.in.Pods[1:], w.in.List.Entries[1:]
			test.given(w)
			r := Decide(w.in)
			if left := slices.ContainsFunc(r.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == "kv-member-1" }); left != test.left {
				t.Errorf("it is a member: %t", left)
			}
			if diff := cmp.Diff(test.made, kinds(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A removal goes on while the policy says that it does, which is what keeps the others; a policy that was deleted is made anew meanwhile.
func TestAPolicyThatIsDeletedWhileAMemberGoes(t *testing.T) {
	w := formed(t, listing, 4)
	w.in.Set.Spec.Groups[0].Replicas = new(int32(3))
	w.goes("kv-member-1", v1alpha1.RemovalRemoving)
	w.permits["kv-member-1"] = true
	w.in.Policy = nil
	for _, want := range []string{"makePolicy ", "expel kv-member-1"} {
		r := w.step(-1)
		if diff := cmp.Diff([]string{want}, kinds(r)); diff != "" {
			t.Error(diff)
		}
		if waits := slices.Contains(reasons(&r), string(PermitMissing)); waits != (want == "makePolicy ") {
			t.Errorf("it waits for %v", reasons(&r))
		}
		w.note()
	}
	w.in.Policy, w.in.Requests = nil, nil // a request whose finalizer was taken off leaves nothing to wait for
	if r := w.step(-1); slices.Contains(reasons(&r), string(PermitMissing)) || !slices.Contains(kinds(r), "deletePod kv-member-1") {
		t.Errorf("%v, and it waits for %v", kinds(r), reasons(&r))
	}
}

// A pod that ends as it starts is made anew once in a minute, by when it was made, and one that ran for longer at once.
func TestAPodThatHasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		age  time.Duration
		made []string
		says string // "": nothing of it
	}{
		"as it started":   {time.Second, nil, "pod kv-member-1 has ended: Evicted The node was low on memory; it is made anew at 2026-11-27T12:00:59Z"},
		"within a minute": {time.Minute - time.Second, nil, "pod kv-member-1 has ended: Evicted The node was low on memory; it is made anew at 2026-11-27T12:00:01Z"},
		"after it":        {time.Minute, []string{"deletePod kv-member-1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, plain, 1)
			p := w.podNamed("kv-member-1")
			p.Finished, p.Ready, p.Ended, p.Created = true, false, "Evicted The node was low on memory", noon.Add(-test.age)
			w.in.Now = noon
			r := Decide(w.in)
			if diff := cmp.Diff(test.made, kinds(r)); diff != "" {
				t.Error(diff)
			}
			says := ""
			if len(r.Status.Blockers) > 0 {
				says = r.Status.Blockers[0].Message
			}
			if says != test.says {
				t.Errorf("it waits for %q", says)
			}
		})
	}
}

// A member that two requests are for goes by one of them, which is kept to, and by the other where that is gone.
func TestTwoRequestsForAMember(t *testing.T) {
	w := formed(t, plain, 3)
	w.mark("kv-member-1")
	w.step(-1)
	first := w.in.Requests[0].UID
	w.in.Requests = append(w.in.Requests, Request{Name: "a", UID: "second", Role: w.group().Role, Member: "kv-member-1"})
	if r := w.step(-1); r.Status.Members[0].Removal.RequestUID != first {
		t.Errorf("it goes by %+v", r.Status.Members[0].Removal)
	}
	w.memberNamed("kv-member-1").Removal.Step, w.in.Requests[0].Over = v1alpha1.RemovalRemoving, true
	w.in.Pods = w.in.Pods[1:]
	if r := w.step(-1); r.Status.Members[0].Removal.RequestUID != "second" || r.Status.Members[0].Removal.Step != v1alpha1.RemovalRemoving {
		t.Errorf("its first request is over, and it goes by %+v", r.Status.Members[0].Removal)
	}
}

func TestHad(t *testing.T) {
	set := &v1alpha1.MemberSet{Status: v1alpha1.MemberSetStatus{Groups: []v1alpha1.MemberGroupStatus{{Name: "member", LastNumber: 3}}}}
	set.Name = "kv"
	for id, want := range map[string]bool{"kv-member-3": true, "kv-member-1": true, "kv-member-4": false, "kv-other-1": false, "kv": false} {
		if got := Had(set, id); got != want {
			t.Errorf("%s: %t", id, got)
		}
	}
}

// What is left of a member that goes, and is being deleted, is named until it is gone.
func TestWhatIsBeingDeletedIsNamed(t *testing.T) {
	const id = "kv-member-1"
	for name, test := range map[string]struct {
		left func(w *world)
		want Reason
	}{
		"its pod":   {func(w *world) { w.podNamed(id).Terminating = true }, PodTerminates},
		"its claim": {func(w *world) { w.gone(id); w.in.Claims[0].Terminating, w.in.Claims[0].Retained = true, true }, ClaimTerminates},
		"its Service": {func(w *world) {
			w.gone(id)
			w.in.Claims, w.in.Services[0].Terminating = w.in.Claims[1:], true
		}, ServiceTerminates},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 4)
			w.group().Replicas = new(int32(3))
			w.goes(id, v1alpha1.RemovalRemoving)
			w.in.List.Entries = slices.DeleteFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == id })
			test.left(w)
			r := Decide(w.in)
			if len(r.Actions) > 0 || !slices.Equal(reasons(&r), []string{string(test.want)}) || len(r.Status.Members) != 4 {
				t.Errorf("it does %v, and says %+v", kinds(r), r.Status.Blockers)
			}
		})
	}
}

// A member of which only what Kubernetes removes is left holds removals in other zones for the interval, and no longer; what keeps it is named.
func TestARemovalThatIsStuck(t *testing.T) {
	const stuck, next = "kv-member-1", "kv-member-2"
	terminates := func(w *world) { w.podNamed(stuck).Terminating = true }
	for name, test := range map[string]struct {
		kind  Kind
		batch v1alpha1.MemberBatch
		given func(w *world)
		after time.Duration // the last removal began
		goes  bool
		says  string
	}{
		"a zone, within the interval":   {plain, v1alpha1.BatchZone, terminates, time.Minute - time.Second, false, "member kv-member-2 is removed at 2026-11-27T12:01:00Z"},
		"a zone, after the interval":    {plain, v1alpha1.BatchZone, terminates, time.Minute, true, "pod kv-member-1 ends"},
		"a member, within the interval": {plain, v1alpha1.BatchMember, terminates, time.Minute - time.Second, false, "member kv-member-2 is removed at 2026-11-27T12:01:00Z"},
		"a member, after the interval":  {plain, v1alpha1.BatchMember, terminates, time.Minute, true, "pod kv-member-1 ends"},
		"8/116 its pod is gone":         {plain, v1alpha1.BatchZone, func(w *world) { w.gone(stuck); w.in.Claims[0].Terminating, w.in.Claims[0].Retained = true, true }, time.Minute, true, "claim data-kv-member-1 is being deleted"},
		"its pod is not being deleted":  {plain, v1alpha1.BatchZone, func(*world) {}, time.Hour, false, "member kv-member-2 is removed once member kv-member-1 is gone"},
		"off the list, after the interval": {listing, v1alpha1.BatchZone, func(w *world) {
			terminates(w)
			w.in.List.Entries = slices.DeleteFunc(w.in.List.Entries, func(e Entry) bool { return e.Name == stuck })
		}, time.Minute, true, "pod kv-member-1 ends"},
		"on the list": {listing, v1alpha1.BatchZone, terminates, time.Hour, false, "member kv-member-2 is removed once member kv-member-1 is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, test.kind, 5)
			w.in.Set.Spec.Removal = v1alpha1.MemberRemovalTerms{Batch: test.batch, MinInterval: &metav1.Duration{Duration: time.Minute}}
			w.group().Replicas = new(int32(3))
			w.goes(stuck, v1alpha1.RemovalRemoving)
			w.goes(next, v1alpha1.RemovalReplaced)
			w.podNamed(stuck).Zone, w.podNamed(next).Zone = "z1", "z2"
			w.in.Set.Status.LastRemovalTime = &metav1.Time{Time: noon}
			test.given(w)
			w.in.Now = noon.Add(test.after)
			r := Decide(w.in)
			at := slices.IndexFunc(r.Status.Members, func(m v1alpha1.SetMember) bool { return m.ID == next })
			if goes := leaving(&r.Status.Members[at]); goes != test.goes {
				t.Errorf("the next one goes: %t, %+v", goes, r.Status.Blockers)
			}
			if !slices.ContainsFunc(r.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool { return strings.HasPrefix(b.Message, test.says) }) {
				t.Errorf("it says %+v", r.Status.Blockers)
			}
		})
	}
}
