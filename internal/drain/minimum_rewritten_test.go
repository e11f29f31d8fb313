package drain_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// A surge whose autoscaler's minimum is written back each time, changed all the time, or not accepted, does not clear by itself.
func TestRewrittenMinimumIsStuck(t *testing.T) {
	for _, code := range []answers.Code{answers.Accepted, answers.Conflict, answers.Unavailable} {
		t.Run(string(code), func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 1),
				budget("web", 2, 1, 1, maxUnavailable("0")), autoscaler("web", 2, 5, raisedBy(me, 1), fromBase(1)))
			n := 0
			for turn := range 3600 {
				s.then(time.Second, node("a", drainedBy(me, s.now.Add(time.Second))), autoscaler("web", 2, 5, raisedBy(me, 1), fromBase(1), scalerVersion(strconv.Itoa(turn))))
				s.decide()
				if slices.Contains(deeds(s.last), "mark a blocked") {
					return
				}
				for _, a := range s.open {
					if a.Kind == drain.ScaleMin {
						n++
						s.led.Answer(a, answers.Answer{Code: code, Message: "no"}, s.now)
						continue
					}
					s.led.Answer(a, answers.Answer{Code: answers.Accepted}, s.now)
				}
				s.open = nil
			}
			t.Errorf("goes on after an hour, %d writes of the minimum%s", n, s.where())
		})
	}
}

// It holds a maintenance no longer than its budgets may.
func TestRewrittenMinimumEndsAHold(t *testing.T) {
	s := maintained(t, time.Minute, node("b"), deployment("web", 2, surgedBy(theirs, 1, start)), pods("web", "a", 1, marked(theirs)), pods("web", "b", 1),
		budget("web", 2, 1, 1, maxUnavailable("0")), autoscaler("web", 2, 5, raisedBy(theirs, 1), fromBase(1)))
	for range 3600 {
		s.decide()
		for _, a := range s.last.Actions {
			if a.Kind == drain.Evict || a.Kind == drain.Delete {
				return
			}
		}
		s.answer(answers.Accepted)
		s.beat(time.Second)
		s.then(0, autoscaler("web", 2, 5, raisedBy(theirs, 1), fromBase(1), scalerVersion(s.now.String())))
	}
	t.Errorf("after an hour with a maxHold of a minute:%s", s.where())
}
