package drain_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
)

// TestWhatCountsAsMoving: a later wave waits for five minutes after a pod of the node has moved. Clients that may write in a
// namespace do not prolong that without end by what they do to requests, and to pods that they start on the node.
func TestWhatCountsAsMoving(t *testing.T) {
	const last = 301 // the pod of the early wave is asked for at once
	cases := map[string]struct {
		then func(second int, now time.Time) fact
		want int // seconds
	}{
		"nothing": {func(int, time.Time) fact { return all() }, last},
		"a request is deleted each time": {func(second int, _ time.Time) fact {
			switch second % 60 {
			case 3:
				return askedBy(me, "early")
			case 59:
				return notAskedBy(me, "early")
			}
			return all()
		}, last},
		"pods are started on the node, and go": {func(second int, now time.Time) fact {
			name := "new-" + strconv.Itoa(second/240)
			switch second % 240 {
			case 100:
				return pod(name, on("a"), createdAt(now))
			case 110:
				return gone(name)
			}
			return all()
		}, last},
		"a pod that was there goes": {func(second int, _ time.Time) fact {
			if second == 240 {
				return gone("slow")
			}
			return all()
		}, 240 + 300},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a"), pod("early", on("a"), governed), pod("slow", on("a"), endsAt(start.Add(time.Hour))), pod("later", on("a"), priority(10)))
			s.expect("cordon a draining")
			s.answer(answers.Accepted)
			for second := 1; second <= 900; second++ {
				s.then(time.Second)
				s.then(0, node("a", drainedBy(me, s.now), version(strconv.Itoa(second+1))), c.then(second, s.now))
				if s.decide(); slices.Contains(deeds(s.last), "evict later") {
					same(t, "the later wave's turn, in seconds", c.want, second)
					return
				}
				s.answer(answers.Accepted)
			}
			t.Errorf("the later wave waits without end%s", s.where())
		})
	}
}
