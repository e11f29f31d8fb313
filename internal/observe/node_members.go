package observe

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// NodeMembers is what a command knows of members on a node.
type NodeMembers struct {
	Policies []v1alpha1.EvictionPolicy
	// Orders are those in which the members on the node leave it.
	Orders []snapshot.RoleOrder
}

// LookAtMembers reads the policies of a namespace, "" for all, and the members on a node where one of them has an order; with no node, the policies
// alone. What was read before an error is returned beside it. A cluster without policies has none.
func LookAtMembers(ctx context.Context, reader client.Reader, namespace, node string) (NodeMembers, error) {
	var list v1alpha1.EvictionPolicyList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return NodeMembers{}, nil
	} else if err != nil {
		return NodeMembers{}, unreadLostNode("reading policies, which say what is done for members", err)
	}
	found := NodeMembers{Policies: list.Items}
	cluster, ordered := snapshot.NewCluster(), false
	for i := range list.Items {
		policy := PolicyFacts(&list.Items[i])
		for k := range policy.Members {
			ordered = ordered || len(policy.Members[k].LeavesAfter) > 0
		}
		cluster.SetPolicy(policy)
	}
	if node == "" || !ordered {
		return found, nil
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return found, unreadLostNode("reading the pods of node "+node, err)
	}
	for i := range pods.Items {
		cluster.SetPod(PodFacts(&pods.Items[i]))
	}
	found.Orders = cluster.RoleOrders([]string{node})
	return found, nil
}
