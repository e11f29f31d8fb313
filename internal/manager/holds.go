package manager

import (
	"context"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/evictionrequest/targets"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// +kubebuilder:rbac:groups=usher.sh,resources=clusterevictionpolicies,verbs=get;list;watch

// holds knows how long maintenances are held.
type holds struct{ observe.Holds }

// of returns the requests of maintenances for a pod, and the limits of its namespace.
func (h holds) of(ctx context.Context, pod *snapshot.Pod) ([]eviction.Held, []snapshot.HoldLimit, error) {
	requests, err := targets.WantedOf(ctx, h.Client, pod.Key())
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
	if len(held) == 0 {
		return nil, nil, nil
	}
	limits, err := h.Limits(ctx, pod.Namespace)
	return held, limits, err
}
