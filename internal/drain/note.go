package drain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// Note remembers since when each blocker stands and forgets those that went.
func (l *Ledger) Note(d *Decision, now time.Time) {
	fresh := make(map[sinceKey]time.Time, len(l.since))
	remember := func(blockers []Blocker) {
		for i := range blockers {
			b := &blockers[i]
			key := sinceKey{b.Pod, b.Node, b.Reason}
			if before, ok := l.since[key]; ok && (b.Since.IsZero() || before.Before(b.Since)) {
				b.Since = before
			}
			if b.Since.IsZero() {
				b.Since = now
			}
			fresh[key] = b.Since
		}
	}
	for i := range d.Pods {
		remember(d.Pods[i].Blockers)
		l.noteRefused(&d.Pods[i], now)
	}
	for i := range d.Nodes {
		remember(d.Nodes[i].Blockers)
	}
	l.NoteNodes(d, now)
	l.since = fresh
	l.present = present(d)
	l.successors = d.Successors
	if l.ending == Running {
		l.keepVerdict(d)
	}
}

// NoteNodes remembers when the turn of each node came, and which workloads have a surplus. It is the part of Note that forecasts need.
func (l *Ledger) NoteNodes(d *Decision, now time.Time) {
	l.surplus = d.Surplus
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.State != NodePending && l.moved[n.Name].IsZero() {
			l.moved[n.Name] = now
		}
	}
}

// present returns the pods that were still to leave in a decision. Those of a node that
// another drain works on leave by that one.
func present(d *Decision) map[types.UID]*snapshot.Pod {
	others := map[string]bool{}
	for i := range d.Nodes {
		others[d.Nodes[i].Name] = ofAnotherDrain(d.Nodes[i].Blockers)
	}
	pods := map[types.UID]*snapshot.Pod{}
	for i := range d.Pods {
		s := &d.Pods[i]
		if others[s.Pod.Node] {
			continue
		}
		switch s.State {
		case Waiting, Surging, Evicting, Terminating:
			pods[s.Pod.UID] = s.Pod
		case Staying, Emptied, GoneState, Replaced, Ended:
		}
	}
	return pods
}
