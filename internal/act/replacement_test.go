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
	wantCode(t, w.WriteUnhealthy(t.Context(), early, []v1alpha1.UnhealthyMember{{Role: "node", ID: "late"}}), answers.Accepted)
	wantCode(t, w.WriteUnhealthy(t.Context(), early, []v1alpha1.UnhealthyMember{{Role: "node", ID: "early"}}), answers.Conflict)
	if got := g.stored(t).Status.Unhealthy; len(got) != 1 || got[0].ID != "late" {
		t.Errorf("unhealthy are %+v, want what was written by the later look", got)
	}
	wantCode(t, w.WriteUnhealthy(t.Context(), g.stored(t), nil), answers.Accepted)
	if got := g.stored(t).Status.Unhealthy; len(got) != 0 {
		t.Errorf("unhealthy are %+v, want none", got)
	}
}
