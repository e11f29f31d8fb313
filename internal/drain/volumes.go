package drain

import (
	"fmt"

	"usher.sh/usher/internal/snapshot"
)

// awaitVolumes calls a node without pods drained once the volumes of the pods that
// left are detached: until then their replacements cannot start elsewhere.
func (d *decider) awaitVolumes(t *target, staying []*snapshot.Pod) {
	t.status.State = NodeDraining
	inUse := d.volumesOf(staying)
	for _, a := range d.Cluster.AttachmentsOn(t.status.Name) {
		if inUse[a.Volume] {
			continue
		}
		d.blockNode(t, Blocker{
			Reason:  VolumeAttached,
			Message: fmt.Sprintf("volume %s is still attached to the node", a.Volume),
			WayOut:  "wait for the attach-detach controller; kubectl describe volumeattachment " + a.Name,
		})
	}
	if len(t.status.Blockers) == 0 {
		t.status.State = NodeDrained
	}
	d.mark(t, string(t.status.State))
}

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

// mark writes the node's state into the drain's record on it.
func (d *decider) mark(t *target, state string) {
	if t.node == nil || !d.own(t.node) || t.node.Drain.State == state {
		return
	}
	record := *t.node.Drain
	record.State, record.Beat = state, d.Now
	if d.try(Action{Kind: Mark, Node: t.node, Record: &record, Why: "the node is " + state}) {
		d.pending = true
	}
}
