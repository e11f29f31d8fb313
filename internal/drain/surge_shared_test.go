package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func always(nodes ...string) drain.Request {
	req := ask(nodes...)
	req.Surge = drain.SurgeAlways
	return req
}

// sharing is a drain of node a, in a process that may have a drain of node b beside it.
func sharing(t *testing.T, facts ...fact) (*story, *drain.Charges) {
	t.Helper()
	first := tell(t, always("a"), node("a", ours), node("b", drainedBy("d2", start)), node("c"), all(facts...))
	charges := &drain.Charges{}
	charges.Join(first.led)
	first.led.Resume(first.view(), first.req)
	return first, charges
}

// beside is a drain of node b in the same process.
func (s *story) beside(charges *drain.Charges) *story {
	second := s.together(charges, "d2", "b")
	second.req.Surge = drain.SurgeAlways
	second.led.Resume(second.view(), second.req)
	return second
}

// A surge of one drain replaces what another drain of the process has leave too, also what comes to leave once it has begun.
func TestDrainsOfOneProcessShareASurge(t *testing.T) {
	charges := &drain.Charges{}
	first := tell(t, always("a"), node("a", ours), node("b"), node("c"), deployment("web", 3), pods("web", "a", 1), pods("web", "b", 2))
	charges.Join(first.led)
	first.led.Resume(first.view(), first.req)
	first.expect("scale web to 4, was 3")
	first.answer(answers.Accepted)

	second := first.beside(charges)
	second.then(time.Second, node("b", drainedBy("d2", start)), deployment("web", 4, surgedBy(me, 3, start), at("2")))
	second.expect()
	second.holds("web-b1: SurgeStarting", "web-b2: SurgeStarting")
	same(t, "message", "web is surged for node a first", second.status("web-b1").Blockers[0].Message)
	same(t, "the other drain is to look again", true, second.led.SharedChanged())

	first.then(0)
	first.expect("scale web to 6, was 3")
	first.answer(answers.Accepted)
	second.then(time.Second, deployment("web", 6, surgedBy(me, 3, start), at("3")), pods("web", "c", 3))
	second.expect() // replacements are not ready, as far as the first drain has seen
	first.then(0)
	first.expect("lower-cost web-a1")
	first.answer(answers.Accepted)
	second.then(0)
	second.expect("lower-cost web-b1", "lower-cost web-b2")
	same(t, "message", "replacements are ready; web is scaled down for node a and this one together", second.status("web-b1").Blockers[0].Message)
	second.answer(answers.Accepted)
	first.then(time.Second, pods("web", "a", 1, marked(me)), pods("web", "b", 1, marked("d2")))
	first.expect()
	same(t, "message", "its replacement is ready; it is removed together with pods on node b, whose drain is about to mark them", first.status("web-a1").Blockers[0].Message)
	first.then(time.Second, pods("web", "b", 2, marked("d2")))
	first.expect("scale web to 3, no record")
}

// What is not shared, and what comes too late to a surge.
func TestSurgeIsNotShared(t *testing.T) {
	cases := map[string]struct {
		after  time.Duration
		second func(*drain.Request)
		facts  fact
	}{
		"the other drain surges where it has to only":  {0, func(r *drain.Request) { r.Surge = drain.SurgeAuto }, all()},
		"the other drain cuts graces":                  {0, func(r *drain.Request) { r.Grace = new(time.Second) }, all()},
		"the surge has gone on for long":               {45 * time.Second, func(*drain.Request) {}, all()},
		"an autoscaler rules it":                       {0, func(*drain.Request) {}, autoscaler("web", 4, 9, raisedBy(me, 1))},
		"the other drain has ended":                    {0, nil, all()},
		"the other drain is about to take its node on": {0, func(*drain.Request) {}, node("b")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			charges := &drain.Charges{}
			now := start.Add(c.after)
			first := tell(t, always("a"), node("a", drainedBy(me, now)), node("b", drainedBy("d2", now)), node("c"),
				deployment("web", 4, surgedBy(me, 3, start)), pods("web", "a", 1), pods("web", "b", 2), c.facts)
			charges.Join(first.led)
			second := first.beside(charges)
			if c.second != nil {
				c.second(&second.req)
			}
			second.then(c.after)
			second.decide()
			if c.second == nil {
				charges.Part(second.led, second.now)
			}
			first.then(c.after)
			first.expect()
			first.holds("web-a1: SurgeStarting")
		})
	}
}

// A surge that is refused to grow is brought to its end, and what it was to grow by is not lowered.
func TestSharedSurgeIsRefusedToGrow(t *testing.T) {
	first, charges := sharing(t, deployment("web", 4, surgedBy(me, 3, start)), pods("web", "a", 1), pods("web", "b", 2), pods("web", "c", 1), budget("web", 3, 3, 4, maxUnavailable("0")))
	second := first.beside(charges)
	second.decide()
	first.expect("scale web to 6, was 3")
	first.answer(answers.Denied)
	second.then(0)
	second.expect()
	first.then(time.Second)
	first.expect("lower-cost web-a1")
	first.answer(answers.Accepted)
	first.then(time.Second, pods("web", "a", 1, marked(me)))
	first.expect("scale web to 3, no record")
}

