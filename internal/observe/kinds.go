package observe

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

func (o *Observer) watchPods(q question) {
	watchKind(o, q, &corev1.Pod{}, o.client.CoreV1().Pods(q.namespace), o.podKind())
}

// podKind is of one feed. Its pods share what their templates gave them, and each is shared with the other feeds that show it. Where
// everything is read there are no others.
func (o *Observer) podKind() kind[*corev1.Pod, snapshot.Pod] {
	share := o.pods.share
	if o.scope.wide {
		share = new(siblings).share
	}
	return kind[*corev1.Pod, snapshot.Pod]{
		facts:   PodFacts,
		share:   share,
		id:      func(p *snapshot.Pod) string { return string(p.UID) },
		set:     o.setPod,
		drop:    o.dropPod,
		quiet:   samePod,
		seen:    o.seePod,
		present: func(c *snapshot.Cluster, p *snapshot.Pod) *snapshot.Pod { return c.PodNamed(p.Key()) },
		version: func(p *snapshot.Pod) string { return p.ResourceVersion },
	}
}

func (o *Observer) watchNodes(q question) {
	watchKind(o, q, &corev1.Node{}, o.client.CoreV1().Nodes(), kind[*corev1.Node, snapshot.Node]{
		facts:   NodeFacts,
		id:      func(n *snapshot.Node) string { return string(n.UID) },
		set:     (*snapshot.Cluster).SetNode,
		drop:    func(c *snapshot.Cluster, n *snapshot.Node) { c.DeleteNode(n.Name) },
		quiet:   o.sameNode,
		present: func(c *snapshot.Cluster, n *snapshot.Node) *snapshot.Node { return c.Node(n.Name) },
		version: func(n *snapshot.Node) string { return n.ResourceVersion },
	})
}

func (o *Observer) watchBudgets(q question) {
	watchKind(o, q, &policyv1.PodDisruptionBudget{}, o.client.PolicyV1().PodDisruptionBudgets(q.namespace),
		kind[*policyv1.PodDisruptionBudget, snapshot.Budget]{
			facts:   budgetFacts,
			id:      func(b *snapshot.Budget) string { return string(b.UID) },
			set:     (*snapshot.Cluster).SetBudget,
			drop:    o.dropBudget,
			seen:    o.seeBudget,
			present: func(c *snapshot.Cluster, b *snapshot.Budget) *snapshot.Budget { return c.Budget(b.Key()) },
			version: func(b *snapshot.Budget) string { return b.ResourceVersion },
		})
}

func (o *Observer) watchAutoscalers(q question) {
	watchKind(o, q, &autoscalingv2.HorizontalPodAutoscaler{}, o.client.AutoscalingV2().HorizontalPodAutoscalers(q.namespace),
		kind[*autoscalingv2.HorizontalPodAutoscaler, snapshot.Autoscaler]{
			facts:   AutoscalerFacts,
			id:      func(a *snapshot.Autoscaler) string { return string(a.UID) },
			set:     (*snapshot.Cluster).SetAutoscaler,
			drop:    o.dropAutoscaler,
			seen:    o.seeAutoscaler,
			present: func(c *snapshot.Cluster, a *snapshot.Autoscaler) *snapshot.Autoscaler { return c.Autoscaler(a.Key()) },
			version: func(a *snapshot.Autoscaler) string { return a.ResourceVersion },
		})
}

func (o *Observer) watchClaims(q question) {
	watchKind(o, q, &corev1.PersistentVolumeClaim{}, o.client.CoreV1().PersistentVolumeClaims(q.namespace),
		kind[*corev1.PersistentVolumeClaim, snapshot.Claim]{
			facts:   claimFacts,
			id:      func(v *snapshot.Claim) string { return string(v.UID) },
			set:     (*snapshot.Cluster).SetClaim,
			drop:    func(c *snapshot.Cluster, v *snapshot.Claim) { c.DeleteClaim(v.Key()) },
			seen:    o.seeClaim,
			present: func(c *snapshot.Cluster, v *snapshot.Claim) *snapshot.Claim { return c.Claim(v.Key()) },
			version: func(v *snapshot.Claim) string { return v.ResourceVersion },
		})
}

func (o *Observer) watchVolumes(q question) {
	watchKind(o, q, &corev1.PersistentVolume{}, o.client.CoreV1().PersistentVolumes(), kind[*corev1.PersistentVolume, snapshot.Volume]{
		facts: volumeFacts,
		id:    func(v *snapshot.Volume) string { return v.Name },
		set:   (*snapshot.Cluster).SetVolume,
		drop:  func(c *snapshot.Cluster, v *snapshot.Volume) { c.DeleteVolume(v.Name) },
		seen:  o.seeVolume,
	})
}

func (o *Observer) watchAttachments(q question) {
	watchKind(o, q, &storagev1.VolumeAttachment{}, o.client.StorageV1().VolumeAttachments(),
		kind[*storagev1.VolumeAttachment, snapshot.Attachment]{
			facts: attachmentFacts,
			id:    func(a *snapshot.Attachment) string { return a.Name },
			set:   (*snapshot.Cluster).SetAttachment,
			drop:  func(c *snapshot.Cluster, a *snapshot.Attachment) { c.DeleteAttachment(a.Name) },
		})
}

