package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// Undoing has an order: deletion costs, or a scaling down would take the wrong pods;
// the autoscaler, or it would start them again; the Deployment; the nodes.
func TestInterruptedDrainTidiesUpInOrder(t *testing.T) {
	req := ask("a")
	req.UncordonOnFailure = true
	s := tell(t, req, node("a", ours), deployment("web", 3, surgedBy(me, 2, start)), autoscaler("web", 3, 5, raisedBy(me, 1)),
		pods("web", "a", 1, marked(me)), pods("web", "b", 2))
	s.led.End(drain.Interrupted)

	s.expect("restore-cost web-a1")
	s.expect()
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 1))
	s.expect("scale-min web to 1, no record")
	s.expect()
	s.answer(answers.Accepted)
	s.then(time.Second, autoscaler("web", 1, 5, scalerVersion("2")))
	s.expect("scale web to 2, no record")
	s.expect() // the node waits until the surge is seen undone
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 2, at("2")))
	s.expect("uncordon a")
	s.answer(answers.Accepted)
	same(t, "settled", false, s.last.Settled)
	s.then(time.Second, node("a", version("2")))
	s.expect()
	same(t, "settled", true, s.last.Settled)
	s.ends(drain.Interrupted)
}

// A decision that is handed out is read while the next one is made.
func TestDecisionsShareNoBlockers(t *testing.T) {
	req := ask("a")
	req.Surge = drain.SurgeNever
	s := tell(t, req, node("a", ours), solo)
	s.expect("mark a blocked")
	shown := s.last.Pods[0].Blockers
	s.led.End(drain.Interrupted)
	s.expect()
	kept := s.last.Pods[0].Blockers
	if len(shown) == 0 || len(kept) != len(shown) || &shown[0] == &kept[0] {
		t.Errorf("what held the pod is %v, and then %v, want the same in a place of its own", shown, kept)
	}
}

func TestWhatIsLeftOnTheNode(t *testing.T) {
	cases := map[string]struct {
		ends     drain.Outcome
		uncordon bool
		node     fact
		want     []string
	}{
		"drained":                    {drain.Drained, true, node("a", ours), []string{"mark a drained"}},
		"drained and said so":        {drain.Drained, true, node("a", ours, state("drained")), nil},
		"interrupted":                {drain.Interrupted, false, node("a", ours), []string{"mark a interrupted"}},
		"blocked":                    {drain.Blocked, false, node("a", ours), []string{"mark a blocked"}},
		"timeout":                    {drain.TimedOut, false, node("a", ours), []string{"mark a timeout"}},
		"deadline":                   {drain.DeadlinePassed, false, node("a", ours), []string{"mark a deadline"}},
		"uncordon what was cordoned": {drain.Interrupted, true, node("a", ours), []string{"uncordon a"}},
		"… also when the node said it is stuck": {drain.Blocked, true, node("a", ours, state("blocked")), []string{"uncordon a"}},
		"… nor one that was set since":          {drain.Interrupted, true, node("a", ours, cordonedAnew), []string{"unmark a"}},
		"… but not another client's cordon":     {drain.Interrupted, true, node("a", ours, foundCordoned), []string{"unmark a"}},
		"… nor a node of another drain":         {drain.Interrupted, true, node("a", drainedBy("other", start)), nil},
		"… nor one that was never claimed":      {drain.Interrupted, true, node("a", cordoned), nil},
		"the node is gone":                      {drain.Interrupted, true, node("b"), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.UncordonOnFailure = c.uncordon
			s := tell(t, req, c.node)
			s.led.End(c.ends)
			s.expect(c.want...)
			s.ends(c.ends)
		})
	}
}

func TestManyNodesAreLeftTogether(t *testing.T) {
	s := tell(t, ask("a", "b", "c"), node("a", ours), node("b", ours), node("c", ours))
	s.led.End(drain.Interrupted)
	s.expect("mark a interrupted", "mark b interrupted", "mark c interrupted")
}

// What may not be undone is said, and does not hold the end.
func TestTidyUpThatIsRefused(t *testing.T) {
	req := ask("a")
	req.UncordonOnFailure = true
	s := tell(t, req, node("a", ours), deployment("web", 3, surgedBy(me, 2, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 2))
	s.led.End(drain.Interrupted)
	for range 3 {
		s.decide()
		s.answer(answers.Forbidden)
	}
	s.expect()
	same(t, "settled", true, s.last.Settled)
	same(t, "notes", []string{
		"pod default/web-a1 still has the lowest deletion cost: server says Forbidden; usher drain --revert tries it again",
		"default/web is still scaled to 3 (it was 2): server says Forbidden; usher drain --revert tries it again",
		"node a keeps its cordon and the record of this drain: server says Forbidden; usher uncordon a tries it again",
	}, s.last.Notes)
}

// A server that does not answer is asked a few times, then the end is the end.
func TestTidyUpEnds(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 3, surgedBy(me, 2, start)))
	s.led.End(drain.Interrupted)
	for turn := range 50 {
		s.decide()
		if s.last.Settled {
			return
		}
		if len(s.last.Actions) == 0 && s.last.Next.IsZero() {
			t.Fatalf("turn %d: nothing to do and nothing to wait for", turn)
		}
		s.answer(answers.Unavailable)
		if len(s.last.Actions) == 0 {
			s.now = s.last.Next
		}
	}
	t.Error("it never settles")
}

// A watch that is behind what changes a Deployment all the time shows versions that are old already: the surge is undone once it has
// caught up.
func TestUndoOutlastsAWatchThatIsBehind(t *testing.T) {
	const behind = 20
	s := tell(t, ask("a"), node("a", drainedBy(me, start), state("interrupted")), deployment("web", 2, surgedBy(me, 1, start)))
	s.led.End(drain.Interrupted)
	for range behind {
		s.expect("scale web to 1, no record")
		s.answer(answers.Conflict)
		s.then(5*time.Second, versions(s.now.String()))
	}
	s.expect("scale web to 1, no record")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 1))
	s.expect()
	same(t, "settled", true, s.last.Settled)
	same(t, "notes", 0, len(s.last.Notes))
}

// A pod on its way out keeps its cost: it is the one to go.
func TestLeavingPodKeepsItsCost(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a"), of("web"), marked(me+"=5"), endsAt(start.Add(time.Minute))))
	s.led.End(drain.Interrupted)
	s.expect("mark a interrupted")
}

func TestOthersMarksStay(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a"), of("web"), marked("other=5")), deployment("web", 3, surgedBy("other", 2, start)))
	s.led.End(drain.Interrupted)
	s.expect("mark a interrupted")
}

func TestFirstOutcomeStands(t *testing.T) {
	led := drain.NewLedger()
	led.End(drain.Drained)
	led.End(drain.Interrupted)
	same(t, "ending", drain.Drained, led.Ending())
}

func TestEndedDrainEvictsNothing(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours, state("interrupted")), pod("web", on("a")))
	s.led.End(drain.Interrupted)
	s.expect()
	same(t, "settled", true, s.last.Settled)
	same(t, "left", 1, s.last.Nodes[0].Left)
}

// An answer that is still awaited may yet have to be undone.
func TestEndWaitsForAnswers(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a")))
	s.expect("evict web")
	s.led.End(drain.Interrupted)
	s.then(0, node("a", ours, state("interrupted")))
	s.expect()
	same(t, "settled", false, s.last.Settled)
	s.answer(answers.Accepted)
	s.expect()
	same(t, "settled", true, s.last.Settled)
}
