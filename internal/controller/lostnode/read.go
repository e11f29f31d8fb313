package lostnode

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/lostnode"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// page is how many objects are read at a time.
const page = 500

func nodeFacts(node *corev1.Node) lostnode.Node { return observe.LostNodeFacts(node) }

// lease reads when a node's kubelet has renewed its Lease.
func (r *reconciler) lease(ctx context.Context, node string) lostnode.Lease {
	var lease coordinationv1.Lease
	err := r.live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		return lostnode.Lease{Known: true}
	case apierrors.IsForbidden(err):
		return lostnode.Lease{Error: "the manager may not read it. " + r.binding()}
	case err != nil:
		return lostnode.Lease{Error: err.Error()}
	case lease.Spec.RenewTime == nil:
		return lostnode.Lease{Known: true}
	}
	return lostnode.Lease{Known: true, Renewed: lease.Spec.RenewTime.Time}
}

// outOfService is the taint that pods are asked whether they tolerate it.
var outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: v1alpha1.OutOfServiceValue, Effect: corev1.TaintEffectNoExecute}

// pods names the pods that are bound to a node and that its taint evicts. One that has ended holds nothing.
func (r *reconciler) pods(ctx context.Context, node string) lostnode.Remaining {
	found := lostnode.Remaining{Known: true}
	list := &corev1.PodList{}
	options := []client.ListOption{client.MatchingFields{"spec.nodeName": node}, client.Limit(page)}
	for {
		if err := r.live.List(ctx, list, append(options, client.Continue(list.Continue))...); err != nil {
			return lostnode.Remaining{Error: fmt.Sprintf("listing pods: %v", err)}
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if !stays(pod) && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				found.Names = append(found.Names, pod.Namespace+"/"+pod.Name)
			}
		}
		if list.Continue == "" {
			slices.Sort(found.Names)
			return found
		}
	}
}

// stays reports whether a pod tolerates the taint for good.
func stays(pod *corev1.Pod) bool {
	for i := range pod.Spec.Tolerations {
		if t := &pod.Spec.Tolerations[i]; snapshot.Tolerates(t, &outOfService) {
			return t.TolerationSeconds == nil
		}
	}
	return false
}

// volumes names what is attached to a node.
func (r *reconciler) volumes(ctx context.Context, node string) lostnode.Remaining {
	found := lostnode.Remaining{Known: true}
	list := &storagev1.VolumeAttachmentList{}
	for {
		if err := r.live.List(ctx, list, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return lostnode.Remaining{Error: fmt.Sprintf("listing volume attachments: %v", err)}
		}
		for i := range list.Items {
			at := &list.Items[i]
			if at.Spec.NodeName != node {
				continue
			}
			name := at.Name
			if volume := at.Spec.Source.PersistentVolumeName; volume != nil {
				name = *volume
			}
			found.Names = append(found.Names, name)
		}
		if list.Continue == "" {
			slices.Sort(found.Names)
			return found
		}
	}
}
