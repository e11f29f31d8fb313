package histories

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// plainPods is the Kubernetes API for a namespace in which nothing can be scaled.
type plainPods struct{ replica *replica }

var errNotScaled = errors.New("nothing can be scaled in the simulated namespace")

func (r *replica) workloads(string, string) (system.Workloads, error) { return plainPods{r}, nil }

// Read implements system.Workloads.
func (p plainPods) Read(ctx context.Context, _ func(*snapshot.Pod) bool, _ ...system.Target) (snapshot.View, error) {
	r := p.replica
	view := snapshot.View{Now: time.Now(), Cluster: snapshot.NewCluster()}
	err := r.call(ctx, "read workloads", plain, func() error {
		for _, pod := range list[*corev1.Pod](r.world.store, pods) {
			view.Cluster.SetPod(observe.PodFacts(pod))
		}
		for _, node := range list[*corev1.Node](r.world.store, nodes) {
			view.Cluster.SetNode(observe.NodeFacts(node))
		}
		return nil
	})
	return view, err
}

// Scale implements system.Workloads.
func (plainPods) Scale(context.Context, *snapshot.Workload, int32, *snapshot.SurgeRecord) error {
	return errNotScaled
}

// ScaleMin implements system.Workloads.
func (plainPods) ScaleMin(context.Context, *snapshot.Autoscaler, int32, *snapshot.SurgeRecord) error {
	return errNotScaled
}

// Renew implements system.Workloads.
func (plainPods) Renew(context.Context) error { return nil }