// samePod reports whether two states of a pod differ in the resource version only.
func samePod(old, fresh *snapshot.Pod) bool {
	same := *fresh
	same.ResourceVersion = old.ResourceVersion
	return reflect.DeepEqual(&same, old)
}

// sameNode does so for nodes that are not drained: their heartbeats are most of what
// a large cluster has to say. Those that are drained are written with a resource
// version, which must be the present one.
func (o *Observer) sameNode(old, fresh *snapshot.Node) bool {
	if o.inScope(fresh.Name) {
		return false
	}
	same := *fresh
	same.ResourceVersion = old.ResourceVersion
	return reflect.DeepEqual(&same, old)
}

// watchWorkloads starts the watch of what a question about workloads is about. The caller holds the lock.
func (o *Observer) watchWorkloads(q question) {
	apps := o.client.AppsV1()
	switch q.resource {
	case replicaSets:
		watchWorkload(o, q, &appsv1.ReplicaSet{}, apps.ReplicaSets(q.namespace), replicaSetFacts)
	case deployments:
		watchWorkload(o, q, &appsv1.Deployment{}, apps.Deployments(q.namespace), DeploymentFacts)
	case statefulSets:
		watchWorkload(o, q, &appsv1.StatefulSet{}, apps.StatefulSets(q.namespace), statefulSetFacts)
	case daemonSets:
		watchWorkload(o, q, &appsv1.DaemonSet{}, apps.DaemonSets(q.namespace), daemonSetFacts)
	case controllers:
		watchWorkload(o, q, &corev1.ReplicationController{}, o.client.CoreV1().ReplicationControllers(q.namespace), replicationControllerFacts)
	case jobs:
		watchWorkload(o, q, &batchv1.Job{}, o.client.BatchV1().Jobs(q.namespace), jobFacts)
	}
}

func watchWorkload[O runtime.Object, L runtime.Object](o *Observer, q question, sample O, api resourceAPI[L], facts func(O) *snapshot.Workload) {
	watchKind(o, q, sample, api, kind[O, snapshot.Workload]{
		facts:   facts,
		id:      func(w *snapshot.Workload) string { return string(w.UID) },
		set:     o.setWorkload,
		drop:    o.dropWorkload,
		seen:    o.seeWorkload,
		present: func(c *snapshot.Cluster, w *snapshot.Workload) *snapshot.Workload { return c.Workload(w.UID) },
		version: func(w *snapshot.Workload) string { return w.ResourceVersion },
	})
}

func (o *Observer) watchRequests(q question) {
	if o.evictions == nil {
		o.cluster.SetGap(snapshot.Gap{Resource: evictionRequests.name, Reason: "they are not read", Final: true})
		return
	}
	watchKind(o, q, &api.EvictionRequest{}, o.evictions.Requests(q.namespace), kind[*api.EvictionRequest, snapshot.Request]{
		facts:   RequestFacts,
		id:      func(r *snapshot.Request) string { return string(r.UID) },
		set:     (*snapshot.Cluster).SetRequest,
		drop:    func(c *snapshot.Cluster, r *snapshot.Request) { c.DeleteRequest(r.Key()) },
		present: func(c *snapshot.Cluster, r *snapshot.Request) *snapshot.Request { return c.Request(r.Key()) },
		version: func(r *snapshot.Request) string { return r.ResourceVersion },
	})
}

func (o *Observer) watchEvictions(q question) {
	if o.evictions == nil {
		return
	}
	watchKind(o, q, &api.Eviction{}, o.evictions.Evictions(q.namespace), kind[*api.Eviction, snapshot.Eviction]{
		facts:   EvictionFacts,
		id:      func(e *snapshot.Eviction) string { return string(e.UID) },
		set:     (*snapshot.Cluster).SetEviction,
		drop:    func(c *snapshot.Cluster, e *snapshot.Eviction) { c.DeleteEviction(e.Key()) },
		present: func(c *snapshot.Cluster, e *snapshot.Eviction) *snapshot.Eviction { return c.Eviction(e.Key()) },
		version: func(e *snapshot.Eviction) string { return e.ResourceVersion },
	})
}

func (o *Observer) watchPolicies(q question) {
	if o.evictions == nil {
		return
	}
	watchKind(o, q, &v1alpha1.EvictionPolicy{}, o.evictions.Policies(q.namespace), kind[*v1alpha1.EvictionPolicy, snapshot.Policy]{
		facts:   PolicyFacts,
		id:      func(p *snapshot.Policy) string { return string(p.UID) },
		set:     (*snapshot.Cluster).SetPolicy,
		drop:    func(c *snapshot.Cluster, p *snapshot.Policy) { c.DeletePolicy(p.Key()) },
		quiet:   samePolicy,
		present: func(c *snapshot.Cluster, p *snapshot.Policy) *snapshot.Policy { return c.Policy(p.Key()) },
		version: func(p *snapshot.Policy) string { return p.ResourceVersion },
	})
}

// samePolicy reports whether two states of a policy differ in the resource version only, as where its status was written.
func samePolicy(old, fresh *snapshot.Policy) bool {
	same := *fresh
	same.ResourceVersion = old.ResourceVersion
	return reflect.DeepEqual(&same, old)
}
