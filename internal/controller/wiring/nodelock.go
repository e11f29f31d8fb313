package wiring

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// The indexes by which what was written for the nodeLock of a policy is found.
const (
	nodeLockOwner     = "nodelock:owner"     // of nodes, by the policies that have locks there
	nodeLockRequester = "nodelock:requester" // of requests, by their requester where that is a nodeLock
)

// NodeLockIndexes are the indexes by which LockedNodes and NodeLockRequests read.
func NodeLockIndexes() []Index {
	return []Index{
		{Object: &corev1.Node{}, Field: nodeLockOwner, Values: lockOwners},
		{Object: &api.EvictionRequest{}, Field: nodeLockRequester, Values: lockRequester},
	}
}

func lockOwners(node client.Object) []string {
	var owners []string
	for key := range node.GetAnnotations() {
		if owner := snapshot.LockOwner(key); owner != "" {
			owners = append(owners, owner)
		}
	}
	return owners
}

func lockRequester(o client.Object) []string {
	request, ok := o.(*api.EvictionRequest)
	if !ok || !strings.HasPrefix(request.Spec.Requester, evictionrequest.NodeLockDomain) {
		return nil
	}
	return []string{request.Spec.Requester}
}

// LockedNodes are the names of the nodes that have locks of a policy.
func LockedNodes(ctx context.Context, from client.Reader, policy snapshot.Key) ([]string, error) {
	var list corev1.NodeList
	if err := from.List(ctx, &list, client.MatchingFields{nodeLockOwner: snapshot.NodeLockOwner(policy)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the nodes with locks of policy %s: %w", policy, err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}

// LocksLeft reports whether nodes have locks of a policy, by a reader that knows no index.
func LocksLeft(ctx context.Context, from client.Reader, policy snapshot.Key) (bool, error) {
	const page = 500
	var list corev1.NodeList
	for next := ""; ; next = list.Continue {
		if err := from.List(ctx, &list, client.Limit(page), client.Continue(next)); err != nil {
			return false, fmt.Errorf("listing the nodes for locks of policy %s: %w", policy, err)
		}
		locked := func(n corev1.Node) bool { return slices.Contains(lockOwners(&n), snapshot.NodeLockOwner(policy)) }
		if slices.ContainsFunc(list.Items, locked) || list.Continue == "" {
			return slices.ContainsFunc(list.Items, locked), nil
		}
	}
}

// NodeLockRequests are the requests that the nodeLock of a policy has made. They must not be changed.
func NodeLockRequests(ctx context.Context, from client.Reader, policy snapshot.Key) ([]*api.EvictionRequest, error) {
	var list api.EvictionRequestList
	err := from.List(ctx, &list, client.InNamespace(policy.Namespace),
		client.MatchingFields{nodeLockRequester: evictionrequest.NodeLockRequester(policy.Name)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the requests of the nodeLock of policy %s: %w", policy, err)
	}
	all := make([]*api.EvictionRequest, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}
