package governed

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// TestLargestStatusOfAMaintenance has the apiserver store a status as large as a maintenance writes. Who manages its fields is stored in the same object,
// of which etcd takes 1.5 MiB: the apiserver drops that where it does not fit.
func TestLargestStatusOfAMaintenance(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	r := newRecorder(t)
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "largest"},
		Spec:       v1alpha1.NodeMaintenanceSpec{Nodes: v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "none"}}}, Requester: "test.usher.sh/size"},
	}
	must(t, r.client.Create(t.Context(), m))
	seen, now := m.DeepCopy(), metav1.Now()
	for size := 0; size < 1<<20; size += 380 {
		name := fmt.Sprintf("ip-10-0-%06d.eu-central-1.compute.internal", size)
		id := fmt.Sprintf("01234567-89ab-cdef-0123-%012d", size)
		m.Status.SelectedNodes = append(m.Status.SelectedNodes, name)
		m.Status.Nodes = append(m.Status.Nodes, v1alpha1.MaintainedNode{
			Name: name, UID: types.UID(id), Step: v1alpha1.StepDeletingNode, StartTime: now, StepTime: now, BootID: id, KubeletVersion: "v1.37.0", Blocked: true, PodCount: 1000,
		})
	}
	must(t, r.client.Status().Patch(t.Context(), m, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}), client.FieldOwner("usher")))
	must(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	if len(m.ManagedFields) == 0 {
		t.Errorf("who manages the fields of an object with %d nodes is not stored", len(m.Status.Nodes))
	}
	must(t, r.client.Delete(t.Context(), m))
}
