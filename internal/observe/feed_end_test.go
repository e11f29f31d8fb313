package observe

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/snapshot"
)

// podFeed is a feed of pods with its store.
func podFeed(o *Observer, q question) *store[*corev1.Pod, snapshot.Pod] {
	_, f := o.open(q)
	s := &store[*corev1.Pod, snapshot.Pod]{observer: o, feed: f, kind: o.podKind(), known: map[string]*snapshot.Pod{}}
	f.shows, f.within = s.shows, s.within
	return s
}

// A feed ends once another one shows all that it shows, and not before: what only it has shown would stay for ever, were it gone before the
// other one shows it.
func TestFeedEndsOnceAnotherShowsAllOfIt(t *testing.T) {
	o := newObserver(Options{Nodes: []string{"a"}})
	o.ctx = t.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "p", ResourceVersion: "2"}}
	narrow := podFeed(o, question{resource: pods, namespace: "shop", labels: "app"})
	elsewhere := podFeed(o, question{resource: pods, namespace: "db", labels: "app"})
	if err := errors.Join(narrow.Replace([]any{pod}, ""), elsewhere.Replace(nil, "")); err != nil {
		t.Fatal(err)
	}
	whole := podFeed(o, question{resource: pods, namespace: "shop"})
	steps := []struct {
		name  string
		do    func() error
		ended bool
	}{
		{"it is read", func() error { return nil }, false},
		{"it is behind", func() error { return whole.Replace(nil, "") }, false},
		{"it cannot be read", func() error {
			o.recordEnd(t.Context(), whole.feed, "watch", errors.New("try again"))
			return whole.Add(pod)
		}, false},
		{"it can be read again", func() error {
			o.recordEnd(t.Context(), whole.feed, "watch", nil)
			return whole.Add(pod)
		}, true},
		{"what comes by it still", func() error {
			late := pod.DeepCopy()
			late.Name, late.UID = "late", "late"
			return narrow.Add(late)
		}, true},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if narrow.feed.ended != step.ended || elsewhere.feed.ended || o.cluster.Pod("p") == nil {
			t.Errorf("%s: ended %t, that of another namespace %t, the pod is shown %t", step.name, narrow.feed.ended, elsewhere.feed.ended, o.cluster.Pod("p") != nil)
		}
	}
	if o.cluster.Pod("late") != nil {
		t.Error("what came by a feed that had ended is shown")
	}
	if err := whole.Delete(pod); err != nil || o.cluster.Pod("p") != nil {
		t.Errorf("the pod is gone: %v, shown %t", err, o.cluster.Pod("p") != nil)
	}
	if feeds := len(o.feedsOf(pods)); feeds != 2 || len(o.feeds) != 2 {
		t.Errorf("%d and %d feeds, want 2", feeds, len(o.feeds))
	}
}
