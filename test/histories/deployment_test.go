package histories

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// begin has a request say that a pod is removed for a successor, as of a minute ago.
func (d *departure) begin(t *testing.T, member string, uid types.UID) *v1alpha1.ReplacementRequest {
	t.Helper()
	q := &v1alpha1.ReplacementRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-" + member}}
	q.Spec.Member = v1alpha1.ReplacementMember{Role: "m", ID: member}
	q.Status.Step = v1alpha1.ReplacementRemoving
	q.Status.Predecessor = &v1alpha1.ReplacementPredecessor{PodName: member, PodUID: uid, StartTime: &metav1.Time{Time: d.removal.began.Add(-time.Minute)}}
	if err := d.store.create(q); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestPodGoesExcuses checks when Usher may delete the pod of b, of which a ReplicaSet makes another.
func TestPodGoesExcuses(t *testing.T) {
	over := func(d *departure, q *v1alpha1.ReplacementRequest) {
		q = duplicate(q)
		q.Status.Step = v1alpha1.ReplacementComplete
		d.store.put(q)
	}
	ready := func(d *departure, since time.Duration) {
		d.pod = duplicate(d.pod)
		d.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(d.removal.looked.Add(-since))}}
		d.editNode("b", func(n *corev1.Node) {
			n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(d.removal.looked.Add(-time.Hour))
		})
	}
	alone := func(d *departure, since time.Duration) {
		d.system.alone, d.system.lags = map[string]string{"b": "no other routes"}, time.Minute
		d.safety.missed["b"] = time.Now().Add(-since)
	}
	cases := []struct {
		name  string
		with  func(*departure, *v1alpha1.ReplacementRequest)
		fails bool
	}{
		{"it is replaced", func(*departure, *v1alpha1.ReplacementRequest) {}, false},
		{"its replacement is over", over, true},
		{"its request is gone", func(d *departure, q *v1alpha1.ReplacementRequest) {
			d.store.drop(replaces, client.ObjectKeyFromObject(q))
			d.removal.looked = d.removal.looked.Add(time.Hour)
		}, true},
		{"its request is gone since the look", func(d *departure, q *v1alpha1.ReplacementRequest) {
			d.store.drop(replaces, client.ObjectKeyFromObject(q))
		}, false},
		{"another pod is to go", func(d *departure, _ *v1alpha1.ReplacementRequest) { d.pod = duplicate(d.pod); d.pod.UID = "another" }, true},
		{"it is Ready", func(d *departure, _ *v1alpha1.ReplacementRequest) { ready(d, time.Second) }, true},
		{"it is Ready since the look", func(d *departure, _ *v1alpha1.ReplacementRequest) { ready(d, -time.Second) }, false},
		{"its node does not report", func(d *departure, _ *v1alpha1.ReplacementRequest) {
			ready(d, time.Second)
			d.editNode("b", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
		}, false},
		{"no other does its work", func(d *departure, _ *v1alpha1.ReplacementRequest) { alone(d, 2*time.Minute) }, true},
		{"since a moment ago", func(d *departure, _ *v1alpha1.ReplacementRequest) { alone(d, time.Minute) }, false},
		{"the successor of another has not begun", func(d *departure, _ *v1alpha1.ReplacementRequest) {
			d.awaits["a"] = awaited{request: d.begin(t, "a", "x").UID}
		}, true},
		{"and it is not waited for any more", func(d *departure, _ *v1alpha1.ReplacementRequest) {
			q := d.begin(t, "a", "x")
			d.awaits["a"] = awaited{request: q.UID}
			over(d, q)
		}, false},
		{"a claim was deleted for one", func(d *departure, _ *v1alpha1.ReplacementRequest) { d.replacing["a"] = true }, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := wrongDeparture(t)
			d.system.scales, d.removal.user, d.removal.delete = true, self, true
			q := d.begin(t, "b", d.pod.UID)
			c.with(d, q)
			d.checkPodGoes(d.removal, d.pod)
			d.check(t, c.fails, "REPLACED", c.name)
		})
	}
}

// TestSuccessors checks which pods of a ReplicaSet are successors of one that was deleted.
func TestSuccessors(t *testing.T) {
	d := wrongDeparture(t)
	d.system.scales = true
	made := d.pod.CreationTimestamp.Time
	open := d.begin(t, "a", "x").UID
	for since, want := range map[time.Time]bool{made: true, made.Add(time.Second): false} {
		d.awaits = map[string]awaited{"a": {request: open, since: since}}
		if d.succeeds(planned{pod: "b", role: "m"}); len(d.awaitingSuccessors()) == 0 != want {
			t.Errorf("made %s after it: %t", made.Sub(since), want)
		}
	}
}
