package observe

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
)

// Maintenances reads NodeMaintenances.
type Maintenances struct{ Client dynamic.Interface }

// MaintenanceResource is where NodeMaintenances are served.
var MaintenanceResource = v1alpha1.GroupVersion.WithResource("nodemaintenances")

// Get reads a maintenance. The error is the API's.
func (m Maintenances) Get(ctx context.Context, name string) (*v1alpha1.NodeMaintenance, error) {
	object, err := m.Client.Resource(MaintenanceResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return MaintenanceOf(object)
}

// List reads all maintenances. The error is the API's.
func (m Maintenances) List(ctx context.Context) ([]v1alpha1.NodeMaintenance, error) {
	list, err := m.Client.Resource(MaintenanceResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]v1alpha1.NodeMaintenance, 0, len(list.Items))
	for i := range list.Items {
		found, err := MaintenanceOf(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, *found)
	}
	return all, nil
}

// MaintenanceOf reads what the API has of a maintenance.
func MaintenanceOf(object *unstructured.Unstructured) (*v1alpha1.NodeMaintenance, error) {
	found := &v1alpha1.NodeMaintenance{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found); err != nil {
		return nil, fmt.Errorf("reading NodeMaintenance %s: %w", object.GetName(), err)
	}
	return found, nil
}

// followAgain is how long after a watch has broken the next one is begun.
const followAgain = 2 * time.Second

// Follow calls seen with a maintenance whenever it has changed, and with nil once that of the UID is gone, until seen returns true. An error
// is the context's, or one that trying again does not help.
func (m Maintenances) Follow(ctx context.Context, name string, uid types.UID, seen func(*v1alpha1.NodeMaintenance) (enough bool)) error {
	for {
		found, err := m.Get(ctx, name)
		switch {
		case apierrors.IsNotFound(err) || err == nil && found.UID != uid:
			seen(nil)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return Explained("reading NodeMaintenance "+name, err)
		case err == nil:
			if enough, err := m.watch(ctx, found, seen); enough || err != nil {
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

// watch calls seen with a maintenance and its changes until it has seen enough, or the watch has ended.
func (m Maintenances) watch(ctx context.Context, found *v1alpha1.NodeMaintenance, seen func(*v1alpha1.NodeMaintenance) bool) (enough bool, err error) {
	if seen(found) {
		return true, nil
	}
	changes, err := m.Client.Resource(MaintenanceResource).Watch(ctx, metav1.ListOptions{
		ResourceVersion: found.ResourceVersion, FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, found.Name).String(),
	})
	switch {
	case apierrors.IsForbidden(err):
		return false, Explained("watching NodeMaintenance "+found.Name, err)
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
			seen(nil)
			return true, nil
		}
		now, err := MaintenanceOf(object)
		if err != nil {
			return false, err
		}
		if seen(now) {
			return true, nil
		}
	}
	return false, ctx.Err()
}
