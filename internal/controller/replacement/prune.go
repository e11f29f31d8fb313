package replacement

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// prune removes from a policy's status the members whose requests are gone, or only kept by another finalizer: Usher's own was taken off one that was under way.
// That one is gone is only believed of a live look: a cache that is behind would end the permit of a replacement that goes on. One that is behind the
// other way shows its end later, which is an event.
func (r *reconciler) prune(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	policy, err := r.Gatherer.Policies.Policy(ctx, key.NamespacedName)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	for i := range policy.Status.Replacing {
		entry := &policy.Status.Replacing[i]
		is, err := r.exists(ctx, client.ObjectKey{Namespace: key.Namespace, Name: entry.Request}, entry.RequestUID)
		if err != nil {
			return reconcile.Result{}, err
		}
		if is {
			continue
		}
		release, _ := eviction.ReleaseReplacement(r.Gatherer.Policies.Declared(policy), entry.RequestUID)
		result, err := answered(r.Governed.Do(ctx, release), "ending the permit of a request that is gone")
		if err == nil {
			err = r.Gatherer.Refresh(ctx, key.NamespacedName, release.Version)
		}
		return result, err
	}
	return reconcile.Result{}, nil
}

// exists reports whether the request of this UID is there, and something may still be done for it.
func (r *reconciler) exists(ctx context.Context, key client.ObjectKey, uid types.UID) (bool, error) {
	for _, from := range []client.Reader{r.client, r.live} {
		var request v1alpha1.ReplacementRequest
		err := from.Get(ctx, key, &request)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading request %s: %w", key.Name, err)
		}
		if err == nil && request.UID == uid && !ended(&request) {
			return true, nil
		}
	}
	return false, nil
}
