package histories

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
)

// onCordon reports whether keepers that stay are emptied for the cordons of their nodes: in every other history.
func (d *httpSite) onCordon() bool { return d.stay && d.world.seed%2 == 0 }

// checkCordons: once there was time, a request for the cordon of its node stands for a keeper exactly while its node is cordoned. Where another
// policy has a say, or this one is suspended, none need stand.
func (w *world) checkCordons() {
	d, ok := w.site.(*httpSite)
	policy := w.policy(firstPolicy)
	if !ok || !d.onCordon() || policy == nil || policy.DeletionTimestamp != nil || policy.Spec.Suspend || policy.Spec.Members[0].EmptyOn != v1alpha1.EmptyOnCordon ||
		len(list[*v1alpha1.EvictionPolicy](w.store, policies)) > 1 {
		return
	}
	for _, p := range w.site.members() {
		pod, node := w.store.pod(p.pod), w.cordonedNode(p.pod)
		if p.role != policy.Spec.Members[0].Role || pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		stands := slices.ContainsFunc(list[*api.EvictionRequest](w.store, requests), func(r *api.EvictionRequest) bool {
			ref, _ := evictionrequest.RequestRef(r)
			return wanted(r) && ref.UID == pod.UID && r.Spec.Requester == "requester.usher.sh/cordon.usher.sh"
		})
		if stands != node {
			w.fail("CORDON", "the node of %s is cordoned: %t, and a request stands for that: %t", pod.Name, node, stands)
		}
	}
}

func (w *world) cordonedNode(pod string) bool {
	node, ok := w.store.get(nodes, w.nodeKey(pod)).(*corev1.Node)
	return ok && node.Spec.Unschedulable
}
