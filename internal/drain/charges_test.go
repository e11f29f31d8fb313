package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// together is a second drain of the same process over the same cluster.
func (s *story) together(charges *drain.Charges, id string, nodes ...string) *story {
	other := *s
	other.req, other.led, other.open = ask(nodes...), drain.NewLedger(), nil
	other.req.Self.ID = id
	charges.Join(other.led)
	return &other
}

func TestDrainsOfOneProcessShareBudgets(t *testing.T) {
	cases := map[string]struct {
		answer answers.Code // "" for none yet
		parts  bool         // the first drain ends before the second decides
		after  time.Duration
		want   []string
	}{
		"no answer yet":            {"", false, 0, nil},
		"accepted":                 {answers.Accepted, false, 0, nil},
		"refused":                  {answers.Denied, false, 0, []string{"evict web-b1"}},
		"it was left before":       {"", true, 0, nil},
		"… and that was long ago":  {"", true, 3 * time.Minute, []string{"evict web-b1"}},
		"it has ended since":       {answers.Accepted, true, 0, nil},
		"it was refused and ended": {answers.Denied, true, 0, []string{"evict web-b1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			charges := &drain.Charges{}
			first := tell(t, ask("a"), node("a", ours), deployment("web", 4), pods("web", "a", 1), pods("web", "b", 1), pods("web", "c", 2),
				budget("web", 4, 3, 4, maxUnavailable("1")))
			charges.Join(first.led)
			second := first.together(charges, "d2", "b")
			first.expect("evict web-a1")
			if c.answer != "" {
				first.answer(c.answer)
			}
			if c.parts {
				charges.Part(first.led, first.now)
			}
			second.then(c.after, node("b", drainedBy("d2", start.Add(c.after))))
			second.expect(c.want...)
			if c.want == nil {
				same(t, "message", "budget web is used up by 1 eviction of drains of this process", second.status("web-b1").Blockers[0].Message)
			}
		})
	}
}

// A deletion past a budget near the deadline of one drain takes a healthy pod from it: what it takes is no room for another drain, before it is carried out
// and before the budget's status shows it. One of a pod that is not ready takes none.
func TestDeletionAtADeadlineUsesTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		ready  bool
		answer answers.Code // "" for none yet
		want   []string
	}{
		"no answer yet":            {true, "", nil},
		"accepted":                 {true, answers.Accepted, nil},
		"refused":                  {true, answers.Denied, []string{"evict web-b1"}},
		"of a pod that is unready": {false, answers.Accepted, []string{"evict web-b1"}},
	} {
		t.Run(name, func(t *testing.T) {
			beat, leaves, others := start.Add(100*time.Second), unready, 2
			if c.ready {
				leaves, others = ready, 1
			}
			charges, req := &drain.Charges{}, deleting(spot("a"))
			req.Surge = drain.SurgeNever
			s := tell(t, req, node("a", drainedBy(me, beat)), node("b", drainedBy("d2", beat)), deployment("web", 4), pods("web", "a", 1, leaves), pods("web", "b", 1),
				pods("web", "c", others, unready), pods("web", "d", 1), budget("web", int32(4-others), 3, 4, minAvailable("3"))) //nolint:gosec // at most 2
			charges.Join(s.led)
			second := s.together(charges, "d2", "b")
			s.then(100 * time.Second)
			s.expect("delete web-a1 in 10s")
			if c.answer != "" {
				s.answer(c.answer)
			}
			second.then(101*time.Second, pods("web", "c", others), budget("web", 4, 3, 4, minAvailable("3"), budgetVersion("2")))
			second.expect(c.want...)
		})
	}
}

// A ledger that joins later knows what is under way.
func TestJoiningLater(t *testing.T) {
	charges := &drain.Charges{}
	first := tell(t, ask("a"), node("a", ours), node("b", drainedBy("d2", start)), deployment("web", 4), pods("web", "a", 1), pods("web", "b", 1), pods("web", "c", 2),
		budget("web", 4, 3, 4, maxUnavailable("1")))
	charges.Join(first.led)
	first.expect("evict web-a1")
	first.together(charges, "d2", "b").expect()
}

