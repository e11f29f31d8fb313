package drain

import (
	"cmp"
	"fmt"
	"slices"

	"usher.sh/usher/internal/snapshot"
)

// awaitVolumes calls a node without pods drained once the volumes of the pods that
// left are detached: until then their replacements cannot start elsewhere.
func (d *decider) awaitVolumes(t *target) {
	t.status.State = NodeDraining
	staying := make([]*snapshot.Pod, 0, len(t.staying))
	for i := range t.staying {
		staying = append(staying, t.staying[i].Pod)
	}
	if unseen := d.volumesUnseen(t, staying); unseen != nil {
		d.blockNode(t, *unseen)
		d.mark(t, string(t.status.State))
		return
	}
	inUse := d.volumesOf(staying)
	for _, a := range d.Cluster.AttachmentsOn(t.status.Name) {
		if inUse[a.Volume] || (a.Volume == "" && len(staying) > 0) {
			continue // a volume written in a pod's spec has no name that shows whose it is
		}
		d.blockNode(t, Blocker{
			Reason:  VolumeAttached,
			Message: fmt.Sprintf("%s is still attached to the node", cmp.Or(a.Volume, a.Name)),
			Remedy:  "wait for the attach-detach controller; kubectl describe volumeattachment " + a.Name,
		})
	}
	if len(t.status.Blockers) == 0 {
		t.status.State = NodeDrained
	}
	d.mark(t, string(t.status.State))
}

// volumesUnseen says what could not be read that shows whether volumes are detached;
// nil where everything could, or no volume is concerned. What was not seen to go is
// not called gone (law 1).
func (d *decider) volumesUnseen(t *target, staying []*snapshot.Pod) *Blocker {
	node, resource := t.status.Name, "volumeattachments"
	gap, unread := d.Cluster.Gap(resource)
	concerned := unread && d.volumesLeft(node) // this looks at every departure: only where it matters
	if !unread {
		resource = "persistentvolumeclaims"
		gap, unread = d.Cluster.Gap(resource)
		concerned = unread && len(d.Cluster.AttachmentsOn(node)) > 0 && slices.ContainsFunc(staying, hasClaims)
	}
	if !concerned {
		return nil
	}
	return &Blocker{
		Reason:  EvidenceUnavailable,
		Message: "its pods are gone, but it cannot be seen whether their volumes are detached: " + gap.Reason,
		Remedy:  "ask for the right to list and watch " + resource,
		Dead:    gap.Final,
	}
}

// volumesLeft reports whether a pod with volumes has left the node in this drain.
func (d *decider) volumesLeft(node string) bool {
	for _, dep := range d.led.departures {
		if dep.pod.Node == node && hasClaims(dep.pod) {
			return true
		}
	}
	return false
}

func hasClaims(p *snapshot.Pod) bool { return len(p.Claims) > 0 }

func (d *decider) volumesOf(pods []*snapshot.Pod) map[string]bool {
	volumes := map[string]bool{}
	for _, p := range pods {
		for _, name := range p.Claims {
			if c := d.Cluster.Claim(snapshot.Key{Namespace: p.Namespace, Name: name}); c != nil && c.Volume != "" {
				volumes[c.Volume] = true
			}
		}
	}
	return volumes
}

// mark writes the node's state into the drain's record on it. A maintenance's drain is over by a record that says drained, so that this
// is written once nothing is left to undo: the next leader would not.
func (d *decider) mark(t *target, state string) {
	if t.node == nil || !d.own(t.node) || t.node.Drain.State == state {
		return
	}
	if state == string(NodeDrained) && d.req.Self.OfMaintenance() && (d.undoing || d.surgeUnseen()) {
		d.pending = true
		return
	}
	record := *t.node.Drain
	record.State, record.Beat = state, d.Now
	if d.try(Action{Kind: Mark, Node: t.node, Record: &record, Lapsed: d.lapsed(t.node), Why: "the node is " + state, Note: d.leftOn(t)}) {
		d.pending = true
	}
}

// surgeUnseen reports whether something of a surge was, or may have been, written and is not seen yet.
func (d *decider) surgeUnseen() bool {
	for key, t := range d.led.tries {
		switch key.kind {
		case Scale, ScaleMin, LowerCost:
			if d.comes(t) {
				return true
			}
		case Cordon, Mark, Uncordon, Unmark, Evict, Delete, RestoreCost, Ask, Withdraw, RenewLease, DeleteLease:
		}
	}
	return false
}
