package observe

import (
	api "k8s.io/api/lifecycle/v1alpha1"

	"usher.sh/usher/internal/snapshot"
)

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
