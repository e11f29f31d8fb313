package drain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// tidies has a drain of node a go on to its end, with every action accepted, and counts those of a kind. An outcome ends it.
func (s *story) tidies(kind drain.Kind) int {
	n := 0
	for range 300 {
		s.decide()
		n += s.count(kind)
		for _, a := range s.last.Actions {
			if a.Kind == drain.Mark {
				s.then(0, node("a", drainedBy(me, s.now), state(a.Record.State), version(a.Record.State)))
			}
		}
		s.answer(answers.Accepted)
		if s.last.Outcome != drain.Running {
			s.led.End(s.last.Outcome)
		}
		if s.last.Settled {
			break
		}
		s.then(time.Second)
	}
	return n
}

// The end of a surge that failed for half a minute is tried again while the drain of a maintenance goes on for hours.
func TestSurgeIsTakenBackOnceTheServerIsBack(t *testing.T) {
	s := maintained(t, 0, deployment("web", 2, surgedBy(theirs, 1, start)), pods("web", "b", 2),
		statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), budget("db", 2, 2, 3, minAvailable("2")))
	scales := func() int {
		s.decide()
		return s.count(drain.Scale)
	}
	failed, begun := 0, s.now
	for s.now.Before(begun.Add(35 * time.Second)) { // the webhook of Deployments does not answer
		failed += scales()
		s.answer(answers.Unavailable)
		s.beat(time.Second)
	}
	tried := 0
	for range 40 { // it answers again, and the drain goes on
		s.beat(15 * time.Second)
		tried += scales()
		s.answer(answers.Accepted)
	}
	for range 12 {
		s.beat(10 * time.Minute)
		s.decide() // claims the node anew
		s.answer(answers.Accepted)
		s.beat(time.Second)
		tried += scales()
		s.answer(answers.Accepted)
	}
	if tried == 0 {
		t.Errorf("tried %d times in 35 s, and never again in two hours in which the drain goes on (outcome %q): web stays scaled to 2%s", failed, s.last.Outcome, s.where())
	}
	if notes := strings.Join(s.last.Notes, "; "); tried == 0 && !strings.Contains(notes, "web") {
		t.Errorf("nothing says so: notes %q", notes)
	}
}

// The apiserver, or a webhook of Deployments, is away for 35 s at the end of a surge. It is back when the drain ends, and tidies up.
func TestSurgeIsTakenBackAfterAnOutage(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "b", 2))
	failed := 0
	for s.now.Before(start.Add(35 * time.Second)) {
		s.decide()
		failed += s.count(drain.Scale)
		s.answer(answers.Unavailable)
		s.then(time.Second, node("a", drainedBy(me, s.now.Add(time.Second))))
	}
	if s.tidies(drain.Scale) == 0 { // the server is back
		t.Errorf("%d tries in 35 s of an outage, none after it; outcome %q, settled %t %s after the outage; notes: %s", failed, s.last.Outcome, s.last.Settled, s.now.Sub(start.Add(35*time.Second)), s.last.Notes)
	}
}

// … and in the middle of a surge: what is held for 30 s, since its scaling down has failed in an outage, is no blocker that cannot clear.
func TestSurgeOutlastsAnOutage(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1, marked(me)), pods("web", "b", 1),
		budget("web", 2, 1, 1, maxUnavailable("0")))
	for s.now.Before(start.Add(35 * time.Second)) {
		s.decide()
		s.answer(answers.Unavailable)
		s.then(time.Second, node("a", drainedBy(me, s.now.Add(time.Second))))
	}
	for range 60 {
		s.decide()
		s.answer(answers.Accepted)
		if s.last.Outcome != drain.Running {
			t.Fatalf("outcome %q %s after an outage of 35 s%s", s.last.Outcome, s.now.Sub(start.Add(35*time.Second)), s.where())
		}
		if s.count(drain.Scale) > 0 {
			return
		}
		s.then(time.Second, node("a", drainedBy(me, s.now.Add(time.Second)), state("blocked")))
	}
}

