package policycache

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

// AdmissionRequest returns what admission asked for in a caller's name; false if it did not make the request, or for no
// pod. Node is that of the pod, nil if it is not known.
func AdmissionRequest(request *api.EvictionRequest, node *snapshot.Node) (eviction.AdmissionRequest, bool) {
	ref, ok := evictionrequest.RequestRef(request)
	asked, made := evictionrequest.LastRequestTime(request)
	if !ok || !made {
		return eviction.AdmissionRequest{}, false
	}
	return eviction.AdmissionRequest{
		Pod: snapshot.Key{Namespace: ref.Namespace, Name: ref.Name}, UID: ref.UID, Requester: request.Spec.Requester, Asked: asked,
		ByOwner: slices.Contains(ownerRequesters(), request.Spec.Requester),
		Held:    slices.Contains(taintRequesters, request.Spec.Requester) && drivesAway(node),
		Empties: request.Spec.Requester == evictionrequest.Requester(eviction.CordonUser),
	}, true
}

// taintRequesters evict the pods of a node for a taint: once, and not again while the taint stands. The last one is who all
// controllers are where kube-controller-manager runs without credentials for each.
var taintRequesters = []string{
	evictionrequest.Requester("system:serviceaccount:kube-system:taint-eviction-controller"),
	evictionrequest.Requester("system:serviceaccount:kube-system:node-controller"),
	evictionrequest.Requester("system:kube-controller-manager"),
}

// ownerRequesters are Kubernetes' own controllers of pods.
func ownerRequesters() []string {
	accounts := eviction.OwnerAccounts()
	for i := range accounts {
		accounts[i] = evictionrequest.Requester(accounts[i])
	}
	return accounts
}

func drivesAway(node *snapshot.Node) bool {
	return node != nil && slices.ContainsFunc(node.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}
