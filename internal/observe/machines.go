package observe

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/notice"
)

// MachineKind is the kind of Cluster API's Machines. Which version there is the cluster says.
var MachineKind = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"}

// Machines reads the Machines of Cluster API, in one version.
type Machines struct {
	Client client.Reader
	Kind   schema.GroupVersionKind
}

// List returns those that are being deleted.
func (m *Machines) List(ctx context.Context) ([]notice.Machine, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(m.Kind.GroupVersion().WithKind(m.Kind.Kind + "List"))
	if err := m.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing Machines of Cluster API: %w", err)
	}
	var found []notice.Machine
	for i := range list.Items {
		if facts := machineFacts(&list.Items[i]); !facts.DeletedSince.IsZero() {
			found = append(found, facts)
		}
	}
	return found, nil
}

func machineFacts(o *unstructured.Unstructured) notice.Machine {
	node, _, _ := unstructured.NestedString(o.Object, "status", "nodeRef", "name")
	_, hooked := o.GetAnnotations()[notice.MachineHook]
	deleted := o.GetDeletionTimestamp()
	if deleted == nil {
		deleted = &metav1.Time{}
	}
	return notice.Machine{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Node: node, DeletedSince: deleted.Time, Hooked: hooked,
	}
}
