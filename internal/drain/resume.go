package drain

import (
	"time"

	"usher.sh/usher/internal/snapshot"
)

// Resume enters what an earlier process of the same drain has on record, before the first decision: which targets it had claimed, and
// since when. Pods that were created before are those that were on the node. What an earlier run in this process has written is known.
func (l *Ledger) Resume(view snapshot.View, req Request) {
	l.self = req.Self
	l.goOnFrom(l.charges, view.Now)
	for _, name := range req.Nodes {
		n := view.Cluster.Node(name)
		if n == nil || n.Drain == nil || n.Drain.ID != req.Self.ID {
			continue
		}
		l.nodes[name], l.records[name] = n.UID, n.Drain
		since := snapshot.Believed(n.Drain.Since, view.Now).Truncate(time.Second)
		for _, p := range view.Cluster.PodsOn(name) {
			if p.Created.Before(since) {
				l.residents[p.UID] = true
			}
		}
	}
}
