package observe

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"usher.sh/usher/internal/snapshot"
)

// kind says how the objects of a resource become facts of a cluster.
type kind[O runtime.Object, T any] struct {
	facts func(O) *T
	id    func(*T) string // distinguishes two objects that had the same name
	set   func(*snapshot.Cluster, *T)
	drop  func(*snapshot.Cluster, *T)
	quiet func(old, fresh *T) bool // no decision sees the difference; nil: some decision may
	seen  func(*T)                 // called with each fact once it is set, under the lock; may be nil
}

// convert takes an object of the API, or facts that were made of one already.
func (k *kind[O, T]) convert(object any) (*T, error) {
	switch object := object.(type) {
	case *T:
		return object, nil
	case O:
		return k.facts(object), nil
	}
	return nil, fmt.Errorf("reading a watch: unexpected %T", object)
}

// resourceAPI is the part of a typed client that reads a resource.
type resourceAPI[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// selected reads only the objects that a field selector selects; "": all.
type selected[L runtime.Object] struct {
	resourceAPI[L]

	selector string
}

// List reads them.
func (s selected[L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	options.FieldSelector = s.selector
	return s.resourceAPI.List(ctx, options)
}

// Watch watches them.
func (s selected[L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = s.selector
	return s.resourceAPI.Watch(ctx, options)
}

// stream is the verb of a watch that brings the present objects before what changes.
const stream = "stream"

// listWatch joins a typed client to a reflector; ended is called with the result of each request.
func listWatch[L runtime.Object](client kubernetes.Interface, api resourceAPI[L], ended func(verb string, err error)) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := api.List(ctx, options)
			ended("list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := api.Watch(ctx, options)
			switch {
			case err == nil && options.SendInitialEvents != nil:
				ended(stream, nil)
			case !cannotStream(options, err):
				ended("watch", err)
			}
			return events, err
		},
	}, client)
}

// cannotStream reports whether the server is one that does not bring the present
// objects with a watch. The reflector lists then, so it is no failure.
func cannotStream(options metav1.ListOptions, err error) bool {
	return options.SendInitialEvents != nil && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err))
}
