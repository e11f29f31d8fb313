package snapshot

import "k8s.io/apimachinery/pkg/types"

// OwnerKey names a controller whole. The client that creates an object writes its owner: a UID alone may be that of another
// namespace's controller, or of one of another kind.
type OwnerKey struct {
	Namespace, Group, Kind, Name string
	UID                          types.UID
}

// In names the owner of an object in this namespace, zero where nothing owns it. In whatever version: pods of one
// controller may name two.
func (o Owner) In(namespace string) OwnerKey {
	if o.UID == "" {
		return OwnerKey{}
	}
	return OwnerKey{Namespace: namespace, Group: o.GroupKind().Group, Kind: o.Kind, Name: o.Name, UID: o.UID}
}

// OwnerKey names the pod's owner.
func (p *Pod) OwnerKey() OwnerKey { return p.Owner.In(p.Namespace) }

// OwnerKey names the workload's owner: that of a ReplicaSet is its Deployment.
func (w *Workload) OwnerKey() OwnerKey { return w.Owner.In(w.Namespace) }

// AsOwner is how what the workload owns names it.
func (w *Workload) AsOwner() OwnerKey {
	return OwnerKey{Namespace: w.Namespace, Group: w.APIGroup(), Kind: w.Kind, Name: w.Name, UID: w.UID}
}

// APIGroup is the API group of the workload's kind.
func (w *Workload) APIGroup() string {
	if w.Group != "" {
		return w.Group
	}
	return groupOf(w.Kind)
}

func groupOf(workload string) string {
	switch workload {
	case "ReplicationController":
		return ""
	case "Job":
		return "batch"
	}
	return "apps"
}

// Knows reports whether the cluster has an owner, or something that it owns.
func (c *Cluster) Knows(owner OwnerKey) bool {
	return c.WorkloadOf(owner) != nil || c.podsByOwner[owner] != nil || len(c.workloadsOf[owner]) > 0
}

// WorkloadOf returns the workload that is an owner, or nil where none is all that the key says.
func (c *Cluster) WorkloadOf(key OwnerKey) *Workload {
	if w := c.workloads[key.UID]; w != nil && w.AsOwner() == key {
		return w
	}
	return nil
}
