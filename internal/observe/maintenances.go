package observe

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
func (m Maintenances) List(ctx context.Context) ([]*v1alpha1.NodeMaintenance, error) {
	return listed(ctx, m.Client.Resource(MaintenanceResource), MaintenanceOf)
}

// MaintenanceOf reads what the API has of a maintenance.
func MaintenanceOf(object *unstructured.Unstructured) (*v1alpha1.NodeMaintenance, error) {
	return typed[v1alpha1.NodeMaintenance]("NodeMaintenance", object)
}

// Follow calls seen with a maintenance whenever it has changed, and with nil once that of the UID is gone, until seen returns true. An error
// is the context's, or one that trying again does not help.
func (m Maintenances) Follow(ctx context.Context, name string, uid types.UID, seen func(*v1alpha1.NodeMaintenance) (enough bool)) error {
	follow := followed[*v1alpha1.NodeMaintenance]{kind: "NodeMaintenance", objects: m.Client.Resource(MaintenanceResource), of: MaintenanceOf, seen: seen}
	return follow.run(ctx, name, uid)
}
