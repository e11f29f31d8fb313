package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/drain"
)

// block is blockers that read the same, of one or many pods.
type block struct {
	drain.Blocker
	who []string
}

// BlockerLines prints every blocker: what it holds, why, since when, and the remedy.
// Blockers that differ in nothing but the pod share their words. Width 0: no limit; on
// a terminal, pods that only have to wait are not all named.
func BlockerLines(blockers []drain.Blocker, now time.Time, width int, paint Paint) []string {
	var lines []string
	for _, b := range merge(blockers) {
		head := paint.wait("waits") + "  "
		if b.Dead {
			head = paint.bad("stuck") + "  "
		}
		who := indented(b.names(width), "       ", width)
		who[0] = head + strings.TrimLeft(who[0], " ")
		lines = append(lines, who...)
		lines = append(lines, indented(sentence(b.Blocker, now), "       ", width)...)
		if b.Remedy != "" && b.Remedy != "wait" {
			lines = append(lines, indented("remedy: "+clean(b.Remedy), "       ", width)...)
		}
	}
	return lines
}

// unrepeated are blockers as they are shown once: nothing looks at them again.
func unrepeated(blockers []drain.Blocker) []drain.Blocker {
	blockers = slices.Clone(blockers)
	for i := range blockers {
		blockers[i].Retry = time.Time{}
	}
	return blockers
}

// mostWaiting bounds how many pods are named that need no help.
const mostWaiting = 8

func (b *block) names(width int) string {
	if extra := len(b.who) - mostWaiting; width > 0 && !b.Dead && extra > 1 {
		return text.List(b.who, mostWaiting)
	}
	return strings.Join(b.who, ", ")
}

func merge(blockers []drain.Blocker) []*block {
	var order []*block
	seen := map[string]*block{}
	for _, b := range blockers {
		key := strings.Join([]string{string(b.Reason), b.Message, b.Remedy}, "\x00")
		at, ok := seen[key]
		if !ok {
			at = &block{Blocker: b}
			seen[key] = at
			order = append(order, at)
		}
		if name := subject(b); !slices.Contains(at.who, name) {
			at.who = append(at.who, name)
		}
		if !b.Since.IsZero() && (at.Since.IsZero() || b.Since.Before(at.Since)) {
			at.Since = b.Since
		}
	}
	slices.SortStableFunc(order, func(x, y *block) int { return btoi(y.Dead) - btoi(x.Dead) })
	return order
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// subject names what a blocker holds: a pod, or a node.
func subject(b drain.Blocker) string {
	if b.Pod.Name != "" {
		return b.Pod.String()
	}
	return "node " + b.Node
}

func sentence(b drain.Blocker, now time.Time) string {
	text := fmt.Sprintf("%s: %s", b.Reason, clean(b.Message))
	var times []string
	if !b.Since.IsZero() && now.Sub(b.Since) >= time.Second {
		times = append(times, "for "+Span(now.Sub(b.Since)))
	}
	if b.Retry.After(now) && b.Reason != drain.Leaving {
		times = append(times, "looked at again in "+Span(b.Retry.Sub(now)))
	}
	if len(times) > 0 {
		text += " (" + strings.Join(times, ", ") + ")"
	}
	return text
}
