package observe

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/lostnode"
)

// LostNode is what a command knows of one node's loss.
type LostNode struct {
	Node   lostnode.Node
	Lease  lostnode.Lease
	Fences []*v1alpha1.NodeFence // of its name
}

// FenceOf returns the fence that is under way for the node; nil: there is none.
func (l *LostNode) FenceOf() *v1alpha1.NodeFence {
	for _, f := range l.Fences {
		if f.Spec.NodeUID == l.Node.UID && !f.Status.Over() {
			return f
		}
	}
	return nil
}

// LookAtLostNode reads a node, its Lease and its fences.
func LookAtLostNode(ctx context.Context, reader client.Reader, name string) (*LostNode, error) {
	var node corev1.Node
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, &node); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no node %q; kubectl get nodes lists those that there are", name)
	} else if err != nil {
		return nil, unreadLostNode("reading node "+name, err)
	}
	found := &LostNode{Node: LostNodeFacts(&node)}
	var lease coordinationv1.Lease
	switch err := reader.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, &lease); {
	case apierrors.IsNotFound(err):
		found.Lease.Known = true
	case err != nil:
		found.Lease.Error = err.Error()
	default:
		found.Lease.Known = true
		if lease.Spec.RenewTime != nil {
			found.Lease.Renewed = lease.Spec.RenewTime.Time
		}
	}
	var err error
	found.Fences, err = FencesOf(ctx, reader, name)
	return found, err
}

func unreadLostNode(doing string, err error) error {
	const resources = "nodes,pods,leases.coordination.k8s.io,nodefences.usher.sh,lostnodepolicies.usher.sh,evictionpolicies.usher.sh"
	return Refused(doing, err, "usher-why-node", "--verb=get,list --resource="+resources)
}

// FencesOf lists the fences of nodes of a name.
func FencesOf(ctx context.Context, reader client.Reader, node string) ([]*v1alpha1.NodeFence, error) {
	var list v1alpha1.NodeFenceList
	if err := reader.List(ctx, &list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the cluster has no NodeFences: Usher is not installed, or older than this program; usher install brings them")
	} else if err != nil {
		return nil, unreadLostNode("reading fences", err)
	}
	var fences []*v1alpha1.NodeFence
	for i := range list.Items {
		if list.Items[i].Spec.NodeName == node {
			fences = append(fences, &list.Items[i])
		}
	}
	return fences, nil
}

// WhatPoliciesSay returns what the policies' status says of an unreachable node, "" where none says anything that can be read.
func WhatPoliciesSay(ctx context.Context, reader client.Reader, node string) string {
	var list v1alpha1.LostNodePolicyList
	if err := reader.List(ctx, &list); err != nil {
		return ""
	}
	for i := range list.Items {
		for _, u := range list.Items[i].Status.Unreachable {
			if u.Node == node {
				return "policy " + list.Items[i].Name + ": " + u.Message
			}
		}
	}
	return ""
}
