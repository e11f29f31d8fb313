package nodelock

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/nodelock"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

// gather reads what is known of a policy's members and their nodes.
func (r *reconciler) gather(ctx context.Context, policy *v1alpha1.EvictionPolicy) (nodelock.Input, error) {
	key := client.ObjectKeyFromObject(policy)
	in := nodelock.Input{Now: r.Now(), Policy: key}
	names, err := wiring.LockedNodes(ctx, r.client, key)
	if err != nil {
		return in, err
	}
	if !ends(policy) {
		in.Lock = policy.Spec.NodeLock
		if err := r.members(ctx, policy, &in); err != nil {
			return in, err
		}
	}
	for i := range in.Holders {
		names = append(names, in.Holders[i].Node)
	}
	for i := range in.Waiters {
		if in.Waiters[i].Own {
			names = append(names, in.Waiters[i].Node)
		}
	}
	slices.Sort(names)
	there := map[types.UID]bool{}
	for _, name := range slices.Compact(names) {
		node, err := r.Gatherer.Node(ctx, name)
		if err != nil {
			return in, err
		}
		if node != nil {
			there[node.UID] = true
			in.Nodes = append(in.Nodes, node)
		}
	}
	in.Written = r.lastWrites(key, there)
	return in, nil
}

// members adds the policy's holders, and the waiters of all policies that share its label.
func (r *reconciler) members(ctx context.Context, policy *v1alpha1.EvictionPolicy, in *nodelock.Input) error {
	pods, err := r.Gatherer.Policies.Pods(ctx, policy.Namespace)
	if err != nil {
		return err
	}
	in.Holders = r.holders(policy, pods)
	sharing, err := r.declaring(ctx, policy.Spec.NodeLock.StateLabel)
	if err != nil {
		return fmt.Errorf("listing the policies with label %s: %w", policy.Spec.NodeLock.StateLabel, err)
	}
	for i := range sharing {
		other := &sharing[i]
		own := other.UID == policy.UID
		if other.Spec.NodeLock.Waiter == "" || ends(other) {
			continue
		}
		if other.Namespace != policy.Namespace {
			if pods, err = r.Gatherer.Policies.Pods(ctx, other.Namespace); err != nil {
				return err
			}
		}
		waiters, err := r.waiters(ctx, other, pods, own)
		if err != nil {
			return err
		}
		in.Waiters = append(in.Waiters, waiters...)
	}
	return nil
}

func (r *reconciler) holders(policy *v1alpha1.EvictionPolicy, pods []*snapshot.Pod) []nodelock.Holder {
	var found []nodelock.Holder
	compiled := r.Gatherer.Policies.Compiled(policy)
	for _, pod := range pods {
		if pod.Node == "" || pod.Finished() {
			continue
		}
		claim, ok := compiled.Claim(pod)
		if !ok || claim.Role == nil || !slices.Contains(policy.Spec.NodeLock.Holders, claim.Role.Name) {
			continue
		}
		emptied := slices.ContainsFunc(policy.Status.Emptied, func(e v1alpha1.Emptied) bool { return e.PodUID == pod.UID })
		found = append(found, nodelock.Holder{Pod: pod.Key(), UID: pod.UID, Node: pod.Node, Role: claim.Role.Name, Emptied: claim.Load && emptied})
	}
	return found
}

func (r *reconciler) waiters(ctx context.Context, policy *v1alpha1.EvictionPolicy, pods []*snapshot.Pod, own bool) ([]nodelock.Waiter, error) {
	var found []nodelock.Waiter
	compiled := r.Gatherer.Policies.Compiled(policy)
	for _, pod := range pods {
		if pod.Node == "" || pod.Finished() {
			continue
		}
		claim, ok := compiled.Claim(pod)
		if !ok || claim.Role == nil || claim.Role.Name != policy.Spec.NodeLock.Waiter {
			continue
		}
		requests, err := targets.WantedOf(ctx, r.client, pod.Key())
		if err != nil {
			return nil, err
		}
		wanted := slices.ContainsFunc(requests, func(q *api.EvictionRequest) bool {
			ref, names := evictionrequest.RequestRef(q)
			return names && ref.UID == pod.UID
		})
		found = append(found, nodelock.Waiter{Node: pod.Node, Own: own, Ready: pod.Ready, Leaves: pod.Terminating(), Wanted: wanted})
	}
	return found, nil
}

// confirmed is what is written on a node once its holders were read past the cache, which may not show yet that another has come; nil: nothing is to be
// written.
func (r *reconciler) confirmed(ctx context.Context, policy *v1alpha1.EvictionPolicy, in nodelock.Input, node *snapshot.Node) (*nodelock.Write, error) {
	in.Nodes, in.Holders = []*snapshot.Node{node}, nil
	err := observe.EachPage(ctx, r.live, &corev1.PodList{}, func(page *corev1.PodList) bool {
		pods := make([]*snapshot.Pod, len(page.Items))
		for i := range page.Items {
			pods[i] = policycache.Facts(&page.Items[i])
		}
		in.Holders = append(in.Holders, r.holders(policy, pods)...)
		return true
	}, client.InNamespace(policy.Namespace), client.MatchingFields{"spec.nodeName": node.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the pods on node %s: %w", node.Name, err)
	}
	if result := nodelock.Decide(in); len(result.Writes) > 0 {
		return &result.Writes[0], nil
	}
	return nil, nil
}
