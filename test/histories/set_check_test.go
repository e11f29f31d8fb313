package histories

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/test/etcdsim"
)

// TestMadeAnew checks of which members a set may delete the pod for another template, without the rules of their role.
func TestMadeAnew(t *testing.T) {
	const id = "p-member-1"
	looked := time.Now()
	ago := func(d time.Duration) time.Time { return looked.Add(-d) }
	for _, c := range []struct {
		name          string
		formed, whole time.Time // since when they have formed their system, as the set knows, and the member does its work, in truth
		with          func(*v1alpha1.SetMember, *removal, *corev1.Pod)
		want          bool
	}{
		{"it has not joined", ago(time.Hour), time.Time{}, nil, true},
		{"it has", ago(time.Hour), ago(time.Minute), nil, false},
		{"it has since the set was looked at", ago(time.Hour), looked.Add(time.Second), nil, true},
		{"it has, and the set does not know that they have formed their system", time.Time{}, ago(time.Minute), nil, true},
		{"the set knows since it was looked at", looked.Add(time.Second), ago(time.Minute), nil, true},
		{"the set does not know it, and its pod is Ready", time.Time{}, ago(time.Minute), func(_ *v1alpha1.SetMember, _ *removal, pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}, false},
		{"a person deletes it", time.Time{}, time.Time{}, func(_ *v1alpha1.SetMember, r *removal, _ *corev1.Pod) { r.user = "alice" }, false},
		{"it is evicted", time.Time{}, time.Time{}, func(_ *v1alpha1.SetMember, r *removal, _ *corev1.Pod) { r.delete = false }, false},
		{"it leaves", time.Time{}, time.Time{}, func(m *v1alpha1.SetMember, _ *removal, _ *corev1.Pod) { m.Removal = &v1alpha1.MemberRemoval{} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t.Context(), 1)
			s := newSet(w)
			w.site, s.sim = s, etcdsim.Empty(namespace+".svc")
			s.formed, s.whole[id] = c.formed, c.whole
			set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: firstPolicy}}
			set.Status.Members = []v1alpha1.SetMember{{ID: id, State: v1alpha1.MemberJoining}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id}}
			r := &removal{user: self, delete: true, looked: looked}
			if c.with != nil {
				c.with(&set.Status.Members[0], r, pod)
			}
			if err := w.store.create(set); err != nil {
				t.Fatal(err)
			}
			if got := s.madeAnew(r, pod); got != c.want {
				t.Errorf("madeAnew: %t, want %t", got, c.want)
			}
		})
	}
}

// TestWaitsAgain checks when the request that let a member go need not stand any more as it goes.
func TestWaitsAgain(t *testing.T) {
	looked := time.Now()
	for name, c := range map[string]struct {
		step  v1alpha1.ReplacementStep
		begun bool
		since time.Duration // that Usher began to look
		want  bool
	}{
		"it waits again since":       {v1alpha1.ReplacementWaiting, true, 2 * time.Second, true},
		"it did before":              {v1alpha1.ReplacementWaiting, true, -2 * time.Second, false},
		"it has never let it go":     {v1alpha1.ReplacementWaiting, false, 2 * time.Second, false},
		"nothing is left for it":     {v1alpha1.ReplacementJoining, true, 2 * time.Second, false},
		"it was taken back for good": {v1alpha1.ReplacementCancelled, true, 2 * time.Second, false},
	} {
		q := &v1alpha1.ReplacementRequest{}
		q.Status.Step, q.Status.StepTime = c.step, &metav1.Time{Time: looked.Add(c.since)}
		if c.begun {
			q.Status.Predecessor = &v1alpha1.ReplacementPredecessor{}
		}
		if got := waitsAgain(q, looked); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
