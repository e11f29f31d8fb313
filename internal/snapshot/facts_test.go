package snapshot

import "testing"

func TestOwnerDaemonSet(t *testing.T) {
	for version, want := range map[string]bool{"apps/v1": true, "apps/v1beta2": true, "apps.kruise.io/v1alpha1": false, "v1": false, "": false} {
		if got := (Owner{APIVersion: version, Kind: "DaemonSet"}).DaemonSet(); got != want {
			t.Errorf("DaemonSet in %q: %v", version, got)
		}
	}
	if (Owner{APIVersion: "apps/v1", Kind: "StatefulSet"}).DaemonSet() {
		t.Error("a StatefulSet is taken for a DaemonSet")
	}
}
