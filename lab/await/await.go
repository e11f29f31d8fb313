// Package await answers: when have the objects of a lab reached a state? It watches; it never polls or sleeps while
// the apiserver answers.
package await

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Object is any Kubernetes object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Source is where objects of one kind come from. Namespace may be empty for all of them.
type Source[T Object] struct {
	Client    rest.Interface
	Resource  string
	Namespace string
}

// retry is the pause before asking an apiserver again that does not answer.
const retry = 100 * time.Millisecond

// Until returns nil as soon as done says so about all objects of the source, which it is given sorted by namespace
// and name, at first and after every change. It outlives restarts of the apiserver. When ctx ends first, the error
// wraps the cause of ctx and the last failure to ask, if any.
func Until[T Object](ctx context.Context, s Source[T], done func([]T) bool) error {
	lw := cache.NewListWatchFromClient(s.Client, s.Resource, s.Namespace, fields.Everything())
	for {
		ok, err := round(ctx, lw, done)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("watching %s: %w", s.Resource, errors.Join(context.Cause(ctx), err))
		case <-time.After(retry):
		}
	}
}

// round lists once and then watches until done is satisfied or the watch ends.
func round[T Object](ctx context.Context, lw *cache.ListWatch, done func([]T) bool) (bool, error) {
	list, err := lw.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	objects := map[types.UID]T{}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		if t, ok := o.(T); ok {
			objects[t.GetUID()] = t
		}
		return nil
	})
	if err != nil || done(sorted(objects)) {
		return err == nil, err
	}
	version, err := meta.NewAccessor().ResourceVersion(list)
	if err != nil {
		return false, err
	}
	w, err := lw.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	return follow(ctx, w, objects, done)
}

func follow[T Object](ctx context.Context, w watch.Interface, objects map[types.UID]T, done func([]T) bool) (bool, error) {
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return false, nil
			}
			if keep(objects, e) && done(sorted(objects)) {
				return true, nil
			}
		}
	}
}

// keep brings objects up to date with an event; it reports whether there was anything to do.
func keep[T Object](objects map[types.UID]T, e watch.Event) bool {
	t, ok := e.Object.(T)
	if !ok {
		return false
	}
	if e.Type == watch.Deleted {
		delete(objects, t.GetUID())
	} else {
		objects[t.GetUID()] = t
	}
	return true
}

func sorted[T Object](objects map[types.UID]T) []T {
	return slices.SortedFunc(maps.Values(objects), func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
