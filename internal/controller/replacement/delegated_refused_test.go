package replacement

import (
	"fmt"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/replacement"
)

// What no right and no operator can make patchable is corrected in the policy, and the request is stalled until then.
func TestTargetThatIsNotPatchable(t *testing.T) {
	l := &look{patch: &v1alpha1.PatchProvider{Target: v1alpha1.PatchTarget{APIVersion: "v1", Kind: "Node", Name: "n1"}}}
	got := new(reconciler).unreadTarget(l, fmt.Errorf("its kind is not namespaced: %w", act.ErrNotPatchable))
	if len(got) != 1 || got[0].Reason != replacement.ProviderUnsupported || !got[0].Never || got[0].Remedy != "correct spec.members[].provider.patch of the policy" {
		t.Errorf("%+v", got)
	}
}
