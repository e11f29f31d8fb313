package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// filterResult is what the filters say of a pod: it leaves (both empty), it stays, or the
// operator has to decide first.
type filterResult struct {
	stays      string
	emptied    bool // it stays, and is done with
	load       bool // it is to be emptied, and never removed
	objections []Blocker
}

// fateOf applies the filters of source 004 ("Special pods to delete") and kubectl's
// own two, in kubectl's order. Unlike kubectl it collects every objection.
func (d *decider) fateOf(p *snapshot.Pod) filterResult {
	switch {
	case d.deletedBefore(p):
		return filterResult{stays: "terminating since before --skip-wait-for-delete-timeout"}
	case d.req.PodSelector != nil && !d.req.PodSelector.Matches(labels.Set(p.Labels)):
		return filterResult{stays: "not selected"}
	case d.loads(p) && !p.Finished():
		return d.fateOfLoad(p)
	case d.unreadLoad(p):
		return filterResult{load: true}
	case p.Mirror:
		return filterResult{stays: "static pod, run by the kubelet from a file"}
	case p.Owner.DaemonSet() && d.req.DaemonSets == DaemonSetsIgnore && !p.Finished() && !d.orphanOfDaemonSet(p):
		return filterResult{stays: "DaemonSet pod"}
	case d.cameBack(p):
		return d.fateOfReturned(p)
	case p.Finished():
		return filterResult{}
	}
	return filterResult{objections: d.objectionsTo(p)}
}

// cameBack reports whether the pod was started on the node after this drain had cordoned it. Evicted, it would only come
// back again: without end, and a Job would use up its retries. Where the node was given back, that is where it belongs.
func (d *decider) cameBack(p *snapshot.Pod) bool {
	n := d.Cluster.Node(p.Node)
	return n != nil && d.own(n) && n.Unschedulable && d.led.back[p.Node] == nil && d.startedSince(p, n.Drain) && d.led.departures[p.UID] == nil
}

// startedSince reports whether the pod was started after the cordon of which the record says.
func (d *decider) startedSince(p *snapshot.Pod, r *snapshot.DrainRecord) bool {
	return !d.led.residents[p.UID] && !p.Created.Before(snapshot.Believed(r.Since, d.Now).Truncate(time.Second))
}

// fateOfReturned lets a pod stay that tolerates the cordon, or has ended. One that does not may have been bound before the
// scheduler saw the cordon, so that the node is not called drained with it.
func (d *decider) fateOfReturned(p *snapshot.Pod) filterResult {
	switch {
	case p.Finished():
		return filterResult{stays: "it was started after the cordon, and has ended"}
	case p.ToleratesCordon(), p.Owner.DaemonSet(): // to whose pods their controller gives that toleration
		return filterResult{stays: "it was started after the cordon, which it tolerates"}
	}
	b := Blocker{
		Reason: StartedAfterCordon, Pod: p.Key(), Node: p.Node, Dead: true,
		Message: "it was started after the cordon: the scheduler had not seen that, or the pod's template names the node",
		Remedy:  "run the drain again to evict it",
	}
	if w := d.Cluster.WorkloadOf(p.OwnerKey()); w != nil && w.NodeName == p.Node {
		owner := d.workloadOf(p)
		b.Message = "it was started after the cordon: its template names the node"
		b.Remedy = fmt.Sprintf("change spec.nodeName: kubectl edit -n %s %s/%s", owner.Namespace, strings.ToLower(owner.Kind), owner.Name)
	}
	return filterResult{objections: []Blocker{b}}
}

func (d *decider) deletedBefore(p *snapshot.Pod) bool {
	return d.req.SkipDeletedBefore > 0 && p.Terminating() && d.Now.Sub(p.Deletion) > d.req.SkipDeletedBefore
}

