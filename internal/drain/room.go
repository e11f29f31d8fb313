package drain

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.sh/usher/internal/snapshot"
)

// Obstacles of nodes with too little room, in the words of the scheduler's own messages.
const (
	besideItsKind = "node(s) didn't match pod anti-affinity rules"
	tooManyPods   = "Too many pods"
	noCPU         = "Insufficient cpu"
	noMemory      = "Insufficient memory"
)

// FitNowhere returns the pods of a drain in whose place others are made for which there is no node, as things stand: each by itself, before anything is evicted.
func FitNowhere(view snapshot.View, req Request) []Warning {
	d := newDecider(view, req, NewLedger(), true)
	var found []Warning
	for _, name := range req.Nodes {
		for _, p := range view.Cluster.PodsOn(name) {
			if d.fateOf(p).stays != "" || p.Finished() {
				continue
			}
			if w, is := d.unplaceable(p); is {
				found = append(found, w)
			}
		}
	}
	return found
}

// unplaceable says that what is made in place of a pod fits nowhere; false where it fits, or it is not known.
func (d *decider) unplaceable(p *snapshot.Pod) (Warning, bool) {
	why := d.fitsNowhere(p)
	if why == "" {
		return Warning{}, false
	}
	return warning(p, FitsNowhere, "what is made in its place finds no node, as things stand: "+why, "add a node that takes it, or change what it asks for: "+d.describe(p)), true
}

// remade reports whether the pod's controller makes another one in its place, on another node.
func (d *decider) remade(p *snapshot.Pod) bool {
	return p.Owner.UID != "" && !p.Owner.DaemonSet() && p.Owner.GroupKind() != schema.GroupKind{Group: "batch", Kind: "Job"} && !d.loads(p)
}

// fitsNowhere says why no node but those of the drain takes a pod like p that uses its volumes, "" where one does, or where that cannot be seen. Room is looked
// at where all pods were read: a drain reads few of other nodes.
func (d *decider) fitsNowhere(p *snapshot.Pod) string {
	if !d.remade(p) {
		return ""
	}
	if why := d.nowhere(p); why != "" {
		return why
	}
	asking := d.Cluster.WithVolumes(p)
	placement := snapshot.PlacementOf(asking)
	if asking != p {
		if why := d.nowhereFor(&placement); why != "" {
			return why + ", by its volumes"
		}
	}
	if d.Cluster.Partial("pods") || !d.Cluster.NodesRead(placement.Selector()) {
		return ""
	}
	return d.noRoom(asking, &placement)
}

// noRoom says why none of the nodes has room for such a pod, "" where one has.
func (d *decider) noRoom(p *snapshot.Pod, placement *snapshot.Placement) string {
	obstacles := map[string]int{}
	fits := d.Cluster.AnyNode(func(n *snapshot.Node) bool {
		if d.targeted(n.Name) || !placement.Selects(n) {
			return false
		}
		obstacle := placement.Refusal(n)
		if obstacle == "" {
			obstacle = d.tooFull(n, p)
		}
		obstacles[obstacle]++
		return obstacle == ""
	})
	if fits || len(obstacles) == 0 {
		return ""
	}
	return "no other node has room for it" + because(numbered(obstacles))
}

// tooFull says why a node has no room for a pod, "" where it has. One that does not say what it offers is taken to have it.
func (d *decider) tooFull(n *snapshot.Node, p *snapshot.Pod) string {
	has, used := n.Allocatable, d.usedOn(n.Name)
	switch {
	case p.SpreadHosts && d.hasKind(n.Name, p):
		return besideItsKind
	case has == (snapshot.Resources{}):
		return ""
	case used.Pods >= has.Pods:
		return tooManyPods
	case p.Requests.MilliCPU > 0 && used.MilliCPU+p.Requests.MilliCPU > has.MilliCPU:
		return noCPU
	case p.Requests.Memory > 0 && used.Memory+p.Requests.Memory > has.Memory:
		return noMemory
	}
	return ""
}

// usedOn sums up what the pods on a node have requested.
func (d *decider) usedOn(node string) snapshot.Resources {
	if used, known := d.onNode[node]; known {
		return used
	}
	var used snapshot.Resources
	for _, p := range d.Cluster.PodsOn(node) {
		if !p.Finished() {
			used.MilliCPU, used.Memory, used.Pods = used.MilliCPU+p.Requests.MilliCPU, used.Memory+p.Requests.Memory, used.Pods+1
		}
	}
	d.onNode[node] = used
	return used
}

// hasKind reports whether a pod of the same owner runs on a node.
func (d *decider) hasKind(node string, p *snapshot.Pod) bool {
	for _, kin := range d.Cluster.PodsOf(p.OwnerKey()) {
		if kin.Node == node && !kin.Finished() {
			return true
		}
	}
	return false
}
