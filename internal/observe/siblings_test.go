package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/snapshot"
)

// TestSiblingsAreOfOneNamespace: a client that creates a pod writes its owner's UID, and may write that of another namespace's
// controller, with another name and kind.
func TestSiblingsAreOfOneNamespace(t *testing.T) {
	web := snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "of-web"}
	forged := snapshot.Owner{APIVersion: "apps/v9", Kind: "DaemonSet", Name: "web", UID: "of-web"}
	given := []snapshot.Pod{
		{UID: "a", Namespace: "tenant", Name: "web-1", Owner: forged, Labels: map[string]string{"app": "web"}},
		{UID: "b", Namespace: "shop", Name: "web-1", Node: "n", Owner: web, Labels: map[string]string{"app": "web"}},
		{UID: "c", Namespace: "shop", Name: "web-2", Node: "n", Owner: web, PriorityClass: "high"},
		{UID: "d", Namespace: "shop", Name: "web-3", Node: "n", Owner: forged},
		{UID: "e", Namespace: "tenant", Name: "web-1", Owner: web},
	}
	family, seen := &siblings{}, snapshot.NewCluster()
	for i := range given {
		own := given[i]
		shared := family.share(&own)
		if diff := cmp.Diff(&given[i], shared); diff != "" {
			t.Errorf("pod %s (-want +got):\n%s", given[i].UID, diff)
		}
		seen.SetPod(shared)
	}
	if on := len(seen.PodsOn("n")); on != 3 {
		t.Errorf("%d pods are seen on the node, want 3", on)
	}
}
