package memberset

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// emptyingAt is a complete set of three members, whose first is marked, at a step of that member.
func emptyingAt(t *testing.T, step v1alpha1.MemberRemovalStep) *world {
	t.Helper()
	w := formed(t, emptying, 3)
	w.mark("kv-member-1")
	for range 60 {
		if m := w.find("kv-member-1"); m != nil && m.Removal != nil && m.Removal.Step == step {
			return w
		}
		w.pass()
		w.permit()
		w.step(-1)
	}
	t.Fatalf("it does not come to %s: %+v", step, w.in.Set.Status)
	return nil
}

func (w *world) find(id string) *v1alpha1.SetMember {
	if !slices.Contains(w.ids(), id) {
		return nil
	}
	return w.memberNamed(id)
}

// A member that is replaced goes through all steps in their order, and is forgotten once the system remembers nothing of it.
func TestAMemberIsEmptiedBeforeItGoes(t *testing.T) {
	w := formed(t, emptying, 3)
	w.mark("kv-member-1")
	var steps []v1alpha1.MemberRemovalStep
	for range 60 {
		w.pass()
		w.permit()
		w.step(-1)
		if m := w.find("kv-member-1"); m != nil && m.Removal != nil && !slices.Contains(steps, m.Removal.Step) {
			steps = append(steps, m.Removal.Step)
		}
	}
	want := []v1alpha1.MemberRemovalStep{
		v1alpha1.RemovalGrowing, v1alpha1.RemovalEmptying, v1alpha1.RemovalReplaced, v1alpha1.RemovalRemoving, v1alpha1.RemovalRemoved,
	}
	if !slices.Equal(steps, want) || !slices.Equal(w.ids(), []string{"kv-member-2", "kv-member-3", "kv-member-4"}) || w.disks["kv-member-1"].excluded {
		t.Errorf("its steps are %v, and there are %v", steps, w.ids())
	}
}

// A request that is taken back before the member goes has it take part again, and what is one too many goes.
func TestCancellationRefills(t *testing.T) {
	for _, step := range []v1alpha1.MemberRemovalStep{v1alpha1.RemovalGrowing, v1alpha1.RemovalEmptying, v1alpha1.RemovalReplaced} {
		t.Run(string(step), func(t *testing.T) {
			w := emptyingAt(t, step)
			w.in.Requests[0].Deleted = true
			if !w.settle() || !slices.Equal(w.ids(), []string{"kv-member-1", "kv-member-2", "kv-member-3"}) {
				t.Errorf("in the end there are %v: %+v", w.ids(), w.in.Set.Status)
			}
		})
	}
}

// A member that another client has excluded, by its id or by its address, is named where others wait until enough do their work, and the removal goes on once that was
// taken back.
func TestAMemberThatAnotherClientHasExcluded(t *testing.T) {
	for _, byID := range []bool{true, false} {
		w := emptyingAt(t, v1alpha1.RemovalEmptying)
		other := w.diskOf("kv-member-2")
		other.excluded, other.foreign = byID, true
		w.pass()
		w.permit()
		w.step(0)
		want := memberExcluded("kv-member-2", w.in.Set.Namespace)
		if !slices.ContainsFunc(w.in.Set.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool {
			return b.Reason == string(want.Reason) && b.Message == want.Message
		}) {
			t.Errorf("by its id: %t: it says nothing of it: %+v", byID, w.in.Set.Status.Blockers)
		}
		other.excluded, other.foreign = false, false
		if !w.settle() || slices.Contains(w.ids(), "kv-member-1") {
			t.Errorf("by its id: %t: in the end there are %v", byID, w.ids())
		}
	}
}

