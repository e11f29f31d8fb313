package snapshot

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const century = 100 * 365 * 24 * time.Hour

// extremes are seconds that time.Duration cannot hold, or hardly, and what they come to.
var extremes = map[int64]time.Duration{
	0: 0, 90: 90 * time.Second, 1_000_000_000: 1_000_000_000 * time.Second,
	9_223_372_036: century, 9_223_372_037: century, 18_446_744_074: century, math.MaxInt64: century,
	-5: -5 * time.Second, -9_223_372_037: -century, math.MinInt64: -century,
}

func TestSeconds(t *testing.T) {
	for n, want := range extremes {
		if got := Seconds(n); got != want {
			t.Errorf("%d seconds are %s, want %s", n, got, want)
		}
	}
	if most := Seconds(math.MaxInt64); most+most < most {
		t.Errorf("two of the longest are %s", most+most)
	}
}

func TestGraceOf(t *testing.T) {
	pod := &corev1.Pod{}
	if got := GraceOf(pod); got != 30*time.Second {
		t.Errorf("a pod that says nothing has %s", got)
	}
	for n, want := range extremes {
		if n < 0 {
			want = time.Second
		}
		pod.Spec.TerminationGracePeriodSeconds = &n
		if got := GraceOf(pod); got != want {
			t.Errorf("%d seconds are a grace of %s, want %s", n, got, want)
		}
	}
}