// A surge was started by a request that got no answer, after five others, and the drain is interrupted: it is taken back.
func TestSurgeIsTakenBackWhoseStartWasNotAnswered(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1), pods("web", "a", 1), budget("web", 1, 1, 1, minAvailable("1")))
	failed := 0
	for s.now.Before(start.Add(70*time.Second)) && failed < 6 {
		s.decide()
		failed += s.count(drain.Scale)
		s.answer(answers.Unavailable)
		s.then(time.Second, node("a", drainedBy(me, s.now.Add(time.Second))))
	}
	s.then(time.Second, node("a", drainedBy(me, s.now.Add(time.Second))), deployment("web", 2, surgedBy(me, 1, s.now), at("2"))) // the last was carried out
	s.led.End(drain.Interrupted)
	if s.tidies(drain.Scale) == 0 {
		t.Errorf("%d tries to start failed; after the end it is never taken back: settled %t, notes %s", failed, s.last.Settled, s.last.Notes)
	}
}

// The same of a scaling down that keeps a record.
func TestSurgeIsTakenBackWhoseStepWasNotAnswered(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 5, surgedBy(me, 2, start)), pods("web", "a", 3, marked(me)), pods("web", "b", 3),
		budget("web", 6, 5, 5, maxUnavailable("0")))
	s.then(0, gone("web-a3"))
	failed := 0
	for s.now.Before(start.Add(150 * time.Second)) {
		s.decide()
		failed += s.count(drain.Scale)
		s.answer(answers.Unavailable)
		s.then(time.Second, node("a", drainedBy(me, s.now.Add(time.Second))))
	}
	s.led.End(drain.Interrupted)
	if s.tidies(drain.Scale) == 0 {
		t.Errorf("%d tries failed; after the end it is never taken back: settled %t, notes %s", failed, s.last.Settled, s.last.Notes)
	}
}

// The marks of nodes were not answered for a minute when the drain is interrupted: its end is written once the server is back.
func TestEndIsWrittenAfterAnOutage(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), budget("db", 2, 2, 3, minAvailable("2")))
	failed := 0
	for s.now.Before(start.Add(5*time.Minute)) && failed < 6 {
		s.decide()
		failed += s.count(drain.Mark)
		s.answer(answers.Unavailable)
		s.then(time.Second)
	}
	s.led.End(drain.Interrupted)
	if s.tidies(drain.Mark) == 0 {
		t.Errorf("%d marks failed in %s; the end is never written: notes %q", failed, s.now.Sub(start), s.last.Notes)
	}
}

// A surge whose deletion costs cannot be lowered, since a webhook of pods does not answer, does not clear by itself.
func TestCostsThatCannotBeLoweredAreStuck(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1), pods("web", "b", 1), budget("web", 2, 1, 1, maxUnavailable("0")))
	n := 0
	for range 3600 {
		s.then(time.Second, node("a", drainedBy(me, s.now.Add(time.Second))))
		s.decide()
		if slices.Contains(deeds(s.last), "mark a blocked") {
			return
		}
		for _, a := range s.open {
			code := answers.Accepted
			if a.Kind == drain.LowerCost {
				n++
				code = answers.Unavailable
			}
			s.led.Answer(a, answers.Answer{Code: code, Message: "webhook away"}, s.now)
		}
		s.open = nil
	}
	t.Errorf("goes on after an hour, %d tries%s", n, s.where())
}

// What a busy server refuses for now is tried less and less often, for as long as a maintenance goes on.
func TestEndOfASurgeIsNotTriedEachSecond(t *testing.T) {
	s := maintained(t, 0, deployment("web", 2, surgedBy(theirs, 1, start)), pods("web", "b", 2),
		statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), budget("db", 2, 2, 3, minAvailable("2")))
	n := 0
	for range 3600 {
		s.decide()
		n += s.count(drain.Scale)
		for _, a := range s.open {
			code := answers.Accepted
			if a.Kind == drain.Scale {
				code = answers.RefusedForNow
			}
			s.led.Answer(a, answers.Answer{Code: code}, s.now)
		}
		s.open = nil
		s.beat(time.Second)
	}
	if n > 400 {
		t.Errorf("%d scalings in an hour", n)
	}
}
