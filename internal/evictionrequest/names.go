package evictionrequest

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// The responders that every eviction of a governed pod has, and their priorities: higher ones are asked first.
const (
	Responder                 = "responder.usher.sh/governor"
	ResponderPriority   int32 = 10000
	Evictor                   = api.EvictionResponderImperativeEviction
	EvictorPriority     int32 = 100
	maxTargetResponders       = 11
	maxRequesters             = 100
)

// The times that the API prescribes, or that its controller promises to keep.
const (
	// HeartbeatDeadline is how long a responder may be silent before the next one takes over.
	HeartbeatDeadline = 20 * time.Minute
	// Beat is how often a responder that has nothing new to say says that it lives.
	Beat = 3 * time.Minute
	// Quiet is the least time between two heartbeats.
	Quiet = 20 * time.Second
	// EndGrace is how long a responder may still write after its pod has ended.
	EndGrace = 5 * time.Second
)

// MaintenanceDomain ends the domains of the requesters that are maintenances of other clients: "kernel.maintenance.usher.sh/node-7", or the
// domain alone. Those that the manager carries out request as the drains that they are.
const MaintenanceDomain = "maintenance.usher.sh"

// ByMaintenance reports whether a requester is a maintenance. It is a claim: whoever may write requests in a namespace may make it there.
func ByMaintenance(requester string) bool {
	if drain, ok := (&snapshot.Request{Requester: requester}).Drainer(); ok {
		return drain.OfMaintenance()
	}
	domain, _, _ := strings.Cut(requester, "/")
	return domain == MaintenanceDomain || strings.HasSuffix(domain, "."+MaintenanceDomain)
}

// Governed reports whether a policy governs the pod.
func Governed(pod *corev1.Pod) bool {
	return pod != nil && pod.Labels[v1alpha1.PolicyLabel] != ""
}
