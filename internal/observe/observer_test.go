package observe

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
)

var _ runner.Source = (*Observer)(nil)

func blindSince(o *Observer) time.Time {
	var since time.Time
	o.Read(func(v snapshot.View) { since = v.Blind })
	return since
}

// A picture that cannot be renewed must say so: decisions act on it otherwise (law 3).
func TestABrokenWatchMakesTheViewBlind(t *testing.T) {
	for _, resource := range []string{"pods", "nodes", "poddisruptionbudgets"} {
		t.Run(resource, func(t *testing.T) {
			client, fault := breakable(resource)
			o, err := Start(t.Context(), client, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer o.Stop()
			fault.end(errBroken)
			awaitBlind(t, o, true)
			fault.end(nil)
			awaitBlind(t, o, false)
		})
	}
}

// fault decides how the requests for one resource end.
type fault struct {
	mu    sync.Mutex
	err   error
	watch *watch.FakeWatcher // the latest
}

// end ends the present watch; err is returned to the next requests, nil lets them through.
func (f *fault) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if f.watch != nil {
		f.watch.Stop()
	}
}

func (f *fault) list(clienttesting.Action) (bool, runtime.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil, nil, f.err
}

func (f *fault) open(clienttesting.Action) (bool, watch.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = watch.NewFake()
	return true, f.watch, f.err
}

// breakable returns a client of an empty cluster whose reading of one resource can be
// made to fail.
func breakable(resource string) (kubernetes.Interface, *fault) {
	client, f := fake.NewClientset(), &fault{}
	client.PrependReactor("list", resource, f.list)
	client.PrependWatchReactor(resource, f.open)
	return client, f
}

func awaitBlind(t *testing.T, o *Observer, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for blindSince(o).IsZero() == want {
		select {
		case <-o.Changed():
		case <-ctx.Done():
			t.Fatalf("waiting for a view that is blind (%t): %v", want, ctx.Err())
		}
	}
}

// A watch that brings the present objects first has brought nothing when it begins:
// the picture is as old as before until all of them are there.
func TestAStreamThatBeginsHasNotBroughtThePicture(t *testing.T) {
	o := newObserver(Options{})
	o.scope.wide = true
	f := &feed{question: question{resource: pods}, synced: true}
	o.feeds[f.question] = f
	o.recordEnd(t.Context(), f, "watch", errBroken)
	o.recordEnd(t.Context(), f, stream, nil)
	if blindSince(o).IsZero() {
		t.Error("not blind although nothing was read since the watch broke")
	}
	s := &store[*corev1.Pod, snapshot.Pod]{observer: o, feed: f, kind: o.podKind(), known: map[string]*snapshot.Pod{}}
	if err := s.Replace([]any{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1"}}}, ""); err != nil {
		t.Fatal(err)
	}
	if since := blindSince(o); !since.IsZero() {
		t.Errorf("blind since %s although everything was read", since)
	}
}

var errBroken = errors.New("the connection is broken")
