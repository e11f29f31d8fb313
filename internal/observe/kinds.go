package observe

import (
	"reflect"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/snapshot"
)

func (o *Observer) watchPods() {
	family := siblings{}
	watchKind(o, question{resource: pods}, true, &corev1.Pod{}, o.client.CoreV1().Pods(metav1.NamespaceAll), kind[*corev1.Pod, snapshot.Pod]{
		facts: func(pod *corev1.Pod) *snapshot.Pod { return family.share(PodFacts(pod)) },
		id:    func(p *snapshot.Pod) string { return string(p.UID) },
		set:   (*snapshot.Cluster).SetPod,
		drop:  func(c *snapshot.Cluster, p *snapshot.Pod) { c.DeletePod(p.UID) },
		quiet: samePod,
		seen:  o.require,
	})
}

// watchNodes watches the nodes that a field selector selects, all where it is "".
func (o *Observer) watchNodes(selector string) {
	watchKind(o, question{nodes, selector}, true, &corev1.Node{}, o.client.CoreV1().Nodes(), kind[*corev1.Node, snapshot.Node]{
		facts: NodeFacts,
		id:    func(n *snapshot.Node) string { return string(n.UID) },
		set:   (*snapshot.Cluster).SetNode,
		drop:  func(c *snapshot.Cluster, n *snapshot.Node) { c.DeleteNode(n.Name) },
		quiet: o.sameNode,
	})
}

func (o *Observer) watchBudgets() {
	watchKind(o, question{resource: budgets}, true, &policyv1.PodDisruptionBudget{}, o.client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll),
		kind[*policyv1.PodDisruptionBudget, snapshot.Budget]{
			facts: BudgetFacts,
			id:    func(b *snapshot.Budget) string { return string(b.UID) },
			set:   (*snapshot.Cluster).SetBudget,
			drop:  func(c *snapshot.Cluster, b *snapshot.Budget) { c.DeleteBudget(b.Key()) },
		})
}

func (o *Observer) watchAutoscalers() {
	watchKind(o, question{resource: autoscalers}, false, &autoscalingv2.HorizontalPodAutoscaler{}, o.client.AutoscalingV2().HorizontalPodAutoscalers(metav1.NamespaceAll),
		kind[*autoscalingv2.HorizontalPodAutoscaler, snapshot.Autoscaler]{
			facts: AutoscalerFacts,
			id:    func(a *snapshot.Autoscaler) string { return string(a.UID) },
			set:   (*snapshot.Cluster).SetAutoscaler,
			drop:  func(c *snapshot.Cluster, a *snapshot.Autoscaler) { c.DeleteAutoscaler(a.Key()) },
		})
}

func (o *Observer) watchClaims() {
	watchKind(o, question{resource: volumeClaims}, false, &corev1.PersistentVolumeClaim{}, o.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll),
		kind[*corev1.PersistentVolumeClaim, snapshot.Claim]{
			facts: ClaimFacts,
			id:    func(v *snapshot.Claim) string { return v.Key().String() },
			set:   (*snapshot.Cluster).SetClaim,
			drop:  func(c *snapshot.Cluster, v *snapshot.Claim) { c.DeleteClaim(v.Key()) },
		})
}

func (o *Observer) watchAttachments() {
	watchKind(o, question{resource: attachments}, false, &storagev1.VolumeAttachment{}, o.client.StorageV1().VolumeAttachments(),
		kind[*storagev1.VolumeAttachment, snapshot.Attachment]{
			facts: AttachmentFacts,
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

func (o *Observer) inScope(node string) bool {
	return o.scope == nil || o.scope[node]
}

// starters start the watch of what is read only when a pod needs it.
var starters = map[resource]func(*Observer){
	replicaSets:      (*Observer).watchReplicaSets,
	deployments:      (*Observer).watchDeployments,
	autoscalers:      (*Observer).watchAutoscalers,
	statefulSets:     (*Observer).watchStatefulSets,
	daemonSets:       (*Observer).watchDaemonSets,
	controllers:      (*Observer).watchControllers,
	jobs:             (*Observer).watchJobs,
	volumeClaims:     (*Observer).watchClaims,
	attachments:      (*Observer).watchAttachments,
	evictionRequests: (*Observer).watchRequests,
	evictions:        (*Observer).watchEvictions,
}

// require starts what a pod on the observed nodes needs and is not read yet. The
// caller holds the lock.
func (o *Observer) require(p *snapshot.Pod) {
	if p.Node == "" || !o.inScope(p.Node) {
		return
	}
	eachNeed(p, func(r resource) {
		if o.feeds[question{resource: r}] == nil {
			starters[r](o)
		}
	})
}
