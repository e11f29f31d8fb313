package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/snapshot"
)

// +kubebuilder:rbac:groups=usher.sh,resources=clusterevictionpolicies,verbs=get;list;watch

// holds knows how long maintenances are held.
type holds struct {
	client client.Reader
	own    string // Usher's namespace
}

// of returns the requests of maintenances for a pod, and the limits of its namespace.
func (h holds) of(ctx context.Context, pod *snapshot.Pod) ([]eviction.Held, []eviction.HoldLimit, error) {
	requests, err := targets.WantedOf(ctx, h.client, pod.Key())
	if err != nil {
		return nil, nil, err
	}
	var held []eviction.Held
	for _, r := range requests {
		ref, ok := evictionrequest.RefOf(r)
		if ok && ref.UID == pod.UID && evictionrequest.ByMaintenance(r.Spec.Requester) {
			held = append(held, eviction.Held{Requester: r.Spec.Requester, Since: r.CreationTimestamp.Time})
		}
	}
	if len(held) == 0 || pod.Namespace == metav1.NamespaceSystem || pod.Namespace == h.own {
		return nil, nil, nil
	}
	limits, err := h.limits(ctx, pod.Namespace)
	return held, limits, err
}

func (h holds) limits(ctx context.Context, name string) ([]eviction.HoldLimit, error) {
	var all v1alpha1.ClusterEvictionPolicyList
	if err := h.client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing the cluster's eviction policies: %w", err)
	}
	if len(all.Items) == 0 {
		return nil, nil
	}
	var namespace corev1.Namespace
	if err := h.client.Get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	var limits []eviction.HoldLimit
	for i := range all.Items {
		policy := &all.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.NamespaceSelector)
		if err == nil && !policy.Spec.Suspend && selector.Matches(labels.Set(namespace.Labels)) {
			limits = append(limits, eviction.HoldLimit{Policy: policy.Name, MaxHold: policy.Spec.MaxHold.Duration})
		}
	}
	return limits, nil
}
