package observe

import "usher.sh/usher/internal/snapshot"

// Who may write an object gives it another owner, and asks other things of nodes, again and again. What was asked for because of what an
// object is no longer is forgotten once no other is so. The observer's lock is held by who calls.

// setPod takes a pod in.
func (o *Observer) setPod(c *snapshot.Cluster, p *snapshot.Pod) {
	old := c.PodNamed(p.Key())
	c.SetPod(p)
	if old != nil {
		o.leavePod(old, p)
	}
}

// dropPod takes a pod out.
func (o *Observer) dropPod(c *snapshot.Cluster, p *snapshot.Pod) {
	old := c.Pod(p.UID)
	c.DeletePod(p.UID)
	if old != nil {
		o.leavePod(old, nil)
	}
}

// leavePod forgets what only the former state of a pod needed; its present one is nil where it is gone.
func (o *Observer) leavePod(old, p *snapshot.Pod) {
	owner := old.OwnerKey()
	same := p != nil && p.OwnerKey() == owner
	if !same {
		o.forgetOwner(owner)
	}
	stays := same && p.Node == old.Node && samePlaces(old, p)
	if o.onNodes(old) && !stays {
		o.forgetPlaces(owner)
	}
}

// setWorkload takes a workload in.
func (o *Observer) setWorkload(c *snapshot.Cluster, w *snapshot.Workload) {
	old := c.Workload(w.UID)
	c.SetWorkload(w)
	if old != nil {
		o.forgetOwner(old.OwnerKey())
	}
}

// dropWorkload takes a workload out.
func (o *Observer) dropWorkload(c *snapshot.Cluster, w *snapshot.Workload) {
	old := c.Workload(w.UID)
	c.DeleteWorkload(w.UID)
	if old != nil {
		o.forgetOwner(old.AsOwner())
		o.forgetOwner(old.OwnerKey())
	}
}

// dropAutoscaler takes an autoscaler out.
func (o *Observer) dropAutoscaler(c *snapshot.Cluster, a *snapshot.Autoscaler) {
	c.DeleteAutoscaler(a.Key())
	delete(o.scope.raised, a.Key())
}

// dropBudget takes a budget out. What comes under its name counts anew.
func (o *Observer) dropBudget(c *snapshot.Cluster, b *snapshot.Budget) {
	c.DeleteBudget(b.Key())
	delete(o.scope.scanned, b.Key())
	delete(o.scope.counted, b.Key())
}

// forgetOwner forgets how much of an owner is needed, if there is none and nothing has it.
func (o *Observer) forgetOwner(key snapshot.OwnerKey) {
	if o.cluster.Knows(key) {
		return
	}
	delete(o.scope.owners, key)
	delete(o.scope.ruled[key.Namespace], key)
}

// forgetPlaces forgets what no pod on the nodes that an owner has asks of nodes any more.
func (o *Observer) forgetPlaces(key snapshot.OwnerKey) {
	for selector, of := range o.scope.places {
		if of.pods[key] != nil && of.forget(key, o.stillAsked) {
			delete(o.scope.places, selector)
		}
	}
}

// stillAsked reports whether a pod on the nodes that an owner has asks the same of nodes.
func (o *Observer) stillAsked(key snapshot.OwnerKey, asked *snapshot.Pod) bool {
	for _, p := range o.cluster.PodsOf(key) {
		if o.onNodes(p) && (samePlaces(p, asked) || samePlaces(o.cluster.WithVolumes(p), asked)) {
			return true
		}
	}
	return false
}
