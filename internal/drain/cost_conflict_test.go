package drain_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
)

// A pod that changes all the time keeps its deletion cost, and leaves by an eviction.
func TestDeletionCostOfAPodThatChangesAllTheTime(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 1), pods("web", "a", 1))
	for second := 1; second <= 300; second++ {
		s.then(time.Second)
		v := strconv.Itoa(second + 1)
		s.then(0, node("a", drainedBy(me, s.now), version(v)), podVersion("web-a1", v))
		if s.decide(); slices.Contains(deeds(s.last), "evict web-a1") {
			return
		}
		s.answer(answers.Conflict)
	}
	t.Errorf("it waits without end%s", s.where())
}
