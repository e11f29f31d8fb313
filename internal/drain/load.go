package drain

import (
	"fmt"
	"slices"

	"usher.sh/usher/internal/snapshot"
)

// loads reports whether the pod stays by its policy, and what it carries is to leave the node.
func (d *decider) loads(p *snapshot.Pod) bool { return d.Cluster.Loads(p) }

// policies is the resource whose gap says why it is not known which pods stay.
const policies = "evictionpolicies"

// unread reports whether a policy governs the pod by its label, and it is not known whether it has it stay.
func (d *decider) unread(p *snapshot.Pod) bool {
	_, gap := d.Cluster.Gap(policies)
	return p.Policy() != "" && (gap || d.Cluster.LoadUnread(p) != nil)
}

// mayRemove reports whether a pod may be deleted past what holds it, or be given less time to end: one that stays by its policy never is, nor
// one that may be such a pod.
func (d *decider) mayRemove(p *snapshot.Pod) bool { return !d.loads(p) && !d.unread(p) }

// unreadLoad reports whether a pod that would be left where it is may have to be emptied: a policy governs it by its label, and cannot be
// read. Who may write the pod writes the label, and so keeps the node from being called drained, as any policy of that namespace may.
func (d *decider) unreadLoad(p *snapshot.Pod) bool {
	return d.unread(p) && p.Owner.DaemonSet() && !p.Finished() && d.req.DaemonSets == DaemonSetsIgnore
}

// fateOfLoad is of a pod that stays: it is done with once it is emptied for a request of this drain.
func (d *decider) fateOfLoad(p *snapshot.Pod) filterResult {
	own, e := d.requestFor(p), d.Cluster.EvictionOf(p)
	if own != nil && !own.Withdrawn && e != nil && e.Emptied && !p.Terminating() {
		return filterResult{stays: "emptied, the pod stays", emptied: true}
	}
	return filterResult{load: true}
}

func (f filterResult) state() PodState {
	if f.emptied {
		return Emptied
	}
	return Staying
}

// outlives reports whether a request stands after the end of the drain that made it: one that keeps a pod empty on a node that was drained, until
// that is given back. Then the manager withdraws it. Of another drain no pods are read: there a node of it that is so is taken for the pod's own.
func (d *decider) outlives(r *snapshot.Request, who snapshot.Drainer) bool {
	p := d.Cluster.Pod(r.PodUID)
	switch {
	case p != nil && d.loads(p):
		n := d.Cluster.Node(p.Node)
		return n != nil && (n.KeptDrained(who.ID) || d.staysDrained(n, who))
	case p != nil && !d.unread(p):
		return false
	}
	return who.ID != d.req.Self.ID && d.Cluster.AnyNode(func(n *snapshot.Node) bool { return n.KeptDrained(who.ID) })
}

// staysDrained reports whether this drain is about to leave the node as a drained one.
func (d *decider) staysDrained(n *snapshot.Node, who snapshot.Drainer) bool {
	return who.ID == d.req.Self.ID && d.led.ending == Drained && d.own(n) && n.Unschedulable && !n.CordonedAnew() && d.led.back[n.Name] == nil
}

func requestFailed(p *snapshot.Pod, own *snapshot.Request) Blocker {
	return Blocker{
		Reason: RejectedByServer, Pod: p.Key(), Node: p.Node, Dead: true,
		Message: "it stays, and the request that it is emptied has come to nothing: " + own.Failed,
		Remedy:  fmt.Sprintf("kubectl delete evictionrequest -n %s %s, and run the drain again", own.Namespace, own.Name),
	}
}

// cannotBeEmptied is of a pod that stays where no request can be made.
func cannotBeEmptied(p *snapshot.Pod, why string) Blocker {
	return Blocker{
		Reason: EvidenceUnavailable, Pod: p.Key(), Node: p.Node, Dead: true,
		Message: "it stays, and what it carries leaves by an EvictionRequest only, which cannot be made: " + why,
		Remedy:  "see that the cluster serves EvictionRequests (usher install) and that they may be listed, watched and created, or leave the pod out (--pod-selector)",
	}
}

// policiesUnread is of a governed pod of a DaemonSet of which it is not known whether it is to be emptied.
func (d *decider) policiesUnread(p *snapshot.Pod) Blocker {
	gap, some := d.Cluster.Gap(policies)
	if policy := d.Cluster.LoadUnread(p); policy != nil && !some {
		return Blocker{
			Reason: EvidenceUnavailable, Pod: p.Key(), Node: p.Node, Dead: true,
			Message: fmt.Sprintf("policy %s governs it, and whether what it carries has to leave (leaves: Load) is not known: a selector in the policy cannot be used", policy.Name),
			Remedy:  fmt.Sprintf("correct it: kubectl edit evictionpolicy -n %s %s, or leave the pod out (--pod-selector)", policy.Namespace, policy.Name),
		}
	}
	return Blocker{
		Reason: EvidenceUnavailable, Pod: p.Key(), Node: p.Node, Dead: gap.Final,
		Message: fmt.Sprintf("policy %s governs it, and whether what it carries has to leave (leaves: Load) is not known: %s", p.Policy(), gap.Reason),
		Remedy:  "ask for the right to list and watch evictionpolicies of usher.sh in namespace " + p.Namespace + ", or leave the pod out (--pod-selector)",
	}
}

// keepsEmpty reports whether pods stay on the node that this drain has had emptied.
func (t *target) keepsEmpty() bool {
	return slices.ContainsFunc(t.staying, func(s PodStatus) bool { return s.State == Emptied })
}
