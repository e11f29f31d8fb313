package policycache

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

func TestDeparted(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := NewDeparted(func() time.Time { return now })
	pod := func(name string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, Labels: labels}}
	}
	governed := map[string]string{v1alpha1.PolicyLabel: "db"}
	knows := func(name string) bool { return d.named(snapshot.Key{Namespace: "db", Name: name}) != nil }

	d.deleted(pod("db-0", governed))
	d.deleted(toolscache.DeletedFinalStateUnknown{Obj: pod("db-1", governed)})
	d.deleted(pod("web", nil))
	forged := pod("forged", governed)
	Reduce(forged)
	d.deleted(forged)
	if !knows("db-0") || !knows("db-1") || knows("web") {
		t.Errorf("db-0 %t, db-1 %t, web, which nothing governs, %t", knows("db-0"), knows("db-1"), knows("web"))
	}
	if knows("forged") {
		t.Error("a pod is remembered because of its label, in a namespace without a policy")
	}
	d.arrived(pod("db-0", governed))
	if knows("db-0") {
		t.Error("db-0 is back, and counts as gone")
	}
	now = now.Add(departedLife + time.Second)
	if knows("db-1") {
		t.Error("db-1 is remembered for ever")
	}
	for n := range mostDeparted + 10 {
		now = now.Add(time.Second)
		d.deleted(pod(fmt.Sprint("many-", n), governed))
	}
	if knows("many-9") || !knows("many-10") || len(d.pods["db"]) != mostDeparted {
		t.Errorf("%d are remembered", len(d.pods["db"]))
	}
}

// TestInputOfPodThatIsGone: pod.deleted is true in rules for a pod that was seen gone.
func TestInputOfPodThatIsGone(t *testing.T) {
	s := newSetting(t)
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "db-0", UID: "u", Labels: map[string]string{v1alpha1.PolicyLabel: "db"}}}
	s.gatherer.Gone = NewDeparted(time.Now)
	s.gatherer.Gone.deleted(gone)
	found := s.gatherer.Departed(snapshot.Key{Namespace: "db", Name: "db-0"})
	if found == nil || s.gatherer.Departed(snapshot.Key{Namespace: "db", Name: "db-1"}) != nil {
		t.Fatalf("found %v", found)
	}
	in, err := s.gatherer.Input(t.Context(), Subject{Pod: found, Fresh: true, Deleted: true})
	if err != nil || !in.Deleted {
		t.Errorf("deleted %t, error %v", in.Deleted, err)
	}
}
