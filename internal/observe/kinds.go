package observe

import (
	"reflect"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	"usher.sh/usher/internal/snapshot"
)

func (o *Observer) watchPods(q question) {
	watchKind(o, q, &corev1.Pod{}, o.client.CoreV1().Pods(q.namespace), o.podKind())
}

// podKind is of one feed: its pods share what their templates gave them.
func (o *Observer) podKind() kind[*corev1.Pod, snapshot.Pod] {
	family := siblings{}
	return kind[*corev1.Pod, snapshot.Pod]{
		facts:   func(pod *corev1.Pod) *snapshot.Pod { return family.share(PodFacts(pod)) },
		id:      func(p *snapshot.Pod) string { return string(p.UID) },
		set:     (*snapshot.Cluster).SetPod,
		drop:    func(c *snapshot.Cluster, p *snapshot.Pod) { c.DeletePod(p.UID) },
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
		seen:    o.seeNode,
		present: func(c *snapshot.Cluster, n *snapshot.Node) *snapshot.Node { return c.Node(n.Name) },
		version: func(n *snapshot.Node) string { return n.ResourceVersion },
	})
}

func (o *Observer) watchBudgets(q question) {
	watchKind(o, q, &policyv1.PodDisruptionBudget{}, o.client.PolicyV1().PodDisruptionBudgets(q.namespace),
		kind[*policyv1.PodDisruptionBudget, snapshot.Budget]{
			facts:   BudgetFacts,
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
			drop:    func(c *snapshot.Cluster, a *snapshot.Autoscaler) { c.DeleteAutoscaler(a.Key()) },
			seen:    o.seeAutoscaler,
			present: func(c *snapshot.Cluster, a *snapshot.Autoscaler) *snapshot.Autoscaler { return c.Autoscaler(a.Key()) },
			version: func(a *snapshot.Autoscaler) string { return a.ResourceVersion },
		})
}

func (o *Observer) watchClaims(q question) {
	watchKind(o, q, &corev1.PersistentVolumeClaim{}, o.client.CoreV1().PersistentVolumeClaims(q.namespace),
		kind[*corev1.PersistentVolumeClaim, snapshot.Claim]{
			facts:   ClaimFacts,
			id:      func(v *snapshot.Claim) string { return string(v.UID) },
			set:     (*snapshot.Cluster).SetClaim,
			drop:    func(c *snapshot.Cluster, v *snapshot.Claim) { c.DeleteClaim(v.Key()) },
			present: func(c *snapshot.Cluster, v *snapshot.Claim) *snapshot.Claim { return c.Claim(v.Key()) },
			version: func(v *snapshot.Claim) string { return v.ResourceVersion },
		})
}

func (o *Observer) watchAttachments(q question) {
	watchKind(o, q, &storagev1.VolumeAttachment{}, o.client.StorageV1().VolumeAttachments(),
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
