package observe

import (
	"context"
	"fmt"
	"sync/atomic"

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
	share func(*T) *T     // returns facts that say the same, of which some are kept already; may be nil
	id    func(*T) string // distinguishes two objects that had the same name
	set   func(*snapshot.Cluster, *T)
	drop  func(*snapshot.Cluster, *T)
	quiet func(old, fresh *T) bool // no decision sees the difference; nil: some decision may
	seen  func(*T)                 // called with each fact once it is set, under the lock; may be nil
	// present is what the cluster has of the fact's name, version its resource version; nil: no two feeds show the same object.
	present func(*snapshot.Cluster, *T) *T
	version func(*T) string
}

// convert takes an object of the API, or facts that were made of one already.
func (k *kind[O, T]) convert(object any) (*T, error) {
	switch object := object.(type) {
	case *T:
		return object, nil
	case O:
		fact := k.facts(object)
		if k.share != nil {
			fact = k.share(fact)
		}
		return fact, nil
	}
	return nil, fmt.Errorf("reading a watch: unexpected %T", object)
}

// last takes the object of a deletion. Its version is that of the deletion. Where it is not selected any more, the rest of it is from
// before, so that it is shared with no other feed, which may show what it has become in this version.
func (k *kind[O, T]) last(object any) (*T, error) {
	unshared := *k
	unshared.share = nil
	return unshared.convert(object)
}

// resourceAPI is the part of a typed client that reads a resource.
type resourceAPI[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// selected reads only the objects that a question is about.
type selected[L runtime.Object] struct {
	resourceAPI[L]

	question question
}

// List reads them.
func (s selected[L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	options.FieldSelector, options.LabelSelector = s.question.fields, s.question.labels
	return s.resourceAPI.List(ctx, options)
}

// Watch watches them.
func (s selected[L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector, options.LabelSelector = s.question.fields, s.question.labels
	return s.resourceAPI.Watch(ctx, options)
}

// stream is the verb of a watch that brings the present objects before what changes.
const stream = "stream"

// listWatch joins a typed client to a reflector; ended is called with the result of each request. That the server knows no such watch as
// brings the present objects first is noted in unable, and not asked again.
func listWatch[L runtime.Object](client kubernetes.Interface, api resourceAPI[L], unable *atomic.Bool, ended func(verb string, err error)) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := api.List(ctx, options)
			ended("list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			streams := options.SendInitialEvents != nil
			if streams && unable.Load() {
				return nil, errCannotStream
			}
			events, err := api.Watch(ctx, options)
			switch {
			case err == nil && streams:
				ended(stream, nil)
			case streams && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)): // the reflector lists then
				unable.Store(true)
			default:
				ended("watch", err)
			}
			return events, err
		},
	}, client)
}

// errCannotStream is what such a server answers.
var errCannotStream = apierrors.NewBadRequest("the server does not bring the present objects with a watch")
