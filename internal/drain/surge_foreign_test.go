package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

func TestForeignSurges(t *testing.T) {
	long := start.Add(-time.Hour)
	cases := map[string]struct {
		facts fact
		dead  map[string]bool
		want  []string
		held  []string
	}{
		"alive: its surge is young":               {deployment("web", 2, surgedBy("other", 1, start)), nil, nil, []string{"web-a1: AnotherDrain"}},
		"alive: its node gives signs of life":     {all(deployment("web", 2, surgedBy("other", 1, long)), node("b", drainedBy("other", start))), nil, nil, []string{"web-a1: AnotherDrain"}},
		"dead: its node fell silent":              {all(deployment("web", 2, surgedBy("other", 1, long)), node("b", drainedBy("other", long))), nil, []string{"scale web to 1, no record"}, []string{"web-a1: SurgeStarting"}},
		"dead: its node's drain has ended":        {all(deployment("web", 2, surgedBy("other", 1, long)), node("b", drainedBy("other", start), state("drained"))), nil, []string{"scale web to 1, no record"}, []string{"web-a1: SurgeStarting"}},
		"dead: known to be":                       {deployment("web", 2, surgedBy("other", 1, start)), map[string]bool{"other": true}, []string{"scale web to 1, no record"}, []string{"web-a1: SurgeStarting"}},
		"dead, autoscaled: the minimum first":     {all(deployment("web", 2, surgedBy("other", 1, long)), autoscaler("web", 2, 5, raisedBy("other", 1))), nil, []string{"scale-min web to 1, no record"}, []string{"web-a1: SurgeStarting"}},
		"dead, scaled since: only the record":     {all(deployment("web", 2, surgedBy("other", 1, long)), rescaled(7)), nil, []string{"scale web to 7, no record"}, []string{"web-a1: SurgeStarting"}},
		"alive, its minimum raised, not scaled":   {all(deployment("web", 1), autoscaler("web", 2, 5, raisedBy("other", 1))), nil, nil, []string{"web-a1: AnotherDrain"}},
		"dead, its minimum raised, not scaled":    {all(deployment("web", 1), autoscaler("web", 2, 5, raisedBy("other", 1))), map[string]bool{"other": true}, []string{"scale-min web to 2, was 1"}, []string{"web-a1: SurgeStarting"}},
		"dead, autoscaled and changed since then": {all(deployment("web", 2, surgedBy("other", 1, long)), autoscaler("web", 3, 5, raisedBy("other", 1), lowestNow(4))), nil, []string{"scale-min web to 4, no record"}, []string{"web-a1: SurgeStarting"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Dead = c.dead
			s := tell(t, req, node("a", ours), solo, c.facts)
			s.expect(c.want...)
			s.holds(c.held...)
			s.ends(drain.Running)
		})
	}
}

func rescaled(replicas int32) fact {
	return func(c *clusterOf) {
		w := *c.Workload("uid-web")
		w.Replicas = replicas
		c.SetWorkload(&w)
	}
}

func lowestNow(least int32) func(*autoscalerOf) { return func(a *autoscalerOf) { a.Min = least } }

// A Deployment that another drain has surged before, and has none since: the next one's surge is as young as it is.
func TestFreshSurgeAfterAnother(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy("x", 1, start)))
	s.expect()
	s.then(time.Second, deployment("web", 1, at("2")), budget("web", 1, 1, 1))
	s.decide()
	s.answer(answers.Conflict)
	s.then(5*time.Minute, node("a", drainedBy(me, start.Add(5*time.Minute)), version("9")))
	s.then(0, deployment("web", 2, surgedBy("live", 1, s.now), at("7")))
	s.expect()
	s.holds("web-a1: AnotherDrain")
}

// After the undoing the surge starts anew as one's own.
func TestDeadSurgeIsUndoneThenBegunAnew(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("web", 2, surgedBy("other", 1, start.Add(-time.Hour))))
	s.expect("scale web to 1, no record")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 1, at("2")))
	s.expect("scale web to 2, was 1")
}

// A dead surge that may not be undone does not hold the drain for ever.
func TestDeadSurgeThatMayNotBeUndone(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 2, surgedBy("other", 1, start.Add(-time.Hour))), pods("web", "a", 1), pods("web", "b", 1),
		budget("web", 2, 1, 2, minAvailable("1")))
	s.expect("scale web to 1, no record")
	s.answer(answers.Forbidden)
	s.expect("evict web-a1")
}
