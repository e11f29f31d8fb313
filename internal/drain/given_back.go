package drain

import "usher.sh/usher/internal/snapshot"

// givenBack is a target whose cordon, or this drain's record on it, was taken away after both were seen. It stays so for as long
// as the drain goes on, whatever is written on the node later: pods were started there that are no affair of the drain.
type givenBack struct {
	said *snapshot.DrainRecord // this drain's record, as last seen
	how  string                // the beginning of a sentence
}

// How a node is given back.
const (
	wasOpened   = "the node was made schedulable"
	wasReleased = "this drain's record was taken off the node"
	wasTaken    = "the node was made schedulable, and cordoned anew by another drain,"
)

// observeBack notes that a target is given back. What another drain has written on it meanwhile tells that too: it keeps the time
// of a cordon that it finds.
func (l *Ledger) observeBack(n *snapshot.Node) {
	said, how := l.records[n.Name], ""
	switch r := n.Drain; {
	case r == nil && n.DrainError == "":
		how = wasReleased
	case !n.Unschedulable:
		how = wasOpened
	case r != nil && r.ID != said.ID && r.Cordoned && said.Cordoned && !r.CordonedSince().Equal(said.CordonedSince()):
		how = wasTaken
	default:
		return
	}
	l.back[n.Name] = &givenBack{said, how}
}
