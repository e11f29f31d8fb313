package policycache

import (
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// The system of a set is kept for as long as it is called, since it learns by that what is missing and since when; and nothing asks it in the background, without the
// members that the set asks about.
func TestTheSystemOfASetIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{}
		k, p := w.observer(), w.policy("a", s)
		run(t, k)
		source := SetSource(&v1alpha1.MemberSet{ObjectMeta: p.ObjectMeta, Spec: v1alpha1.MemberSetSpec{System: p.Spec.System}})
		for range 30 {
			if _, err := k.List(t.Context(), source); err != nil {
				t.Fatal(err)
			}
			wait(10 * time.Second)
		}
		if asked, closed := s.count(); asked > 0 || closed > 0 || w.opens() != 1 {
			t.Errorf("it was asked %d times in the background, opened %d times and closed %d times", asked, w.opens(), closed)
		}
		wait(2 * time.Minute)
		if _, closed := s.count(); closed != 1 {
			t.Error("it is still open minutes after the last call")
		}
	})
}
