package system

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/internal/snapshot"
)

// Target names a workload that may be scaled.
type Target struct {
	schema.GroupKind

	Name string
}

// Workloads is the port to the Kubernetes API of one namespace, for a kind of system whose members are plain workloads. Its methods may be
// called by several goroutines at once.
type Workloads interface {
	// Read returns what is true now: the pods of the namespace as the apiserver has them, the nodes that these run on, what
	// controls the pods of which is true, up to the last controller, the targets that are there, their autoscalers, budgets and
	// claims, and the signs of life of drains that surge any of them. What may not be read is a gap, or the SurgeError of a workload.
	// An error means that nothing can be said.
	Read(ctx context.Context, of func(*snapshot.Pod) bool, also ...Target) (snapshot.View, error)
	// Scale sets a workload's replicas and its record. The record is on the object before replicas change for it, and goes after
	// they have changed back: whoever finds one without the other has only the record to remove. Both are written at the version that
	// was read; apierrors.IsConflict reports that it is another by now, which ends it between the two.
	Scale(ctx context.Context, w *snapshot.Workload, replicas int32, record *snapshot.SurgeRecord) error
	// ScaleMin sets the minimum of an autoscaler and its record, likewise, in one write.
	ScaleMin(ctx context.Context, a *snapshot.Autoscaler, least int32, record *snapshot.SurgeRecord) error
	// Renew gives the sign of life by which drains know that surges with the manager's record are looked after. It writes seldom.
	Renew(ctx context.Context) error
}