// What a drain has sent that has ended counts for one that begins later, for as long as a budget's status may lag behind.
func TestJoiningAfterAnotherHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  []string
	}{
		"at once":    {0, nil},
		"long after": {2 * time.Minute, []string{"evict web-b1"}},
	} {
		t.Run(name, func(t *testing.T) {
			charges := &drain.Charges{}
			first := tell(t, ask("a"), node("a", ours), node("b", drainedBy("d2", start.Add(c.after))), deployment("web", 4),
				pods("web", "a", 1), pods("web", "b", 1), pods("web", "c", 3), budget("web", 4, 3, 4, maxUnavailable("1")))
			charges.Join(first.led)
			first.expect("evict web-a1")
			first.answer(answers.Accepted)
			charges.Part(first.led, first.now)
			third := drain.NewLedger()
			charges.Join(third)
			charges.Part(third, first.now.Add(c.after))
			second := first.together(charges, "d2", "b")
			second.then(c.after)
			second.expect(c.want...)
		})
	}
}

// What undoing a killed drain's surge has scaled away is room for no eviction of the drain that follows in the same process, before its
// controller has removed it.
func TestDrainAfterRevert(t *testing.T) {
	charges := &drain.Charges{}
	revert := tell(t, ask(), node("a"), node("b"), deployment("web", 3, surgedBy("killed", 2, start.Add(-time.Hour))),
		pods("web", "a", 2), pods("web", "b", 1), budget("web", 3, 2, 3, minAvailable("2")))
	charges.Join(revert.led)
	undo := drain.Leftovers(revert.view(), nil, revert.led)
	same(t, "undone", []string{"scale web to 2, no record"}, deeds(undo))
	revert.led.Begin(undo.Actions[0], revert.now)
	revert.led.Answer(undo.Actions[0], answers.Answer{Code: answers.Accepted}, revert.now)
	charges.Part(revert.led, revert.now)

	s := revert.together(charges, me, "a")
	s.then(time.Second, node("a", ours), deployment("web", 2, at("2")))
	s.expect()
	s.holds("web-a1: BudgetExhausted", "web-a2: BudgetExhausted")
	same(t, "message", moreThanKept(2, 3, 1), s.status("web-a1").Blockers[0].Message)
}

// A drain that is ended by another run than the one that has begun a surge undoes it, though that is seen only later.
func TestSurgeOfAnEarlierRunIsUndone(t *testing.T) {
	charges := &drain.Charges{}
	first := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1), pods("web", "a", 1))
	charges.Join(first.led)
	first.led.Resume(first.view(), first.req)
	first.expect("scale web to 2, was 1")
	first.answer(answers.Accepted)
	charges.Part(first.led, first.now)

	s := first.together(charges, me, "a")
	s.led.Resume(s.view(), s.req)
	s.led.End(drain.Interrupted)
	s.then(time.Second)
	s.expect()
	same(t, "settled", false, s.last.Settled)
	s.then(time.Second, deployment("web", 2, at("2"), surgedBy(me, 1, start)))
	s.expect("scale web to 1, no record")
}

// A Deployment is not surged while another drain of the process evicts a pod of it: what is running is not known.
func TestSurgeWaitsForEvictionsOfOthers(t *testing.T) {
	charges := &drain.Charges{}
	first := tell(t, never("a"), node("a", ours), node("b", drainedBy("d2", start)), node("c"), deployment("web", 3), pods("web", "a", 1), pods("web", "b", 1), pods("web", "c", 1),
		budget("web", 3, 2, 3, maxUnavailable("1")))
	charges.Join(first.led)
	first.expect("evict web-a1")
	second := first.together(charges, "d2", "b")
	second.req.Surge = drain.SurgeAlways
	second.expect()
	first.answer(answers.Denied)
	second.then(time.Second)
	second.expect("scale web to 4, was 3")
}
