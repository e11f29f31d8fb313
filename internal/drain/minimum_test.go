package drain_test

import (
	"slices"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// TestKilledBeforeTheScale: a drain that was killed after it raised the minimum, and before it scaled, leaves replicas that the
// autoscaler has started. Where that does not scale down, they would stay.
func TestKilledBeforeTheScale(t *testing.T) {
	keep, restore := []string{"scale web to 3, was 2"}, []string{"scale-min web to 1, no record"}
	raised := func(options ...func(*autoscalerOf)) fact {
		return autoscaler("web", 3, 5, append([]func(*autoscalerOf){raisedBy("x", 1), fromBase(2)}, options...)...)
	}
	cases := map[string]struct {
		facts fact
		want  []string
	}{
		"the autoscaler has scaled":     {all(deployment("web", 3), raised()), keep},
		"it has not yet":                {all(deployment("web", 2), raised()), restore},
		"it wants more by its metrics":  {all(deployment("web", 4), raised()), restore},
		"the minimum was changed since": {all(deployment("web", 3), raised(lowestNow(2))), []string{"scale-min web to 2, no record"}},
		"what was before is not known":  {all(deployment("web", 3), raised(fromBase(0))), restore},
		"as many as before":             {all(deployment("web", 3), raised(fromBase(3))), restore},
		"its Deployment is not seen":    {raised(), restore},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Dead = map[string]bool{"x": true}
			s := tell(t, req, node("a"), c.facts)
			s.led.End(drain.Interrupted)
			s.expect(c.want...)
		})
	}
}

// TestReplicasOfTheMinimumAreTakenBack: one step at a time, so that it may be killed at each.
func TestReplicasOfTheMinimumAreTakenBack(t *testing.T) {
	req := ask("a")
	req.Dead = map[string]bool{"x": true}
	s := tell(t, req, node("a"), deployment("web", 3), autoscaler("web", 3, 5, raisedBy("x", 1), fromBase(2)))
	s.led.End(drain.Interrupted)
	s.expect("scale web to 3, was 2")
	s.answer(answers.Accepted)
	s.expect()
	s.then(time.Second, deployment("web", 3, surgedBy("x", 2, start), at("2")))
	s.expect("scale-min web to 1, no record")
	s.answer(answers.Accepted)
	s.expect()
	s.then(time.Second, autoscaler("web", 1, 5, scalerVersion("2")))
	s.expect("scale web to 2, no record")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 2, at("3")))
	s.expect()
	same(t, "settled", true, s.last.Settled)

	s.then(time.Second, deployment("web", 3, at("4")), autoscaler("web", 3, 5, raisedBy("x", 1), fromBase(2), scalerVersion("3")))
	s.expect("scale-min web to 1, no record") // what is written again each time must not use up the undoings before that
}

// TestMinimumGoesBackWithoutTheDeployment: a drain that may not scale the Deployment restores the minimum all the same.
func TestMinimumGoesBackWithoutTheDeployment(t *testing.T) {
	for _, code := range []answers.Code{answers.Forbidden, answers.Unavailable} {
		req := ask("a")
		req.Dead = map[string]bool{"x": true}
		s := tell(t, req, node("a"), deployment("web", 3), autoscaler("web", 3, 5, raisedBy("x", 1), fromBase(2)))
		s.led.End(drain.Interrupted)
		for range 20 {
			if s.decide(); slices.Contains(deeds(s.last), "scale-min web to 1, no record") {
				break
			}
			s.answer(code)
			s.then(time.Minute)
		}
		same(t, "actions", []string{"scale-min web to 1, no record"}, deeds(s.last))
	}
}

// An autoscaler may have scaled the Deployment to the minimum that the drain has raised before the drain does: its pods wait for the
// replacements all the same, which the Deployment's replicas show already.
func TestRaisedMinimumIsASurge(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), pods("web", "a", 1), deployment("web", 2), budget("web", 1, 0, 2),
		autoscaler("web", 2, 5, raisedBy(me, 1), fromBase(1)))
	s.expect("scale web to 2, was 1")
	s.holds("web-a1: SurgeStarting")
}
