package policy

import (
	"context"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// nodeStates says how the nodes are on which members of roles are that have steps for lost nodes, and those for whose sake such steps stand.
func (s *reconciler) nodeStates(ctx context.Context, f *facts) (map[string]eviction.NodeState, error) {
	states := map[string]eviction.NodeState{}
	for i := range f.policy.Status.Preparations {
		if p := &f.policy.Status.Preparations[i]; p.For == v1alpha1.ForLost {
			states[p.Node] = ""
		}
	}
	if f.own.Policy.CaresForLost() {
		for _, pod := range f.pods {
			if claim, ok := f.own.Policy.Claim(pod); ok && claim.Role != nil && claim.Role.Lost != nil && pod.Node != "" {
				states[pod.Node] = ""
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		off, err := s.Gatherer.Off(ctx, name)
		if err != nil {
			return nil, err
		}
		node, err := s.Gatherer.Node(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case off:
			states[name] = eviction.NodeProvenOff
		case node == nil:
			states[name] = eviction.NodeMissing
		default:
			states[name] = eviction.NodeThere
		}
	}
	return states, nil
}

// lose adds to what is settled what is done for members on nodes that are proven off. Of two writes of the status the one that settles comes first.
func (s *reconciler) lose(ctx context.Context, f *facts, in *eviction.StatusInput, result *eviction.StatusResult) {
	off := false
	for _, state := range in.Nodes {
		off = off || state == eviction.NodeProvenOff
	}
	if !off || in.Audited || len(result.Actions) > 0 {
		return
	}
	lost := eviction.LoseMembers(eviction.LostInput{
		Now: s.Gatherer.Now(), Policy: f.own, Pods: f.pods, Nodes: in.Nodes, Evidence: s.Gatherer.EvidenceOf(ctx, f.policy), Replies: in.Replies,
	})
	result.Actions = lost.Actions
	if result.NextLook.IsZero() || !lost.NextLook.IsZero() && lost.NextLook.Before(result.NextLook) {
		result.NextLook = lost.NextLook
	}
}

// staysOff reports whether a node is still proven off, just before a step for it is asked for: the write that announces it may have taken longer than a machine takes
// to boot.
func (s *reconciler) staysOff(ctx context.Context, node string) bool {
	off, err := s.Gatherer.Off(ctx, node)
	return err == nil && off
}

// provesOff passes fences from when they prove a node off, and when they do so no more.
func provesOff() predicate.Predicate {
	proves := func(o client.Object) bool {
		fence, ok := o.(*v1alpha1.NodeFence)
		return ok && fence.Status.ProvenTime != nil && !fence.Status.Over()
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return proves(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return proves(e.ObjectOld) != proves(e.ObjectNew) || proves(e.ObjectNew) && stepped(e)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return proves(e.Object) },
	}
}

// stepped: a fence whose node answers again proves it off no more from another step on.
func stepped(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.NodeFence)
	after, also := e.ObjectNew.(*v1alpha1.NodeFence)
	return ok && also && before.Status.Step != after.Status.Step
}

// policiesThatCare enqueues the policies of all namespaces whose roles have steps for lost nodes, or which such steps stand in.
func (s *reconciler) policiesThatCare(ctx context.Context, _ client.Object) []reconcile.Request {
	policies, err := s.Gatherer.Policies.All(ctx, "")
	if err != nil {
		return nil
	}
	var requests []reconcile.Request
	for _, policy := range policies {
		if s.Gatherer.Policies.Compiled(policy).CaresForLost() || eviction.StandsForLost(&policy.Status) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)})
		}
	}
	return requests
}
