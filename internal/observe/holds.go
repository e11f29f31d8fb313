package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Holds reads how long what namespaces declare may hold maintenances. Its zero value knows no limit.
type Holds struct {
	Client client.Reader // a cache: it is read at every look
	Own    string        // Usher's namespace
}

// Limits returns the limits of a namespace. kube-system and Usher's own have none.
func (h Holds) Limits(ctx context.Context, namespace string) ([]snapshot.HoldLimit, error) {
	if h.Client == nil || namespace == metav1.NamespaceSystem || namespace == h.Own {
		return nil, nil
	}
	var all v1alpha1.ClusterEvictionPolicyList
	if err := h.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing the cluster's eviction policies: %w", err)
	}
	if len(all.Items) == 0 {
		return nil, nil
	}
	var object corev1.Namespace
	if err := h.Client.Get(ctx, client.ObjectKey{Name: namespace}, &object); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	var limits []snapshot.HoldLimit
	for i := range all.Items {
		policy := &all.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.NamespaceSelector)
		if err == nil && !policy.Spec.Suspend && selector.Matches(labels.Set(object.Labels)) {
			limits = append(limits, snapshot.HoldLimit{Policy: policy.Name, MaxHold: policy.Spec.MaxHold.Duration})
		}
	}
	return limits, nil
}
