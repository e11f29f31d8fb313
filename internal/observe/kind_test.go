package observe

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// old is a server that refuses watches which bring the present objects first.
type old struct{ asked int }

func (*old) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{}, nil
}

func (s *old) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.asked++
	if options.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	}
	return watch.NewFake(), nil
}

// A server is asked once for what it does not know, by all watches of it.
func TestAServerThatCannotStreamIsAskedOnce(t *testing.T) {
	var unable atomic.Bool
	for n := range 3 {
		server := &old{}
		source := cache.ToListerWatcherWithContext(listWatch(fake.NewClientset(), server, &unable, func(verb string, err error) {
			if err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		}))
		if _, err := source.WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: new(true)}); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			t.Errorf("watch %d: %v", n, err)
		}
		if want := 1 - min(n, 1); server.asked != want {
			t.Errorf("watch %d: the server was asked %d times", n, server.asked)
		}
		if _, err := source.WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
}