func (d *decider) objectionsTo(p *snapshot.Pod) []Blocker {
	var found []Blocker
	object := func(reason Reason, message, remedy string) {
		found = append(found, Blocker{Reason: reason, Pod: p.Key(), Node: p.Node, Message: message, Remedy: remedy, Dead: true})
	}
	switch {
	case p.Owner.DaemonSet() && d.orphanOfDaemonSet(p):
		if !d.req.Force {
			object(OrphanedDaemon, fmt.Sprintf("its DaemonSet %s does not exist any more, nothing will replace it", p.Owner.Name), "--force")
		}
	case p.Owner.DaemonSet() && d.req.DaemonSets == DaemonSetsObject:
		object(DaemonSetPod, "a DaemonSet's pod comes back on the same node at once", "--ignore-daemonsets to leave it there, or --daemonsets=evict to remove it last")
	case p.Owner.UID == "" && !d.req.Force:
		object(UnreplicatedPod, "no controller owns it, nothing will replace it", "--force to evict it all the same")
	}
	if len(p.EmptyDirs) > 0 && !d.req.DeleteEmptyDir {
		object(LocalStorage, fmt.Sprintf("its local data (emptyDir %s) is lost with the pod", listed(p.EmptyDirs)), "--delete-emptydir-data to accept that")
	}
	return found
}

// noteOrders says once for each namespace that orders of its pods cannot be read: its users write them, and they must not
// keep the node from being drained.
func (d *decider) noteOrders(nodes []target) {
	if !d.verbose {
		return
	}
	var namespaces []string
	for i := range nodes {
		for _, q := range nodes[i].queue {
			if q.pod.OrderInvalid {
				namespaces = append(namespaces, q.pod.Namespace)
			}
		}
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		d.out.Notes = append(d.out.Notes, fmt.Sprintf("namespace %s: the annotation %s of some pods is not an integer and counts as 0; "+
			`kubectl get pods -n %s -o custom-columns='NAME:.metadata.name,ORDER:.metadata.annotations.usher\.sh/order' shows them`,
			namespace, snapshot.OrderAnnotation, namespace))
	}
}

// orphanOfDaemonSet reports whether a DaemonSet's pod has lost its DaemonSet. A
// DaemonSet that cannot be seen is taken to be there.
func (d *decider) orphanOfDaemonSet(p *snapshot.Pod) bool {
	if _, gap := d.Cluster.Gap("daemonsets"); gap {
		return false
	}
	return d.Cluster.WorkloadOf(p.OwnerKey()) == nil
}

// Objections returns every objection of the filters to the drain, for all pods of
// all its nodes, before anything is changed.
func Objections(view snapshot.View, req Request) []Blocker {
	d := newDecider(view, req, NewLedger(), true)
	var all []Blocker
	for _, name := range req.Nodes {
		for _, p := range view.Cluster.PodsOn(name) {
			all = append(all, d.fateOf(p).objections...)
		}
	}
	return all
}

// acceptedBy names the flag by which an operator accepts what a filter objects to. Where
// there are two, it is the one that removes less.
var acceptedBy = map[Reason]string{
	DaemonSetPod:    "--ignore-daemonsets",
	OrphanedDaemon:  "--force",
	UnreplicatedPod: "--force",
	LocalStorage:    "--delete-emptydir-data",
}

// Accept returns the flags with which the drain would not object any more, sorted. Every objection has one: what a pod's
// users can write keeps no node from being drained.
func Accept(objections []Blocker) []string {
	var flags []string
	for i := range objections {
		if flag, known := acceptedBy[objections[i].Reason]; known {
			flags = append(flags, flag)
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// Excluded returns the pods on the drain's nodes that the filters leave where they are,
// terminating ones included: their end is not the drain's doing.
func Excluded(view snapshot.View, req Request) map[types.UID]bool {
	d := newDecider(view, req, NewLedger(), true)
	excluded := map[types.UID]bool{}
	for _, name := range req.Nodes {
		for _, p := range view.Cluster.PodsOn(name) {
			if d.fateOf(p).stays != "" {
				excluded[p.UID] = true
			}
		}
	}
	return excluded
}
