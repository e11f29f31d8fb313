package eviction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/api/v1alpha1"
)

// TestPreparing: `preparing` in a rule names every other member of the role that a step may have taken away.
func TestPreparing(t *testing.T) {
	const begunState = v1alpha1.PreparationBegun
	for name, c := range map[string]struct {
		steps []v1alpha1.PreparationStatus
		given func(*Input)
		want  []string
	}{
		"no step":                {},
		"another of the role":    {steps: []v1alpha1.PreparationStatus{begun("Drain", "s1", begunState, noon.Add(-time.Hour))}, want: []string{"m-s1"}},
		"itself":                 {steps: []v1alpha1.PreparationStatus{begun("Drain", "s0", begunState, noon)}},
		"one of another role":    {steps: []v1alpha1.PreparationStatus{begun("Drain", "r0", begunState, noon)}},
		"being taken back":       {steps: []v1alpha1.PreparationStatus{begun("Drain", "s1", v1alpha1.PreparationUndoing, noon)}, want: []string{"m-s1"}},
		"two steps of one":       {steps: []v1alpha1.PreparationStatus{begun("Drain", "s1", begunState, noon), begun("Resign", "s1", begunState, noon)}, want: []string{"m-s1"}},
		"its pod has gone":       {steps: []v1alpha1.PreparationStatus{begun("Drain", "s9", begunState, noon.Add(-time.Minute))}, want: []string{"m-s9"}},
		"its pod went long ago":  {steps: []v1alpha1.PreparationStatus{begun("Drain", "s9", begunState, noon.Add(-time.Hour))}},
		"its pod is terminating": {steps: []v1alpha1.PreparationStatus{begun("Drain", "s1", begunState, noon)}, given: func(in *Input) { terminating(in.Peers[1]) }, want: []string{"m-s1"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			in.Peers[3] = toyPod("r0", "router")
			if c.given != nil {
				c.given(&in)
			}
			in.Policies[0].Status.Preparations = c.steps
			if diff := cmp.Diff(c.want, claimed(in).preparing()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
