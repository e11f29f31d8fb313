package snapshot

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// SetNode adds or replaces a node.
func (c *Cluster) SetNode(n *Node) { c.nodes[n.Name] = n }

// DeleteNode forgets a node.
func (c *Cluster) DeleteNode(name string) { delete(c.nodes, name) }

// Node returns a node, or nil when the cluster has none of this name.
func (c *Cluster) Node(name string) *Node { return c.nodes[name] }

// AnyNode reports whether match holds for some node. It looks at them in no order.
func (c *Cluster) AnyNode(match func(*Node) bool) bool {
	for _, n := range c.nodes {
		if match(n) {
			return true
		}
	}
	return false
}

// Nodes returns all nodes, sorted by name.
func (c *Cluster) Nodes() []*Node {
	return sortedBy(c.nodes, func(a, b *Node) int { return cmp.Compare(a.Name, b.Name) })
}

// SetWorkload adds or replaces a workload.
func (c *Cluster) SetWorkload(w *Workload) {
	c.DeleteWorkload(w.UID) // its owner may have been another
	c.workloads[w.UID] = w
	if w.Surge != nil || w.SurgeError != "" {
		c.surged[w.UID] = w
	}
	if !w.Settled {
		c.unsettled[w.UID] = w
	}
	if of := w.OwnerKey(); of.UID != "" {
		if c.workloadsOf[of] == nil {
			c.workloadsOf[of] = map[types.UID]*Workload{}
		}
		c.workloadsOf[of][w.UID] = w
	}
}

// DeleteWorkload forgets a workload.
func (c *Cluster) DeleteWorkload(uid types.UID) {
	if w := c.workloads[uid]; w != nil {
		of := w.OwnerKey()
		if delete(c.workloadsOf[of], uid); len(c.workloadsOf[of]) == 0 {
			delete(c.workloadsOf, of)
		}
	}
	delete(c.workloads, uid)
	delete(c.unsettled, uid)
	delete(c.surged, uid)
}

// WorkloadsOf returns the workloads that this workload owns (a Deployment's
// ReplicaSets), sorted by name.
func (c *Cluster) WorkloadsOf(owner OwnerKey) []*Workload {
	return sortedBy(c.workloadsOf[owner], func(a, b *Workload) int { return cmp.Compare(a.Name, b.Name) })
}

// Surged returns the workloads that carry a surge record, also one that cannot be read, sorted.
func (c *Cluster) Surged() []*Workload { return sortedBy(c.surged, compareWorkloads) }

// Unsettled returns the workloads whose controllers have something to do, sorted.
func (c *Cluster) Unsettled() []*Workload { return sortedBy(c.unsettled, compareWorkloads) }

// Workload returns the workload with this UID, or nil.
func (c *Cluster) Workload(uid types.UID) *Workload { return c.workloads[uid] }

// Workloads returns all workloads, sorted by namespace, kind and name.
func (c *Cluster) Workloads() []*Workload {
	return sortedBy(c.workloads, compareWorkloads)
}

func compareWorkloads(a, b *Workload) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// SetAutoscaler adds or replaces an autoscaler.
func (c *Cluster) SetAutoscaler(a *Autoscaler) {
	c.scalers[a.Key()] = a
	delete(c.surgedScalers, a.Key())
	if a.Surge != nil || a.SurgeError != "" {
		c.surgedScalers[a.Key()] = a
	}
}

// DeleteAutoscaler forgets an autoscaler.
func (c *Cluster) DeleteAutoscaler(key Key) {
	delete(c.scalers, key)
	delete(c.surgedScalers, key)
}

// SurgedAutoscalers returns the autoscalers that carry a surge record, also one that cannot be read, sorted.
func (c *Cluster) SurgedAutoscalers() []*Autoscaler {
	return sortedBy(c.surgedScalers, compareAutoscalers)
}

// Autoscaler returns an autoscaler, or nil.
func (c *Cluster) Autoscaler(key Key) *Autoscaler { return c.scalers[key] }

// AutoscalerOf returns the autoscaler that rules a workload, or nil.
func (c *Cluster) AutoscalerOf(w *Workload) *Autoscaler {
	var found *Autoscaler
	for _, a := range c.scalers {
		if a.Rules(w) && (found == nil || a.Name < found.Name) {
			found = a
		}
	}
	return found
}

// Autoscalers returns all autoscalers, sorted by namespace and name.
func (c *Cluster) Autoscalers() []*Autoscaler {
	return sortedBy(c.scalers, compareAutoscalers)
}

func compareAutoscalers(a, b *Autoscaler) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// SetClaim adds or replaces a volume claim.
func (c *Cluster) SetClaim(v *Claim) { c.claims[v.Key()] = v }

// DeleteClaim forgets a volume claim.
func (c *Cluster) DeleteClaim(key Key) { delete(c.claims, key) }

// Claim returns a volume claim, or nil.
func (c *Cluster) Claim(key Key) *Claim { return c.claims[key] }

// SetAttachment adds or replaces a volume attachment.
func (c *Cluster) SetAttachment(a *Attachment) {
	c.DeleteAttachment(a.Name)
	c.attachments[a.Name] = a
	if c.attachedTo[a.Node] == nil {
		c.attachedTo[a.Node] = map[string]*Attachment{}
	}
	c.attachedTo[a.Node][a.Name] = a
}

// DeleteAttachment forgets a volume attachment.
func (c *Cluster) DeleteAttachment(name string) {
	if a := c.attachments[name]; a != nil {
		delete(c.attachedTo[a.Node], name)
	}
	delete(c.attachments, name)
}

// AttachmentsOn returns the volumes attached to a node, sorted by name.
func (c *Cluster) AttachmentsOn(node string) []*Attachment {
	return sortedBy(c.attachedTo[node], func(a, b *Attachment) int { return cmp.Compare(a.Name, b.Name) })
}

// SetGap notes that a resource cannot be read; DeleteGap takes it back.
func (c *Cluster) SetGap(g Gap) { c.gaps[g.Resource] = g }

// DeleteGap notes that a resource can be read again.
func (c *Cluster) DeleteGap(resource string) { delete(c.gaps, resource) }

// Gap returns the gap of a resource and whether there is one.
func (c *Cluster) Gap(resource string) (Gap, bool) {
	g, ok := c.gaps[resource]
	return g, ok
}

// SetPartial notes whether only some objects of a resource were read, by their names: there may be others, and of those that were
// read one that is missing does not exist.
func (c *Cluster) SetPartial(resource string, partial bool) { c.partial[resource] = partial }

// Partial reports whether the cluster may have objects of a resource that were not read: a gap is one case.
func (c *Cluster) Partial(resource string) bool {
	_, gap := c.gaps[resource]
	return gap || c.partial[resource]
}

// SetNodesRead notes that all nodes with these labels were read, though the nodes as a whole were not.
func (c *Cluster) SetNodesRead(selector string) { c.nodesRead[selector] = true }

// NodesRead reports whether all nodes that a label selector selects were read: one that is missing does not exist.
func (c *Cluster) NodesRead(selector string) bool {
	return !c.Partial("nodes") || c.nodesRead[selector]
}

// Gaps returns everything that could not be read, sorted by resource.
func (c *Cluster) Gaps() []Gap {
	return sortedBy(c.gaps, func(a, b Gap) int { return cmp.Compare(a.Resource, b.Resource) })
}

func sortedBy[K comparable, V any](m map[K]V, compare func(a, b V) int) []V {
	all := make([]V, 0, len(m))
	for _, v := range m {
		all = append(all, v)
	}
	slices.SortFunc(all, compare)
	return all
}
