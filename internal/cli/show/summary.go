package show

import (
	"fmt"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Summary is the state in which a drain left the cluster, as it was last observed.
type Summary struct {
	Outcome     drain.Outcome
	Took        time.Duration
	Now         time.Time
	Nodes       []NodeEnd
	Gone        int // pods seen gone, replaced or not
	NotReplaced []drain.PodStatus
	Ended       []drain.PodStatus // gone, and no replacement is due
	Left        []drain.PodStatus
	Staying     int
	Emptied     int      // pods that stay, and of which all that they carry has left
	Surged      []string // what still carries a surge of this drain
	Blockers    []drain.Blocker
	GoOn        string // the command that goes on with the drain
	Commands    Commands
	Stale       string // why this may not be how things are by now; "" where it is
}

// NodeEnd is how one node was left.
type NodeEnd struct {
	Name   string
	State  drain.NodeState
	Left   int
	Cordon string // words; "" where pods may be scheduled on it
	Ours   bool   // a drain of Usher set the cordon
	Free   bool   // usher uncordon takes it away: no other drain works on the node, and no NodeMaintenance has it
}

// Summarize reads the end of a drain off its last decision and the last view.
func Summarize(d drain.Decision, view snapshot.View, req drain.Request, goOn string) Summary {
	s := Summary{Outcome: d.Outcome, Now: view.Now, Took: view.Now.Sub(req.Started), Blockers: d.Blockers(), GoOn: goOn}
	for _, n := range d.Nodes {
		s.Nodes = append(s.Nodes, nodeEnd(n, view, req))
	}
	for _, p := range d.Pods {
		switch p.State {
		case drain.Staying:
			s.Staying++
		case drain.Emptied:
			s.Emptied++
		case drain.Replaced:
			s.Gone++
		case drain.Ended:
			s.Gone++
			s.Ended = append(s.Ended, p)
		case drain.GoneState:
			s.Gone++
			s.NotReplaced = append(s.NotReplaced, p)
		default:
			s.Left = append(s.Left, p)
		}
	}
	s.Surged = surgedBy(view.Cluster, req.Self.ID)
	return s
}

func nodeEnd(n drain.NodeStatus, view snapshot.View, req drain.Request) NodeEnd {
	end := NodeEnd{Name: n.Name, State: n.State, Left: n.Left}
	now := view.Cluster.Node(n.Name)
	if now == nil || !now.Unschedulable {
		return end
	}
	end.Cordon, end.Ours = Cordon(now)
	if end.Ours && !now.Drain.OfMaintenance() {
		release, _ := drain.Release(view, now, req.Dead)
		end.Free = release.Kind == drain.Uncordon || now.Drain.ID == req.Self.ID // a drain that has ended holds nothing back
	}
	return end
}

// Cordon says which client cordoned a node, and whether it was Usher.
func Cordon(n *snapshot.Node) (words string, ours bool) {
	switch {
	case n.Drain == nil || !n.Drain.Cordoned:
		return "cordoned before by another client", false
	case !n.UsherCordon():
		return "cordoned since by " + clean(n.CordonedBy), false
	}
	words = fmt.Sprintf("cordoned by usher for %s since %s", clean(n.Drain.By), stamp(n.Drain.CordonedSince()))
	if n.Drain.Why != "" {
		words += fmt.Sprintf(" (%s)", clean(n.Drain.Why))
	}
	return words, true
}

func surgedBy(c *snapshot.Cluster, id string) []string {
	var names []string
	for _, w := range c.Surged() {
		if w.Surge != nil && w.Surge.ID == id {
			names = append(names, fmt.Sprintf("%s %s (%d replicas before)", w.Kind, w.Key(), w.Surge.Was))
		}
	}
	for _, a := range c.SurgedAutoscalers() {
		if a.Surge != nil && a.Surge.ID == id {
			names = append(names, fmt.Sprintf("HorizontalPodAutoscaler %s (minReplicas %d before)", a.Key(), a.Surge.Was))
		}
	}
	return names
}