// What an eviction has excluded is not said to be another client's: who takes that back has it excluded once more.
func TestAMemberThatIsExcludedForItsEviction(t *testing.T) {
	for name, test := range map[string]struct {
		preparing []string
		want      func(w *world) Blocker
	}{
		"its policy prepares it":        {[]string{"kv-member-2"}, func(w *world) Blocker { return memberPrepared("kv-member-2", w.in.Set) }},
		"its policy prepares another":   {[]string{"kv-member-3"}, func(w *world) Blocker { return memberExcluded("kv-member-2", w.in.Set.Namespace) }},
		"its policy says nothing of it": {nil, func(w *world) Blocker { return memberExcluded("kv-member-2", w.in.Set.Namespace) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyingAt(t, v1alpha1.RemovalEmptying)
			w.diskOf("kv-member-2").foreign = true
			w.in.Policy.Preparing = test.preparing
			w.look()
			want := test.want(w)
			var got []string
			for _, b := range Decide(w.in).Status.Blockers {
				if b.Reason == string(MemberExcluded) {
					got = append(got, b.Message, b.Remedy)
				}
			}
			if diff := cmp.Diff([]string{want.Message, want.Remedy}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is marked again while it is refilled is emptied again, and nothing of that is lost.
func TestAMemberThatIsRefilledIsMarkedAgain(t *testing.T) {
	w := emptyingAt(t, v1alpha1.RemovalEmptying)
	w.in.Requests[0].Deleted = true
	w.permit()
	w.step(0)
	w.mark("kv-member-1")
	w.step(0)
	if step := w.memberNamed("kv-member-1").Removal.Step; step != v1alpha1.RemovalEmptying {
		t.Errorf("it is %s", step)
	}
	if !w.settle() || slices.Contains(w.ids(), "kv-member-1") {
		t.Errorf("in the end there are %v", w.ids())
	}
}

// A member that another client has the system use again does not go, also where its removal has begun; nor does one of which nothing is known.
func TestARemovalThatHasBegunLooksAgain(t *testing.T) {
	for name, test := range map[string]struct {
		given func(w *world)
		want  v1alpha1.MemberRemovalStep
	}{
		"it is included again":       {func(w *world) { *w.disks["kv-member-1"] = disk{data: 2} }, v1alpha1.RemovalEmptying},
		"the system does not answer": {func(w *world) { w.mute = true }, v1alpha1.RemovalRemoving},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyingAt(t, v1alpha1.RemovalRemoving)
			test.given(w)
			w.step(-1)
			w.step(-1)
			if step := w.memberNamed("kv-member-1").Removal.Step; step != test.want || w.podNamed("kv-member-1").Terminating {
				t.Errorf("it is %s, and its pod: %+v", step, *w.podNamed("kv-member-1"))
			}
			w.mute = false
			if !w.settle() || slices.Contains(w.ids(), "kv-member-1") {
				t.Errorf("in the end there are %v: %+v", w.ids(), w.in.Set.Status)
			}
		})
	}
}

// Several are emptied at a time, and one is removed at a time.
func TestSeveralAreEmptied(t *testing.T) {
	w := formed(t, emptying, 4)
	w.mark("kv-member-1")
	w.mark("kv-member-2")
	both := false
	for range 60 {
		w.pass()
		w.permit()
		w.step(-1)
		both = both || w.diskOf("kv-member-1").excluded && w.diskOf("kv-member-2").excluded
	}
	if !both || !slices.Equal(w.ids(), []string{"kv-member-3", "kv-member-4", "kv-member-5", "kv-member-6"}) {
		t.Errorf("both at a time: %t; in the end there are %v", both, w.ids())
	}
}

// A member of which nothing is left needs no request to have the system forget it: none is made for it, and another that stands for it holds nothing up.
func TestAMemberThatIsGoneNeedsNoRequest(t *testing.T) {
	for name, given := range map[string]func(w *world){
		"its own is over":            func(*world) {},
		"another waits, by a person": func(w *world) { w.mark("kv-member-1"); w.in.Requests[1].Name = "berta" },
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyingAt(t, v1alpha1.RemovalRemoved)
			w.in.Requests[0].Over = true
			given(w)
			w.note()
			w.step(0)
			w.look()
			if r := Decide(w.in); !slices.Equal(kinds(r), []string{"refill kv-member-1"}) {
				t.Errorf("it does %v, and waits for %+v", kinds(r), r.Status.Blockers)
			}
		})
	}
}
