package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func TestAnswersAreEnteredOnce(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a")))
	s.expect("evict web")
	evict := s.last.Actions[0]
	if !s.led.InFlight() {
		t.Error("nothing in flight after it was sent")
	}
	s.led.Answer(evict, answers.Answer{Code: answers.Accepted}, s.now)
	s.led.Answer(evict, answers.Answer{Code: answers.Forbidden}, s.now) // a second answer belongs to no action
	if s.led.InFlight() {
		t.Error("in flight after the answer")
	}
	s.expect()
	same(t, "state", []string{"web evicting"}, s.states())

	stranger := drain.Action{Kind: drain.Evict, Pod: &snapshot.Pod{UID: "stranger"}}
	s.led.Answer(stranger, answers.Answer{Code: answers.Accepted}, s.now)
	if s.led.InFlight() {
		t.Error("an answer to nothing counts")
	}
}

// Since when a blocker stands is remembered as long as it stands, even if its words
// change.
func TestBlockersKeepTheirSince(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), deployment("web", 3), pod("web", on("a"), of("web")), budget("web", 2, 2, 3))
	s.expect()
	same(t, "since", start, s.status("web").Blockers[0].Since)
	s.then(5*time.Second, budget("web", 1, 2, 3), pods("web", "b", 1, unready))
	s.expect()
	same(t, "since, other words", start, s.status("web").Blockers[0].Since)
	s.then(5*time.Second, budget("web", 2, 2, 3, unobserved))
	s.expect()
	same(t, "since, another reason", start.Add(10*time.Second), s.status("web").Blockers[0].Since)
	s.then(time.Second, budget("web", 2, 2, 3))
	s.expect()
	same(t, "since it came back", start.Add(11*time.Second), s.status("web").Blockers[0].Since)
}

func TestOlderSinceOfTheClusterWins(t *testing.T) {
	since := start.Add(-time.Hour)
	older := func(n *snapshot.Node) { n.Drain.Since = since }
	s := tell(t, never("a"), node("a", drainedBy("other", start)), pod("web", on("a")))
	s.expect()
	s.then(time.Second, node("a", drainedBy("other", start), older))
	s.expect()
	same(t, "since", since, s.last.Nodes[0].Blockers[0].Since)
	s.then(time.Second, node("a", drainedBy("other", start)))
	s.expect()
	same(t, "since, once it was known", since, s.last.Nodes[0].Blockers[0].Since)
}

// An eviction that was accepted and whose effect is never seen is sent again, but not
// in a hurry.
func TestAcceptedEvictionThatIsNotSeen(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a")))
	s.expect("evict web")
	s.answer(answers.Accepted)
	s.then(30*time.Second-1, node("a", drainedBy(me, start.Add(29*time.Second))))
	s.expect()
	s.then(1)
	s.expect("evict web")
}
