package memberset

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// A group with one for each node empties a member before it removes it, where its node does not match any more.
func TestPerNodeEmptiesFirst(t *testing.T) {
	const id = "kv-member-3"
	w := newWorld(emptying, 0, t.Fatalf)
	w.group().Replicas, w.group().PerNode = nil, &v1alpha1.PerNode{NodeSelector: map[string]string{"agent": ""}}
	w.in.Nodes = map[string][]string{"member": {"n1", "n2", "n3"}}
	if !w.settle() || w.memberNamed(id).ForNode != "n3" {
		t.Fatalf("at first: %+v", w.in.Set.Status)
	}
	w.pass()
	if w.diskOf(id).data == 0 {
		t.Fatal("it has no data")
	}
	w.in.Nodes["member"] = []string{"n1", "n2"}
	var steps []v1alpha1.MemberRemovalStep
	for range 60 {
		w.pass()
		w.permit()
		deleted := slices.Contains(kinds(w.step(-1)), "deletePod "+id)
		if deleted && w.diskOf(id).data > 0 {
			t.Fatal("its pod is deleted, and data is on it")
		}
		m := w.member(id)
		if m == nil {
			break
		}
		if r := m.Removal; r != nil && (len(steps) == 0 || steps[len(steps)-1] != r.Step) {
			steps = append(steps, r.Step)
		}
	}
	want := []v1alpha1.MemberRemovalStep{v1alpha1.RemovalEmptying, v1alpha1.RemovalReplaced, v1alpha1.RemovalRemoving, v1alpha1.RemovalRemoved}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	if !w.settle() || !slices.Equal(w.ids(), []string{"kv-member-1", "kv-member-2"}) || w.anyExcluded() {
		t.Errorf("in the end there are %v, and one is excluded: %t", w.ids(), w.anyExcluded())
	}
}

// A member stays whose node matches again before the member leaves.
func TestANodeMatchesAgain(t *testing.T) {
	w := newWorld(emptying, 0, t.Fatalf)
	w.group().Replicas, w.group().PerNode = nil, &v1alpha1.PerNode{NodeSelector: map[string]string{"agent": ""}}
	w.in.Nodes = map[string][]string{"member": {"n1", "n2", "n3"}}
	if !w.settle() {
		t.Fatalf("at first: %+v", w.in.Set.Status)
	}
	before := w.ids()
	w.in.Nodes["member"] = []string{"n1", "n2"}
	for range 3 {
		w.pass()
		w.step(-1)
	}
	if w.memberNamed("kv-member-3").Removal == nil {
		t.Fatal("it is not marked")
	}
	w.in.Nodes["member"] = []string{"n1", "n2", "n3"}
	if !w.settle() || !slices.Equal(w.ids(), before) || w.memberNamed("kv-member-3").Removal != nil || w.anyExcluded() {
		t.Errorf("in the end there are %v, and one is excluded: %t: %+v", w.ids(), w.anyExcluded(), w.in.Set.Status.Members)
	}
}

// A set has no more members than its status has room for, and says so.
func TestNoMoreMembersThanCanBeKept(t *testing.T) {
	for name, more := range map[string]func(in *Input, g *v1alpha1.MemberGroup){
		"replicas": func(_ *Input, g *v1alpha1.MemberGroup) { g.Replicas = new(int32(mostMembers + 1)) },
		"one for each node": func(in *Input, g *v1alpha1.MemberGroup) {
			g.Replicas, g.PerNode = nil, &v1alpha1.PerNode{}
			for i := range in.Set.Status.Members {
				in.Set.Status.Members[i].ForNode = in.Set.Status.Members[i].ID
				in.Nodes["member"] = append(in.Nodes["member"], in.Set.Status.Members[i].ID)
			}
			in.Nodes["member"] = append(in.Nodes["member"], "another")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(plain, mostMembers, t.Fatalf)
			w.in.Set.Status.Formed, w.in.Nodes = &v1alpha1.MemberSetFormed{}, map[string][]string{}
			if r := Decide(w.in); len(r.Status.Members) != mostMembers || slices.Contains(reasons(&r), string(TooManyMembers)) {
				t.Fatalf("of as many as there may be there are %d: %v", len(r.Status.Members), reasons(&r))
			} else {
				w.in.Set.Status = r.Status
			}
			more(&w.in, w.group())
			r := Decide(w.in)
			if len(r.Status.Members) != mostMembers {
				t.Errorf("there are %d members", len(r.Status.Members))
			}
			if diff := cmp.Diff([]string{string(TooManyMembers)}, reasons(&r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
