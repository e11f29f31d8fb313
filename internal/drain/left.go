package drain

import (
	"fmt"
	"slices"

	"usher.sh/usher/internal/text"
)

// leftOn says in one sentence what is left on a node and what holds it, "" where nothing
// is or where words are not asked for.
func (d *decider) leftOn(t *target) string {
	var names []string
	for i := range d.out.Pods {
		s := &d.out.Pods[i]
		if s.Pod.Node != t.status.Name {
			continue
		}
		switch s.State {
		case Waiting, Surging, Evicting, Terminating:
			names = append(names, s.Pod.Key().String()+heldWords(s))
		case Staying, Emptied, GoneState, Replaced, Ended:
		}
	}
	switch {
	case len(names) > 0:
		return fmt.Sprintf("%s left: %s", text.Count(len(names), "pod"), listed(names))
	case d.verbose && len(t.status.Blockers) > 0:
		return t.status.Blockers[0].Message
	}
	return ""
}

// heldWords is the reason of the worst of what holds a pod, "" where nothing is known to.
func heldWords(s *PodStatus) string {
	if len(s.Blockers) == 0 {
		return ""
	}
	worst := max(0, slices.IndexFunc(s.Blockers, func(b Blocker) bool { return b.Dead }))
	return fmt.Sprintf(" (%s)", s.Blockers[worst].Reason)
}
