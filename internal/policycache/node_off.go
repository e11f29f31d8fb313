package policycache

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/lostnode"
	"usher.sh/usher/internal/observe"
)

// off reports whether a fence proves that a node is off. The node is read past the cache, or was (nil: it was not): one that answers again is not.
func (g *Gatherer) off(ctx context.Context, name string, read *corev1.Node) (bool, error) {
	if name == "" {
		return false, nil
	}
	var list v1alpha1.NodeFenceList
	if err := g.Policies.cache.List(ctx, &list); err != nil {
		return false, fmt.Errorf("listing fences: %w", err)
	}
	var fences []*v1alpha1.NodeFence
	for i := range list.Items {
		if f := &list.Items[i]; f.Spec.NodeName == name && f.Status.ProvenTime != nil && !f.Status.Over() {
			fences = append(fences, f)
		}
	}
	if len(fences) == 0 {
		return false, nil
	}
	if read == nil {
		read = &corev1.Node{}
		err := g.Live.Get(ctx, client.ObjectKey{Name: name}, read)
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("reading node %s: %w", name, err)
		}
	}
	facts := observe.LostNodeFacts(read)
	return lostnode.ProvenOff(&facts, fences), nil
}
