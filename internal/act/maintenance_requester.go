package act

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
)

// CreateMaintenance creates a NodeMaintenance, or has the server check it with dryRun, and returns it as it is then. The error is the API's.
func CreateMaintenance(ctx context.Context, to dynamic.Interface, m *v1alpha1.NodeMaintenance, dryRun bool) (*v1alpha1.NodeMaintenance, error) {
	created, err := create(ctx, to.Resource(observe.MaintenanceResource), m, dryRun)
	if err != nil {
		return nil, err
	}
	return observe.MaintenanceOf(created)
}

// DeleteMaintenance deletes the NodeMaintenance of this UID. The error is the API's.
func DeleteMaintenance(ctx context.Context, to dynamic.Interface, m *v1alpha1.NodeMaintenance) error {
	return to.Resource(observe.MaintenanceResource).Delete(ctx, m.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.UID}})
}