// A process that begins in the middle of a shared surge, or has no answer to its growth, goes by the replacements that there are.
func TestSharedSurgeIsGoneOnWith(t *testing.T) {
	first, charges := sharing(t, deployment("web", 6, surgedBy(me, 3, start)), pods("web", "a", 1), pods("web", "b", 2), pods("web", "c", 3))
	second := first.beside(charges)
	second.decide()
	first.expect("lower-cost web-a1")
	second.then(0)
	second.expect("lower-cost web-b1", "lower-cost web-b2")
}

// Members whose drain does not lower their deletion costs do not hold the others.
func TestSharedSurgeDoesNotWaitForMarksForever(t *testing.T) {
	first, charges := sharing(t, deployment("web", 6, surgedBy(me, 3, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 2), pods("web", "c", 3))
	first.beside(charges).decide()
	first.then(0)
	first.expect()
	same(t, "next", start.Add(15*time.Second), first.last.Next)
	first.then(15*time.Second, node("a", drainedBy(me, start.Add(15*time.Second))), node("b", drainedBy("d2", start.Add(15*time.Second))))
	first.expect("scale web to 5, was 3")
}

// What a surge waits for in vain holds all that it would have replaced.
func TestSharedSurgeThatIsStuck(t *testing.T) {
	charges := &drain.Charges{}
	now := start.Add(10 * time.Minute)
	first := tell(t, always("a"), node("a", ours), node("c"), deployment("web", 6, surgedBy(me, 3, start)), pods("web", "a", 1), pods("web", "b", 2))
	charges.Join(first.led)
	first.led.Resume(first.view(), first.req)
	first.decide()
	second := first.beside(charges)
	there := all(node("a", drainedBy(me, now)), node("b", drainedBy("d2", now)))
	first.then(10*time.Minute, there)
	first.decide()
	first.holds("web-a1: SurgeStarting!")
	second.then(10*time.Minute, there)
	second.decide()
	second.holds("web-b1: SurgeStarting!", "web-b2: SurgeStarting!")
}

// What leaves by a drain that is being left is no member any more, and gets its cost back before anything is scaled down, by the drain that
// scales down.
func TestDrainIsLeftWithinASharedSurge(t *testing.T) {
	first, charges := sharing(t, deployment("web", 2), pods("web", "a", 1), pods("web", "b", 1))
	first.expect("scale web to 3, was 2")
	first.answer(answers.Accepted)
	second := first.beside(charges)
	second.then(time.Second, deployment("web", 3, surgedBy(me, 2, start), at("2")))
	second.expect()
	first.then(time.Second)
	first.expect("scale web to 4, was 2")
	first.answer(answers.Accepted)
	surged := all(deployment("web", 4, surgedBy(me, 2, start), at("3")), pods("web", "c", 2))
	first.then(time.Second, surged)
	first.expect("lower-cost web-a1")
	first.answer(answers.Accepted)
	second.then(time.Second, surged)
	second.expect("lower-cost web-b1")
	second.answer(answers.Accepted)
	second.led.ShareNothing()
	charges.Part(second.led, second.now)
	seen := func(p *snapshot.Pod) { p.ResourceVersion = "2" }
	first.then(2*time.Second, pods("web", "a", 1, marked(me)), pods("web", "b", 1, marked("d2"), seen))
	first.expect("restore-cost web-b1")
	first.answer(answers.Accepted)
	first.then(time.Second, pods("web", "b", 1, seen))
	first.expect("scale web to 3, was 2")
}

// A pod that another drain has begun to have leave by the surge, and that stays since that drain ends, is not among those that are removed.
func TestDrainEndsWithinASharedSurge(t *testing.T) {
	first, charges := sharing(t, deployment("web", 4, surgedBy(me, 2, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 1, marked("d2")), pods("web", "c", 2))
	second := first.beside(charges)
	second.decide()
	second.led.End(drain.Interrupted)
	second.then(0)
	second.expect("restore-cost web-b1")
	first.then(0)
	first.expect("restore-cost web-b1") // whichever comes first
	first.holds("web-a1: SurgeStarting")
	first.then(time.Second, pods("web", "b", 1))
	first.expect("scale web to 3, was 2")
}

// Where both end, or the other one surges nothing any more, the surge is undone once all costs are restored.
func TestDrainsEndWithTheirSharedSurge(t *testing.T) {
	first, charges := sharing(t, deployment("web", 4, surgedBy(me, 2, start)), pods("web", "a", 1), pods("web", "b", 1, marked("d2")), pods("web", "c", 2))
	second := first.beside(charges)
	second.decide()
	first.led.End(drain.Interrupted)
	first.then(0)
	first.expect("restore-cost web-b1")
	same(t, "settled", false, first.last.Settled)
	first.then(time.Second, pods("web", "b", 1))
	first.expect("scale web to 2, no record")
}
