package observe

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/internal/snapshot"
)

// watchWorkloads starts the watch of what a question about workloads is about. The caller holds the lock.
func (o *Observer) watchWorkloads(q question) {
	apps := o.client.AppsV1()
	switch q.resource {
	case replicaSets:
		watchWorkload(o, q, &appsv1.ReplicaSet{}, apps.ReplicaSets(q.namespace), ReplicaSetFacts)
	case deployments:
		watchWorkload(o, q, &appsv1.Deployment{}, apps.Deployments(q.namespace), DeploymentFacts)
	case statefulSets:
		watchWorkload(o, q, &appsv1.StatefulSet{}, apps.StatefulSets(q.namespace), StatefulSetFacts)
	case daemonSets:
		watchWorkload(o, q, &appsv1.DaemonSet{}, apps.DaemonSets(q.namespace), DaemonSetFacts)
	case controllers:
		watchWorkload(o, q, &corev1.ReplicationController{}, o.client.CoreV1().ReplicationControllers(q.namespace), ReplicationControllerFacts)
	case jobs:
		watchWorkload(o, q, &batchv1.Job{}, o.client.BatchV1().Jobs(q.namespace), JobFacts)
	}
}

func watchWorkload[O runtime.Object, L runtime.Object](o *Observer, q question, sample O, api resourceAPI[L], facts func(O) *snapshot.Workload) {
	watchKind(o, q, sample, api, kind[O, snapshot.Workload]{
		facts:   facts,
		id:      func(w *snapshot.Workload) string { return string(w.UID) },
		set:     (*snapshot.Cluster).SetWorkload,
		drop:    func(c *snapshot.Cluster, w *snapshot.Workload) { c.DeleteWorkload(w.UID) },
		seen:    o.seeWorkload,
		present: func(c *snapshot.Cluster, w *snapshot.Workload) *snapshot.Workload { return c.Workload(w.UID) },
		version: func(w *snapshot.Workload) string { return w.ResourceVersion },
	})
}
