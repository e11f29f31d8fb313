package policy

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/internal/eviction"
)

// TestWanted: what is read of requests is enough for each decision that rests on them.
func TestWanted(t *testing.T) {
	other := newMember("web-0", "")
	other.Labels = map[string]string{"app": "web"}
	labelled := newMember("old-0", "db") // the policy has claimed it
	labelled.Labels["app"] = "old"
	withdrawn := requestOf("db-1", 9)
	withdrawn.Spec.Intent = api.EvictionRequestIntentWithdrawn
	for name, c := range map[string]struct {
		policy   string
		requests []client.Object
		wanted   []types.UID
		admitted []types.UID
	}{
		"the status names it":              {policy: "a member is prepared", requests: []client.Object{requestOf("db-0", 1), requestOf("db-0", 2)}, wanted: []types.UID{"db-0"}},
		"it was let go":                    {policy: "a member leaves", requests: []client.Object{refusedCaller("db-0")}, wanted: []types.UID{"db-0"}, admitted: []types.UID{"db-0"}},
		"another, while a step is kept":    {policy: "a member is prepared", requests: []client.Object{requestOf("db-0", 1), requestOf("db-1", 1)}, wanted: []types.UID{"db-0"}},
		"another, while one is taken back": {policy: "a member is prepared", requests: []client.Object{requestOf("db-1", 1)}, wanted: []types.UID{"db-1"}},
		"another, while one goes":          {policy: "a member leaves", requests: []client.Object{requestOf("db-0", 1), requestOf("db-1", 1)}, wanted: []types.UID{"db-0", "db-1"}},
		"another, while it is held":        {policy: "it is held", requests: []client.Object{requestOf("db-1", 1)}, wanted: []types.UID{"db-1"}},
		"another by its label alone":       {policy: "it is held", requests: []client.Object{requestOf("old-0", 1)}, wanted: []types.UID{"old-0"}},
		"another that is wanted no more":   {policy: "it is held", requests: []client.Object{withdrawn}},
		"another, and nothing rests on it": {policy: "nothing is under way", requests: []client.Object{requestOf("db-1", 1)}},
		"a pod of no policy":               {policy: "a member is prepared", requests: []client.Object{requestOf("web-0", 1)}},
		"all of a policy that goes": {
			policy: "it is being deleted", requests: []client.Object{refusedCaller("db-0"), refusedCaller("db-1"), refusedCaller("old-0"), refusedCaller("web-0")},
			wanted: []types.UID{"db-0", "db-1", "old-0"}, admitted: []types.UID{"db-0", "db-1", "old-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := busyPolicies()[c.policy]
			r := newRig(t, interceptor.Funcs{}, append(c.requests, policy, newMember("db-0", "db"), newMember("db-1", "db"), labelled.DeepCopy(), other.DeepCopy())...)
			f, err := r.reconciler.gather(t.Context(), client.ObjectKeyFromObject(policy))
			if err != nil {
				t.Fatal(err)
			}
			in := eviction.StatusInput{Policy: f.own, Pods: f.pods}
			if err := r.reconciler.wanted(t.Context(), f, &in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.wanted, slices.Sorted(maps.Keys(in.Wanted))); diff != "" {
				t.Errorf("wanted: %s", diff)
			}
			var admitted []types.UID
			for i := range in.Requests {
				admitted = append(admitted, in.Requests[i].UID)
			}
			slices.Sort(admitted)
			if diff := cmp.Diff(c.admitted, admitted); diff != "" {
				t.Errorf("admitted: %s", diff)
			}
			if f.wanted != (len(c.wanted) > 0) {
				t.Errorf("held: %t", f.wanted)
			}
		})
	}
}
