package install

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errOver ends a wait whose watch has ended: it is begun again.
var errOver = errors.New("the watch has ended")

// wait watches one object until done says so. Each new thing that done says in between is printed.
func (c Cluster) wait(ctx context.Context, object *unstructured.Unstructured, done func(*unstructured.Unstructured) (ok bool, still string)) error {
	said := ""
	for {
		err := c.follow(ctx, object, func(now *unstructured.Unstructured) bool {
			ok, still := done(now)
			if !ok && still != said {
				said = still
				fmt.Fprintf(c.Out, "%s: %s\n", Ref(object), still)
			}
			return ok
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %s: %s: %w", Ref(object), said, context.Cause(ctx))
		case !errors.Is(err, errOver):
			return fmt.Errorf("waiting for %s: %w", Ref(object), err)
		}
	}
}

// follow shows done the object and what becomes of it; nil when it was deleted.
func (c Cluster) follow(ctx context.Context, object *unstructured.Unstructured, done func(*unstructured.Unstructured) bool) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(object.GroupVersionKind())
	one := []client.ListOption{client.InNamespace(object.GetNamespace()), client.MatchingFields{"metadata.name": object.GetName()}}
	if err := c.Client.List(ctx, list, one...); err != nil {
		return err
	}
	var now *unstructured.Unstructured
	if len(list.Items) > 0 {
		now = &list.Items[0]
	}
	if done(now) {
		return nil
	}
	one = append(one, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
	events, err := c.Client.Watch(ctx, list, one...)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if event.Type == watch.Error || event.Type == watch.Bookmark {
			break
		}
		now, _ := event.Object.(*unstructured.Unstructured)
		if event.Type == watch.Deleted {
			now = nil
		}
		if done(now) {
			return nil
		}
	}
	return errOver
}

func (c Cluster) waitEstablished(ctx context.Context, crd *unstructured.Unstructured) error {
	return c.wait(ctx, crd, func(now *unstructured.Unstructured) (bool, string) {
		return now != nil && condition(now, "Established") == "True", "not served yet"
	})
}

func condition(object *unstructured.Unstructured, kind string) string {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range all {
		if fields, ok := each.(map[string]any); ok && fields["type"] == kind {
			status, _ := fields["status"].(string)
			return status
		}
	}
	return ""
}

// WaitReady waits until every replica of the manager, and every agent, is of this version and answers.
func (c Cluster) WaitReady(ctx context.Context, objects []*unstructured.Unstructured) error {
	ready := map[string]func(*unstructured.Unstructured) (bool, string){"Deployment": deployed, "DaemonSet": onEveryNode}
	for _, object := range objects {
		done := ready[object.GetKind()]
		if done == nil {
			continue
		}
		if err := c.wait(ctx, object, done); err != nil {
			return err
		}
	}
	return nil
}

func deployed(now *unstructured.Unstructured) (bool, string) {
	if now == nil {
		return false, "it was deleted"
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(now.Object, &d); err != nil {
		return false, err.Error()
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	ok := s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
	return ok, fmt.Sprintf("%d of %d replicas are of this version, %d answer", s.UpdatedReplicas, want, s.AvailableReplicas)
}
