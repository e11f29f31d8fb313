package policycache

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// TestEvidenceFromBeforeTheEndOfAPodDecidesNothing: a member whose pod is gone is missing, whatever was said while it ran.
func TestEvidenceFromBeforeTheEndOfAPodDecidesNothing(t *testing.T) {
	governed := func(pod *corev1.Pod) { pod.Labels[v1alpha1.PolicyLabel] = "db" }
	of := func(policy string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels[v1alpha1.PolicyLabel] = policy }
	}
	audited := func(pod *corev1.Pod) { pod.Labels[v1alpha1.AuditLabel] = "db" }
	failed := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
	another := func(pod *corev1.Pod) { pod.UID = "another" }
	member := func(change ...func(*corev1.Pod)) *corev1.Pod { return newPod("db-1", "db", change...) }
	cases := []struct {
		name          string
		before, after *corev1.Pod
		asked         int
	}{
		{"it is gone", member(governed), nil, 2},
		{"an audited one is gone", member(audited), nil, 2},
		{"it is another by now", member(governed), member(governed, another), 2},
		{"it has failed", member(governed), member(governed, failed), 2},
		{"it had failed before", member(governed, failed), member(governed, failed), 1},
		{"it terminates", member(governed), member(governed, terminating), 1},
		{"it has no label", member(), nil, 1},
		{"it is another policy's", member(of("other")), nil, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSetting(t, newPolicy("db", "db", rule), newPod("db-0", "db"))
			s.input(t, "db-0")
			s.gatherer.Ended(t.Context(), c.before, c.after)
			if s.input(t, "db-0"); s.system.asked != c.asked {
				t.Errorf("the system was asked %d times, want %d", s.system.asked, c.asked)
			}
			if s.input(t, "db-0"); s.system.asked != c.asked {
				t.Errorf("the system was asked %d times after another verdict, want %d", s.system.asked, c.asked)
			}
		})
	}
}

// TestObservationUnderWayWhenAPodEnds: it may have been begun before.
func TestObservationUnderWayWhenAPodEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newStage(), &fakeSystem{takes: 2 * time.Second}
		k, p := w.observer(), w.policy("a", s)
		began := time.Now()
		go k.Evidence(t.Context(), of(p), 0, 10*time.Second)
		wait(time.Second)
		k.Outdate(p.UID)
		if said := k.Evidence(t.Context(), of(p), 0, 10*time.Second); said.Observed.Equal(began) {
			t.Error("what was begun before the end of a pod decides after it")
		}
		if asked, _ := s.count(); asked != 2 {
			t.Errorf("asked %d times, want 2", asked)
		}
	})
}
