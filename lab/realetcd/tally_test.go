package realetcd

import (
	"testing"
	"time"
)

func TestWhoLeads(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	ids := map[uint64]int{10: 0, 11: 1, 12: 2}
	s := &sampler{first: make(chan struct{})}
	if _, known := s.leader(at(99)); known {
		t.Error("a member leads before any was asked")
	}
	for _, answer := range []struct {
		at, from int
		vote     vote
	}{
		{1, 0, vote{10, 2}}, {2, 1, vote{10, 2}}, // a quorum
		{3, 1, vote{11, 3}}, {4, 2, vote{11, 3}}, // moved
		{5, 0, vote{10, 2}},                    // a member that does not know yet
		{6, 0, vote{0, 3}}, {7, 1, vote{0, 3}}, // no member leads: the last one stays
		{8, 2, vote{12, 4}}, {9, 0, vote{12, 4}}, // moved again
		{10, 1, vote{11, 3}}, {11, 2, vote{11, 3}}, // answers that were under way
		{12, 1, vote{}}, {13, 2, vote{}}, {14, 0, vote{}}, // no answers
	} {
		s.count(answer.from, answer.vote, ids, at(answer.at))
	}
	for second, want := range map[int]int{2: 0, 3: 0, 4: 1, 7: 1, 8: 1, 9: 2, 99: 2} {
		if got, known := s.leader(at(second)); !known || got != want {
			t.Errorf("leader at second %d: got %d (%t), want %d", second, got, known, want)
		}
	}
}
