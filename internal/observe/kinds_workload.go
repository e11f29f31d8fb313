package observe

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/internal/snapshot"
)

func (o *Observer) watchReplicaSets() {
	watchWorkloads(o, replicaSets, &appsv1.ReplicaSet{}, o.client.AppsV1().ReplicaSets(metav1.NamespaceAll), ReplicaSetFacts)
}

func (o *Observer) watchDeployments() {
	watchWorkloads(o, deployments, &appsv1.Deployment{}, o.client.AppsV1().Deployments(metav1.NamespaceAll), DeploymentFacts)
}

func (o *Observer) watchStatefulSets() {
	watchWorkloads(o, statefulSets, &appsv1.StatefulSet{}, o.client.AppsV1().StatefulSets(metav1.NamespaceAll), StatefulSetFacts)
}

func (o *Observer) watchDaemonSets() {
	watchWorkloads(o, daemonSets, &appsv1.DaemonSet{}, o.client.AppsV1().DaemonSets(metav1.NamespaceAll), DaemonSetFacts)
}

func (o *Observer) watchControllers() {
	watchWorkloads(o, controllers, &corev1.ReplicationController{}, o.client.CoreV1().ReplicationControllers(metav1.NamespaceAll), ReplicationControllerFacts)
}

func (o *Observer) watchJobs() {
	watchWorkloads(o, jobs, &batchv1.Job{}, o.client.BatchV1().Jobs(metav1.NamespaceAll), JobFacts)
}

func watchWorkloads[O runtime.Object, L runtime.Object](o *Observer, r resource, sample O, api resourceAPI[L], facts func(O) *snapshot.Workload) {
	watchKind(o, question{resource: r}, false, sample, api, kind[O, snapshot.Workload]{
		facts: facts,
		id:    func(w *snapshot.Workload) string { return string(w.UID) },
		set:   (*snapshot.Cluster).SetWorkload,
		drop:  func(c *snapshot.Cluster, w *snapshot.Workload) { c.DeleteWorkload(w.UID) },
	})
}
