package observe

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/internal/snapshot"
)

// resource names an API resource as people and RBAC do.
type resource struct {
	name  string // plural
	group string // "" for core
}

func (r resource) String() string {
	if r.group == "" {
		return r.name
	}
	return r.name + "." + r.group
}

// The resources that are read.
var (
	pods             = resource{name: "pods"}
	nodes            = resource{name: "nodes"}
	budgets          = resource{name: "poddisruptionbudgets", group: "policy"}
	replicaSets      = resource{name: "replicasets", group: "apps"}
	deployments      = resource{name: "deployments", group: "apps"}
	statefulSets     = resource{name: "statefulsets", group: "apps"}
	daemonSets       = resource{name: "daemonsets", group: "apps"}
	controllers      = resource{name: "replicationcontrollers"}
	jobs             = resource{name: "jobs", group: "batch"}
	autoscalers      = resource{name: "horizontalpodautoscalers", group: "autoscaling"}
	volumeClaims     = resource{name: "persistentvolumeclaims"}
	volumes          = resource{name: "persistentvolumes"}
	attachments      = resource{name: "volumeattachments", group: "storage.k8s.io"}
	evictionRequests = resource{name: "evictionrequests", group: "lifecycle"}
	evictions        = resource{name: "evictions", group: "lifecycle"}
	policies         = resource{name: "evictionpolicies", group: "usher.sh"}
	leases           = resource{name: "leases", group: "coordination.k8s.io"}
)

// always is what every decision needs.
var always = []resource{nodes, pods, budgets}

// byOwner is what a decision about a pod needs besides, by the kind of its owner.
var byOwner = map[schema.GroupKind][]resource{
	{Group: "apps", Kind: "ReplicaSet"}:  {replicaSets, deployments, autoscalers},
	{Group: "apps", Kind: "StatefulSet"}: {statefulSets},
	{Group: "apps", Kind: "DaemonSet"}:   {daemonSets},
	{Kind: "ReplicationController"}:      {controllers},
	{Group: "batch", Kind: "Job"}:        {jobs},
}

// byClaim is what a decision about a pod with volume claims needs besides.
var byClaim = []resource{volumeClaims, attachments}

// eachNeed calls f for every resource that a decision about the pod needs besides
// those that it always needs.
func eachNeed(p *snapshot.Pod, f func(resource)) {
	for _, r := range byOwner[p.Owner.GroupKind()] {
		f(r)
	}
	if len(p.Claims) > 0 {
		for _, r := range byClaim {
			f(r)
		}
	}
	if p.Policy() != "" {
		f(evictionRequests)
		f(evictions)
		f(policies)
	}
}
