package show

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/drain"
)

// group is pods that have the same to say: one of them, or many in one line.
type group struct {
	pods  []drain.PodStatus
	rank  int
	cause string
}

// The ranks of groups: what needs a person first, what is over last.
const (
	rankStuck = iota
	rankMoving
	rankWaiting
	rankUnreplaced
	rankGone
	rankStaying
)

func podLines(p Picture, width, height int, paint Paint) []string {
	if height <= 0 {
		return nil
	}
	groups := gather(p.Decision.Pods, p.Now)
	rows := 1
	if width < 70 {
		rows = 2
	}
	name := nameWidth(groups, width)
	var lines []string
	for _, g := range spread(groups, height/rows) {
		lines = append(lines, groupLines(g, name, width, p.Now, paint)...)
	}
	if len(lines) > height {
		lines = append(lines[:height-1], paint.dim("… more than fits"))
	}
	return lines
}

// gather puts pods of the same rank and cause together, keeping their order.
func gather(pods []drain.PodStatus, now time.Time) []group {
	type key struct {
		rank  int
		cause string
	}
	var groups []group
	at := map[key]int{}
	for _, p := range pods {
		k := key{rankOf(p), cause(p, now)}
		if k.rank >= rankUnreplaced {
			k.cause = ""
		}
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, group{rank: k.rank, cause: k.cause})
		}
		groups[i].pods = append(groups[i].pods, p)
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(a.rank, b.rank) })
	return groups
}

func rankOf(p drain.PodStatus) int {
	switch p.State {
	case drain.Staying:
		return rankStaying
	case drain.Replaced:
		return rankGone
	case drain.GoneState:
		return rankUnreplaced
	case drain.Waiting, drain.Surging, drain.Evicting, drain.Terminating:
	}
	for _, b := range p.Blockers {
		if b.Dead {
			return rankStuck
		}
	}
	if p.State == drain.Waiting {
		return rankWaiting
	}
	return rankMoving
}

// cause says in a few words what a pod waits for.
func cause(p drain.PodStatus, now time.Time) string {
	if b, ok := worst(p.Blockers); ok {
		text := clean(b.Message)
		if more := len(p.Blockers) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		return text
	}
	if p.State == drain.Terminating && p.Pod.Deletion.After(now) {
		return "shutting down, grace ends in " + Span(p.Pod.Deletion.Sub(now))
	}
	return clean(p.Note)
}

func worst(blockers []drain.Blocker) (drain.Blocker, bool) {
	for _, b := range blockers {
		if b.Dead {
			return b, true
		}
	}
	if len(blockers) == 0 {
		return drain.Blocker{}, false
	}
	return blockers[0], true
}

// spread opens groups into single pods while the lines last: stuck pods first, then
// moving ones. What is over stays a number.
func spread(groups []group, room int) []group {
	room -= len(groups)
	var out []group
	for _, g := range groups {
		extra := len(g.pods) - 1
		if g.rank > rankWaiting || extra > room || (g.rank == rankWaiting && extra > 2) {
			out = append(out, g)
			continue
		}
		room -= extra
		for _, p := range g.pods {
			out = append(out, group{pods: []drain.PodStatus{p}, rank: g.rank, cause: g.cause})
		}
	}
	return out
}

func nameWidth(groups []group, width int) int {
	longest := 0
	for _, g := range groups {
		if g.rank <= rankWaiting {
			for _, p := range g.pods {
				longest = max(longest, len(p.Pod.Key().String()))
			}
			if len(g.pods) > 1 {
				longest = max(longest, len(crowd(g.pods)))
			}
		}
	}
	if width < 70 {
		return min(longest, width-14)
	}
	return min(longest, width*2/5)
}

func groupLines(g group, name, width int, now time.Time, paint Paint) []string {
	if g.rank >= rankUnreplaced {
		return []string{paint.dim("  " + tailWords(g))}
	}
	mark, state := "●", string(g.pods[0].State)
	who := g.pods[0].Pod.Key().String()
	if len(g.pods) > 1 {
		who = crowd(g.pods)
		state = commonState(g.pods)
	}
	if g.rank == rankStuck {
		mark, state = "✗", "stuck"
	}
	colour := rankPaint(g.rank, paint)
	head := colour(mark) + " " + pad(who, name) + " " + colour(pad(state, len("terminating")))
	why := g.cause
	if b, ok := worst(g.pods[0].Blockers); ok && !b.Since.IsZero() && now.Sub(b.Since) >= 10*time.Second {
		why = Span(now.Sub(b.Since)) + ": " + why
	}
	if width >= 70 {
		return []string{head + " " + why}
	}
	if why == "" {
		return []string{head}
	}
	return []string{head, "    " + why}
}

func rankPaint(rank int, paint Paint) func(string) string {
	switch rank {
	case rankStuck:
		return paint.bad
	case rankMoving:
		return paint.move
	}
	return paint.wait
}

// crowd names many pods in one line: how many, and where if that is one place.
func crowd(pods []drain.PodStatus) string {
	for _, p := range pods {
		if p.Pod.Namespace != pods[0].Pod.Namespace {
			return Count(len(pods), "pod")
		}
	}
	return fmt.Sprintf("%s in %s", Count(len(pods), "pod"), pods[0].Pod.Namespace)
}

func commonState(pods []drain.PodStatus) string {
	for _, p := range pods {
		if p.State != pods[0].State {
			return "moving"
		}
	}
	return string(pods[0].State)
}

func tailWords(g group) string {
	n := Count(len(g.pods), "pod")
	switch g.rank {
	case rankUnreplaced:
		words := n + " gone, not replaced yet"
		if len(g.pods) == 1 {
			words = g.pods[0].Pod.Key().String() + " gone, not replaced yet"
		}
		return words + ": " + replacementWords(g.pods[0])
	case rankGone:
		return n + " gone"
	}
	return n + " not touched"
}
