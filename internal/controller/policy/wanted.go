package policy

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/lifecycle"
	"usher.sh/usher/internal/snapshot"
)

// wanted fills in who is wanted gone. Where the cluster serves no requests there are none.
func (s *shell) wanted(ctx context.Context, f *facts, in *eviction.TidyInput) error {
	in.Wanted, in.WantedKnown, in.Deleted = map[types.UID]bool{}, true, f.policy.DeletionTimestamp != nil
	if !s.Requests {
		return nil
	}
	var list api.EvictionRequestList
	if err := s.client.List(ctx, &list, client.InNamespace(f.policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing eviction requests: %w", err)
	}
	for i := range list.Items {
		request := &list.Items[i]
		ref, ok := lifecycle.RequestRef(request)
		if !ok || request.DeletionTimestamp != nil || request.Spec.Intent != api.EvictionRequestIntentEviction {
			continue
		}
		in.Wanted[ref.UID], f.wanted = true, true
		if asked, ok := lifecycle.AskedAt(request); ok {
			in.Requests = append(in.Requests, eviction.AdmissionRequest{
				Pod: snapshot.Key{Namespace: ref.Namespace, Name: ref.Name}, UID: ref.UID, Requester: request.Spec.Requester, Asked: asked,
				Held: f.driven(ref.UID),
			})
		}
	}
	return nil
}

// driven reports whether the pod's node has a taint that drives pods away. The taint eviction controller asks once and
// not again.
func (f *facts) driven(uid types.UID) bool {
	for _, pod := range f.pods {
		if pod.UID != uid || f.nodes[pod.Node] == nil {
			continue
		}
		return slices.ContainsFunc(f.nodes[pod.Node].Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
	}
	return false
}
