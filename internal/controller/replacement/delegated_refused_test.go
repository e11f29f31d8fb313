package replacement

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
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

// A binding refers to a ClusterRole that is there: both come with usher install --replacement only.
func TestAdviceOnMissingRightsNamesWhatBringsTheRoles(t *testing.T) {
	l := &look{request: &v1alpha1.ReplacementRequest{}, patch: &v1alpha1.PatchProvider{Target: v1alpha1.PatchTarget{APIVersion: "v1", Kind: "Pod", Name: "db-0"}}}
	l.request.Namespace = "shop"
	r := &reconciler{}
	r.Self = "system:serviceaccount:usher-system:usher-manager"
	said := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "operator", errors.New(`User cannot impersonate resource "serviceaccounts"`))
	const want = "kubectl create rolebinding usher-replacements-impersonate -n shop " +
		"--clusterrole=usher-replacements-impersonate --serviceaccount=usher-system:usher-manager; its ClusterRole comes with usher install --replacement"
	if got := r.unreadTarget(l, said); len(got) != 1 || got[0].Remedy != want {
		t.Errorf("%+v", got)
	}
	seen := &look{request: l.request}
	got := r.refused(seen, &replacement.Action{Kind: replacement.DeleteClaim, Name: "data-db-0"}, &answers.Answer{Code: answers.Forbidden})
	if got.Remedy != "usher install --replacement" {
		t.Errorf("%+v", got)
	}
}
