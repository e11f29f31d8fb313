package observe

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// followAgain is how long after a watch has broken the next one is begun.
const followAgain = 2 * time.Second

// followed is an object of which each change is looked at.
type followed[T metav1.Object] struct {
	kind    string
	objects dynamic.ResourceInterface
	of      func(*unstructured.Unstructured) (T, error)
	// seen is called with the object whenever it has changed, and with T's zero once it is gone, until it returns true.
	seen func(T) (enough bool)
}

// run follows the object of the UID. An error is the context's, or one that trying again does not help.
func (f *followed[T]) run(ctx context.Context, name string, uid types.UID) error {
	var none T
	for {
		found, err := f.objects.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && found.GetUID() != uid:
			f.seen(none)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return Explained("reading "+f.kind+" "+name, err)
		case err == nil:
			if enough, err := f.watch(ctx, found); enough || err != nil {
				return err
			}
		}
		select {
		case <-time.After(followAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch calls seen with an object and its changes until it has seen enough, or the watch has ended.
func (f *followed[T]) watch(ctx context.Context, found *unstructured.Unstructured) (enough bool, err error) {
	now, err := f.of(found)
	if err != nil || f.seen(now) {
		return true, err
	}
	changes, err := f.objects.Watch(ctx, metav1.ListOptions{
		ResourceVersion: found.GetResourceVersion(), FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, found.GetName()).String(),
	})
	switch {
	case apierrors.IsForbidden(err):
		return false, Explained("watching "+f.kind+" "+found.GetName(), err)
	case err != nil:
		return false, nil // it is tried again
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		object, is := change.Object.(*unstructured.Unstructured)
		if !is {
			return false, nil
		}
		if change.Type == watch.Deleted {
			var none T
			f.seen(none)
			return true, nil
		}
		now, err := f.of(object)
		if err != nil {
			return false, err
		}
		if f.seen(now) {
			return true, nil
		}
	}
	return false, ctx.Err()
}
