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
	pods []drain.PodStatus
	rank int
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

// podLines shows single pods while the lines last, and groups beyond that. What holds a
// pod is broken into as many lines as there is room for, what needs a person first: the
// end of such a sentence says what it waits for.
func podLines(p Picture, width, height int, paint Paint) []string {
	if height <= 0 {
		return nil
	}
	rows := 1
	if width < narrow {
		rows = 2
	}
	groups := gather(p.Decision.Pods, byCause)
	for _, coarser := range []grouping{byReason, byRank} {
		if lineCount(groups, rows) > height {
			groups = gather(p.Decision.Pods, coarser)
		}
	}
	widest := nameWidth(groups, width)
	shown := spread(groups, height, func(g group) int { return len(groupPassage(g, widest, width, p.Now, paint).lines) })
	name := nameWidth(shown, width)
	passages := make([]passage, 0, len(shown))
	for _, g := range shown {
		passages = append(passages, groupPassage(g, name, width, p.Now, paint))
	}
	return stack(passages, height)
}

// narrow is the width below which a pod takes two lines.
const narrow = 70

func lineCount(groups []group, rows int) int {
	n := 0
	for _, g := range groups {
		if g.rank >= rankUnreplaced {
			n++
		} else {
			n += rows
		}
	}
	return n
}

// grouping is how much pods must have in common to share a line.
type grouping int

const (
	byCause  grouping = iota // they wait for the same thing
	byReason                 // … for the same kind of thing
	byRank                   // they are as much in need of attention
)

type groupKey struct {
	rank  int
	state drain.PodState
	words string
}

func (by grouping) key(p drain.PodStatus) groupKey {
	k := groupKey{rank: rankOf(p)}
	if k.rank >= rankUnreplaced || by == byRank {
		return k
	}
	k.state = p.State
	b, held := worst(p.Blockers)
	switch {
	case held && by == byCause && p.State != drain.Terminating:
		k.words = clean(b.Message)
	case held:
		k.words = string(b.Reason)
	}
	return k
}

// gather puts pods together that share a line, keeping their order within a rank.
func gather(pods []drain.PodStatus, by grouping) []group {
	var groups []group
	at := map[groupKey]int{}
	for _, p := range pods {
		k := by.key(p)
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, group{rank: k.rank})
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
	case drain.Replaced, drain.Ended, drain.Emptied:
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

// why says what a group waits for: the last of those that shut down, else the words
// of the first pod.
func (g group) why(now time.Time) string {
	first := g.pods[0]
	slowest := slices.MaxFunc(g.pods, func(a, b drain.PodStatus) int { return a.Pod.Deletion.Compare(b.Pod.Deletion) })
	if slowest.State == drain.Terminating {
		return cause(slowest, now)
	}
	words := cause(first, now)
	if b, held := worst(first.Blockers); held && !b.Since.IsZero() && now.Sub(b.Since) >= 10*time.Second {
		words = Span(now.Sub(b.Since)) + ": " + words
	}
	for _, p := range g.pods {
		if byCause.key(p) != byCause.key(first) {
			return words + ", and other reasons"
		}
	}
	return words
}

// cause says in a few words what a pod waits for.
func cause(p drain.PodStatus, now time.Time) string {
	if ends := p.Pod.Deletion; p.State == drain.Terminating && ends.After(now) {
		return "shutting down, grace ends in " + Span(ends.Sub(now))
	}
	if b, ok := worst(p.Blockers); ok {
		text := clean(b.Message)
		if more := len(p.Blockers) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		return text
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

// spread opens groups into single pods while the height lasts for all that is to be said
// of them: stuck pods first, then moving ones. What is over stays a number.
func spread(groups []group, height int, size func(group) int) []group {
	for _, g := range groups {
		height -= size(g)
	}
	var out []group
	for _, g := range groups {
		extra := len(g.pods) - 1
		if g.rank > rankWaiting || extra > height || (g.rank == rankWaiting && extra > 2) {
			out = append(out, g)
			continue
		}
		opened, more := make([]group, 0, len(g.pods)), -size(g)
		for _, p := range g.pods {
			single := group{pods: []drain.PodStatus{p}, rank: g.rank}
			opened, more = append(opened, single), more+size(single)
		}
		if more > height {
			out = append(out, g)
			continue
		}
		height -= more
		out = append(out, opened...)
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
	if width < narrow {
		return min(longest, width-14)
	}
	return min(longest, width*2/5)
}

// groupPassage is everything that is to be said of a group. It can be cut to one line, on a
// narrow terminal to two.
func groupPassage(g group, name, width int, now time.Time, paint Paint) passage {
	if g.rank >= rankUnreplaced {
		lines := flow("  ", tailWords(g), margin, width)
		for i := range lines {
			lines[i] = paint.dim(lines[i])
		}
		return passage{lines: lines, least: 1}
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
	b := passage{least: 1}
	switch why := g.why(now); {
	case why == "":
		b.lines = []string{head}
	case width >= narrow:
		b.lines = flow(head+" ", why, margin, width)
	default:
		b.lines = append([]string{head}, flow(margin, why, margin, width)...)
		b.least = 2
	}
	if way := remedy(g); way != "" {
		for _, line := range flow(margin, "remedy: "+way, margin, width) {
			b.lines = append(b.lines, paint.dim(line))
		}
	}
	return b
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

// remedy is what a person has to do for a stuck group.
func remedy(g group) string {
	if b, ok := worst(g.pods[0].Blockers); ok && g.rank == rankStuck {
		return clean(b.Remedy)
	}
	return ""
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
