package observe

import (
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/snapshot"
)

func (o *Observer) watchRequests() {
	if o.evictions == nil {
		o.cluster.SetGap(snapshot.Gap{Resource: evictionRequests.name, Reason: "they are not read", Final: true})
		return
	}
	watchKind(o, question{resource: evictionRequests}, false, &api.EvictionRequest{}, o.evictions.Requests(metav1.NamespaceAll), kind[*api.EvictionRequest, snapshot.Request]{
		facts: RequestFacts,
		id:    func(r *snapshot.Request) string { return string(r.UID) },
		set:   (*snapshot.Cluster).SetRequest,
		drop:  func(c *snapshot.Cluster, r *snapshot.Request) { c.DeleteRequest(r.Key()) },
	})
}

func (o *Observer) watchEvictions() {
	if o.evictions == nil {
		return
	}
	watchKind(o, question{resource: evictions}, false, &api.Eviction{}, o.evictions.Evictions(metav1.NamespaceAll), kind[*api.Eviction, snapshot.Eviction]{
		facts: EvictionFacts,
		id:    func(e *snapshot.Eviction) string { return string(e.UID) },
		set:   (*snapshot.Cluster).SetEviction,
		drop:  func(c *snapshot.Cluster, e *snapshot.Eviction) { c.DeleteEviction(e.Key()) },
	})
}
