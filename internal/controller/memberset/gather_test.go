package memberset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
)

// A decision about a set knows whom its policy lets go, whose pods are on their way, and whose evictions are prepared or no more.
func TestPolicyOf(t *testing.T) {
	ref := func(id string) v1alpha1.MemberRef { return v1alpha1.MemberRef{ID: id} }
	policy := &v1alpha1.EvictionPolicy{Status: v1alpha1.EvictionPolicyStatus{
		Replacing:    []v1alpha1.Replacing{{ID: "kv-1", RequestUID: "q"}},
		Leaving:      []v1alpha1.Leaving{{MemberRef: ref("kv-2")}},
		Preparations: []v1alpha1.PreparationStatus{{MemberRef: ref("kv-3"), State: v1alpha1.PreparationBegun}, {MemberRef: ref("kv-4"), State: v1alpha1.PreparationUndoing}},
	}}
	want := &memberset.Policy{Permits: []types.UID{"q"}, Leaving: []string{"kv-2"}, Preparing: []string{"kv-3", "kv-4"}}
	if diff := cmp.Diff(want, policyOf(policy, &v1alpha1.MemberSet{})); diff != "" {
		t.Error(diff)
	}
}
