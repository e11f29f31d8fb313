package policy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A member whose pod is gone between two looks counts for its settle time, also where the first write of that meets a conflict, and is
// not written down again after that.
func TestPodThatWentBetweenTwoLooksCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflicts := 0
		r := newRig(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "evictionpolicies"}, o.GetName(), nil)
			}
			return c.SubResource(sub).Patch(ctx, o, p, options...)
		}}, newMember("db-0", "db"), newMember("db-1", "db"), newPolicy("db"))
		for _, name := range []string{"db-0", "db-1"} {
			pod := newMember(name, "db")
			if err := r.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				t.Fatal(err)
			}
			pod.Spec.NodeName = "node-a"
			if err := r.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		r.settled(t, 10*time.Second)
		if err := r.Delete(t.Context(), newMember("db-0", "db")); err != nil {
			t.Fatal(err)
		}
		conflicts = 1
		r.settled(t, 20*time.Second)
		policy := r.stored(t)
		if leaving := policy.Status.Leaving; len(leaving) != 1 || leaving[0].PodName != "db-0" || leaving[0].GoneTime == nil || leaving[0].Requester != "" {
			t.Fatalf("status.leaving is %+v, want db-0, which is gone", leaving)
		}
		epoch := policy.Status.Epoch
		r.settled(t, 5*time.Minute)
		if got := r.stored(t); len(got.Status.Leaving) != 0 || got.Status.Epoch != epoch+1 || conflicts > 0 {
			t.Errorf("status.leaving is %+v, epoch %d, want none and %d", got.Status.Leaving, got.Status.Epoch, epoch+1)
		}
	})
}
