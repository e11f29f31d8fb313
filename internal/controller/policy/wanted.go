package policy

import (
	"context"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// wanted fills in who is wanted gone. Where the cluster serves no requests there are none.
func (s *reconciler) wanted(ctx context.Context, f *facts, in *eviction.StatusInput) error {
	in.Wanted, in.WantedKnown, in.Deleted = map[types.UID]bool{}, true, f.policy.DeletionTimestamp != nil
	in.Audited = f.policy.Spec.Audited()
	in.Requesters = map[string]string{}
	for i := range f.policy.Status.Leaving {
		by := f.policy.Status.Leaving[i].Requester
		in.Requesters[by] = evictionrequest.Requester(by)
	}
	if !s.Requests {
		return nil
	}
	all, err := targets.Requests(ctx, s.client, f.policy.Namespace)
	if err != nil || len(all) == 0 {
		return err
	}
	nodes := f.nodesOfPods()
	for _, request := range all {
		ref, ok := evictionrequest.RequestRef(request)
		if !ok || request.DeletionTimestamp != nil || request.Spec.Intent != api.EvictionRequestIntentEviction {
			continue
		}
		in.Wanted[ref.UID], f.wanted = true, !in.Audited // nothing is begun for what is only audited
		if admitted, ok := policycache.AdmissionRequest(request, nodes[ref.UID]); ok {
			in.Requests = append(in.Requests, admitted)
		}
	}
	return nil
}

// nodesOfPods are the nodes of the namespace's pods, by the pods.
func (f *facts) nodesOfPods() map[types.UID]*snapshot.Node {
	nodes := make(map[types.UID]*snapshot.Node, len(f.pods))
	for _, pod := range f.pods {
		nodes[pod.UID] = f.nodes[pod.Node]
	}
	return nodes
}
