package drain_test

import (
	"fmt"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// happened words the events between the last decision and the next one.
func (s *story) happened() []string {
	s.t.Helper()
	before := s.last
	s.decide()
	return worded(drain.Events(before, s.last, s.now))
}

func worded(events []drain.Event) []string {
	var out []string
	for _, e := range events {
		text := string(e.Kind)
		for _, part := range []string{e.Node, e.Pod.Name, e.State, string(e.Outcome)} {
			if part != "" {
				text += " " + part
			}
		}
		if e.Blocker != nil {
			text += " " + string(e.Blocker.Reason)
		}
		out = append(out, text)
	}
	return out
}

func TestEventsOfADrain(t *testing.T) {
	s := tell(t, never("a"), node("a"), deployment("web", 2), pods("web", "a", 2), budget("web", 2, 1, 2, maxUnavailable("1")))
	same(t, "cordon", []string{"node a pending", "pod a web-a1 waiting", "pod a web-a2 waiting"}, s.happened())
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, version("2")))
	same(t, "first", []string{"node a draining", "pod a web-a1 evicting", "blocked a web-a2 BudgetExhausted"}, s.happened())
	s.answer(answers.Accepted)
	s.then(time.Second, budget("web", 1, 1, 2, maxUnavailable("1"), budgetVersion("2"), disrupted("web-a1")), pods("web", "a", 1, endsAt(start.Add(time.Minute))))
	same(t, "it goes", []string{"pod a web-a1 terminating", "blocked a web-a2 BudgetExhausted"}, s.happened())
	s.then(time.Second, gone("web-a1"), pod("web-b1", on("b"), of("web")), budget("web", 2, 1, 2, maxUnavailable("1"), budgetVersion("3")))
	same(t, "next", []string{"pod a web-a2 evicting", "pod a web-a1 replaced", "cleared a web-a2 BudgetExhausted"}, s.happened())
	s.answer(answers.Accepted)
	s.then(time.Second, gone("web-a2"), pod("web-b2", on("b"), of("web")))
	same(t, "last", []string{"node a drained", "pod a web-a2 replaced"}, s.happened())
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, state("drained"), version("3")))
	same(t, "end", []string{"end drained"}, s.happened())
}

// An unchanged state is no news, however much time passes.
func TestNoNews(t *testing.T) {
	facts := map[string]fact{
		"held by a budget":    all(deployment("web", 2), pods("web", "a", 2), budget("web", 1, 1, 2, maxUnavailable("1"))),
		"held for ever":       deadSet("db", "a"),
		"terminating":         pod("web", on("a"), endsAt(start.Add(time.Hour))),
		"overdue":             pod("web", on("a"), endsAt(start.Add(-time.Hour))),
		"another drain":       node("a", drainedBy("other", start.Add(-30*time.Second))),
		"waves":               all(pod("low", on("a"), endsAt(start.Add(time.Hour))), pod("high", on("a"), priority(1))),
		"a silent node":       all(node("a", ours, silent), pod("web", on("a"), endsAt(start.Add(-time.Hour)))),
		"a surge that drags":  all(solo, deployment("web", 2, surgedBy(me, 1, start))),
		"a volume that stays": attached("v", "a"),
	}
	for name, f := range facts {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), f)
			s.happened()
			for range 12 {
				s.then(time.Second)
				same(t, fmt.Sprintf("news after %s", s.now.Sub(start)), nil, s.happened())
			}
		})
	}
}

// When a drain ends, what held its pods is not reported as cleared.
func TestEndClearsNothing(t *testing.T) {
	s := tell(t, never("a"), node("a", ours), deployment("web", 2), pods("web", "a", 2), budget("web", 1, 1, 2, maxUnavailable("1")), pod("late", on("a"), priority(1)))
	s.happened()
	s.led.End(drain.Interrupted)
	for _, e := range s.happened() {
		if e[:5] == "clear" {
			t.Errorf("event %q", e)
		}
	}
}

func TestAnswerEvents(t *testing.T) {
	s := tell(t, ask("a"), node("a"), solo, pod("free", on("a")))
	s.decide()
	cordon := s.last.Actions[0]
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, version("2")))
	s.decide()
	scale, evict := s.last.Actions[0], s.last.Actions[1]
	cases := []struct {
		action drain.Action
		code   answers.Code
		want   string // "" for no event
	}{
		{cordon, answers.Accepted, ""},
		{cordon, answers.Conflict, ""},
		{cordon, answers.Forbidden, "answer: cordon refused: words"},
		{evict, answers.Accepted, ""},
		{evict, answers.RefusedByBudget, ""},
		{evict, answers.Gone, ""},
		{evict, answers.Denied, "answer: evict refused: words"},
		{evict, answers.Forbidden, "answer: evict refused: words"},
		{evict, answers.Unavailable, "answer: evict refused: words"},
		{scale, answers.Accepted, "surge: default/web scaled up to 2 replicas: " + scale.Why},
		{scale, answers.Conflict, ""},
		{scale, answers.Forbidden, "answer: default/web is not scaled up to 2 replicas: words"},
	}
	for _, c := range cases {
		e, ok := drain.AnswerEvent(c.action, answers.Answer{Code: c.code, Message: "words"})
		got := ""
		if ok {
			got = string(e.Kind) + ": " + e.Message
		}
		same(t, fmt.Sprintf("%s %s", c.action.Kind, c.code), c.want, got)
	}
}
