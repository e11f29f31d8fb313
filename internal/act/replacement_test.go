package act

import (
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
)

func TestUnhealthyIsWrittenAtTheVersionThatWasLookedAt(t *testing.T) {
	g := governedWorld(t)
	w := &Replacements{Client: g.Client}
	early := g.stored(t)
	wantUnhealthy(t, w, early, []v1alpha1.UnhealthyMember{{Role: "node", ID: "late"}}, answers.Accepted)
	wantUnhealthy(t, w, early, []v1alpha1.UnhealthyMember{{Role: "node", ID: "early"}}, answers.Conflict)
	if got := g.stored(t).Status.Unhealthy; len(got) != 1 || got[0].ID != "late" {
		t.Errorf("unhealthy are %+v, want what was written by the later look", got)
	}
	wantUnhealthy(t, w, g.stored(t), nil, answers.Accepted)
	if got := g.stored(t).Status.Unhealthy; len(got) != 0 {
		t.Errorf("unhealthy are %+v, want none", got)
	}
}

func wantUnhealthy(t *testing.T, w *Replacements, policy *v1alpha1.EvictionPolicy, unhealthy []v1alpha1.UnhealthyMember, want answers.Code) {
	t.Helper()
	changed, answer := w.WriteUnhealthy(t.Context(), policy, unhealthy)
	wantCode(t, answer, want)
	if want == answers.Accepted && len(changed.Status.Unhealthy) != len(unhealthy) {
		t.Errorf("%+v", changed.Status.Unhealthy)
	}
}
