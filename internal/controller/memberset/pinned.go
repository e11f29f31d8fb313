package memberset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/observe"
)

// pinning has what is known of pods before their claims are looked at: of one that says what comes of its eviction, what it says, which was known once its
// volumes were; of others, and of those whose node is cordoned, that nothing pins them yet.
func pinning(l *look) {
	for i := range l.in.Pods {
		p := &l.in.Pods[i]
		if p.Node == "" {
			continue
		}
		pinned := !p.Cordoned && p.OnEviction == v1alpha1.PodIsReplacedWhereCordoned
		p.Pinned = &pinned
	}
}

// explicit reports whether the set says itself what comes of evictions.
func (l *look) explicit() bool {
	return l.set.Spec.OnEviction == v1alpha1.OnEvictionRecreate || l.set.Spec.OnEviction == v1alpha1.OnEvictionReplace
}

// pin notes of the pod that uses a claim whether its volume can be used on one node alone. A pod that says so already is believed while its node is not cordoned,
// when nothing comes of it: its volumes are asked for once, and again at each look while it is, since by then other nodes may be cordoned or lost. Who may write on
// the pod may delete it as well.
func (r *reconciler) pin(ctx context.Context, l *look, claim *corev1.PersistentVolumeClaim) error {
	p := userOf(l, claim)
	if p == nil || p.Pinned == nil || *p.Pinned || l.explicit() || p.OnEviction == v1alpha1.PodFollows && !p.Cordoned {
		return nil
	}
	var volume corev1.PersistentVolume
	if err := r.live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, &volume); err != nil {
		p.Pinned, p.Unpinned = nil, err.Error()
		if apierrors.IsForbidden(err) { // which is said
			err = nil
		}
		return client.IgnoreNotFound(err)
	}
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil
	}
	elsewhere, err := r.usableElsewhere(ctx, p.Node, volume.Spec.NodeAffinity.Required)
	if err != nil {
		return err
	}
	p.Pinned = new(!elsewhere)
	return nil
}

// userOf is the pod on a node that uses a claim; nil: none does.
func userOf(l *look, claim *corev1.PersistentVolumeClaim) *memberset.Pod {
	if claim.Spec.VolumeName == "" {
		return nil
	}
	for i := range l.in.Pods {
		p := &l.in.Pods[i]
		if p.Node == "" || p.Spec == nil {
			continue
		}
		for j := range p.Spec.Volumes {
			if of := p.Spec.Volumes[j].PersistentVolumeClaim; of != nil && of.ClaimName == claim.Name {
				return p
			}
		}
	}
	return nil
}

// usableElsewhere reports whether a volume can be used on another node than that of its pod, which is there and takes pods now: one that is cordoned or does not report
// would have the pod wait for it.
func (r *reconciler) usableElsewhere(ctx context.Context, node string, affinity *corev1.NodeSelector) (bool, error) {
	selector, err := nodeaffinity.NewNodeSelector(affinity)
	if err != nil {
		return false, fmt.Errorf("the node affinity of a volume: %w", err)
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing nodes: %w", err)
	}
	return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool {
		return n.Name != node && takesPods(&n) && selector.Match(&n)
	}), nil
}

func takesPods(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil && !node.Spec.Unschedulable && observe.NodeReady(node)
}
