package policy

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// wanted fills in who is wanted gone, as far as it makes a difference. Where the cluster serves no requests there are none.
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
	for _, name := range f.podsToAskFor() {
		all, err := targets.WantedOf(ctx, s.client, snapshot.Key{Namespace: f.policy.Namespace, Name: name})
		if err != nil {
			return err
		}
		for _, request := range all {
			in.Wanted[request.Spec.Target.Pod.UID] = true
			if admitted, ok := policycache.AdmissionRequest(request, nil); ok {
				in.Requests = append(in.Requests, admitted)
			}
		}
	}
	if err := s.another(ctx, f, in); err != nil {
		return err
	}
	f.wanted = len(in.Wanted) > 0 && !in.Audited // nothing is begun for what is only audited
	return nil
}

// podsToAskFor are the names of the pods all of whose requests matter: those that the status names, and of a policy that is being deleted
// those that have its label or that it claims.
func (f *facts) podsToAskFor() []string {
	names := map[string]bool{}
	for i := range f.policy.Status.Leaving {
		names[f.policy.Status.Leaving[i].PodName] = true
	}
	for i := range f.policy.Status.Emptied {
		names[f.policy.Status.Emptied[i].PodName] = true
	}
	for i := range f.policy.Status.Preparations {
		names[f.policy.Status.Preparations[i].PodName] = true
	}
	for _, pod := range f.pods {
		if f.policy.DeletionTimestamp != nil && f.own.Governs(pod) {
			names[pod.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// another adds one more of the policy's pods that is wanted gone, if any is. It is looked for only where that makes a difference: to steps that
// are taken back, and to a policy that is held for nothing else.
func (s *reconciler) another(ctx context.Context, f *facts, in *eviction.StatusInput) error {
	if !in.AsksForOthers() && !f.heldForWanted() {
		return nil
	}
	for _, pod := range f.pods {
		if f.own.Names(pod.Name) || !f.own.Governs(pod) {
			continue
		}
		all, err := targets.WantedOf(ctx, s.client, pod.Key())
		if err != nil {
			return err
		}
		if len(all) > 0 {
			in.Wanted[all[0].Spec.Target.Pod.UID] = true
			return nil
		}
	}
	return nil
}

// heldForWanted reports whether a policy is held only in case that a pod is wanted gone.
func (f *facts) heldForWanted() bool {
	status := &f.policy.Status
	return slices.Contains(f.policy.Finalizers, v1alpha1.UndoFinalizer) && f.policy.DeletionTimestamp == nil && !f.policy.Spec.Audited() &&
		len(status.Leaving)+len(status.Emptied)+len(status.Preparations) == 0
}
