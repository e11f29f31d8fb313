package drain_test

import (
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// solo is a Deployment of one replica under a budget that never lets it go.
var solo = all(deployment("web", 1), pods("web", "a", 1), budget("web", 1, 1, 1, minAvailable("1")))

// TestWhoIsSurged is about the decision to surge, which the first step shows.
func TestWhoIsSurged(t *testing.T) {
	scaleUp := []string{"scale web to 2, was 1"}
	cases := map[string]struct {
		mode  drain.SurgeMode
		facts fact
		want  []string
		held  []string
	}{
		"auto: a dead budget":               {drain.SurgeAuto, solo, scaleUp, []string{"web-a1: SurgeStarting"}},
		"never: a dead budget":              {drain.SurgeNever, solo, []string{"mark a blocked"}, []string{"web-a1: BudgetNeverAllows!"}},
		"auto: a single replica, no budget": {drain.SurgeAuto, all(deployment("web", 1), pods("web", "a", 1)), scaleUp, []string{"web-a1: SurgeStarting"}},
		"never: a single replica":           {drain.SurgeNever, all(deployment("web", 1), pods("web", "a", 1)), []string{"evict web-a1"}, nil},
		"auto: the last ready of three": {
			drain.SurgeAuto, all(deployment("web", 3), pods("web", "a", 1), pods("web", "b", 2, unready)),
			[]string{"scale web to 4, was 3"},
			[]string{"web-a1: SurgeStarting"},
		},
		"auto: all three on one node":         {drain.SurgeAuto, all(deployment("web", 3), pods("web", "a", 3)), []string{"scale web to 6, was 3"}, []string{"web-a1: SurgeStarting", "web-a2: SurgeStarting", "web-a3: SurgeStarting"}},
		"auto: no other node may run them":    {drain.SurgeAuto, all(node("b", cordoned), deployment("web", 2), pods("web", "a", 2)), []string{"evict web-a1", "evict web-a2"}, nil},
		"… but a budget asks for it":          {drain.SurgeAuto, all(node("b", cordoned), solo), scaleUp, []string{"web-a1: SurgeStarting"}},
		"always: no other node may run them":  {drain.SurgeAlways, all(node("b", cordoned), deployment("web", 1), pods("web", "a", 1)), scaleUp, []string{"web-a1: SurgeStarting"}},
		"auto: others are ready":              {drain.SurgeAuto, all(deployment("web", 3), pods("web", "a", 1), pods("web", "b", 2)), []string{"evict web-a1"}, nil},
		"auto: a live budget sees to it":      {drain.SurgeAuto, all(deployment("web", 3), pods("web", "a", 3), budget("web", 3, 2, 3, maxUnavailable("1"))), []string{"evict web-a1"}, []string{"web-a2: BudgetExhausted", "web-a3: BudgetExhausted"}},
		"always: although others are ready":   {drain.SurgeAlways, all(deployment("web", 3), pods("web", "a", 1), pods("web", "b", 2)), []string{"scale web to 4, was 3"}, []string{"web-a1: SurgeStarting"}},
		"auto: nothing ready to save":         {drain.SurgeAuto, all(deployment("web", 1), pods("web", "a", 1, unready)), []string{"evict web-a1"}, nil},
		"auto: two budgets, a single replica": {drain.SurgeAuto, all(solo, budget("web", 1, 1, 1, named("x"))), scaleUp, []string{"web-a1: SurgeStarting"}},
		"a rollout is waited for":             {drain.SurgeAuto, all(solo, deployment("web", 1, rolling)), nil, []string{"web-a1: RolloutUnderway"}},
		"a StatefulSet is not scaled":         {drain.SurgeAlways, deadSet("db-0", "a"), []string{"mark a blocked"}, []string{"db-0: BudgetNeverAllows!"}},
		"a bare ReplicaSet is not scaled":     {drain.SurgeAlways, all(controller("ReplicaSet", "web-rs", 3), pods("web", "a", 1)), []string{"evict web-a1"}, nil},
		"a Deployment of none is not scaled":  {drain.SurgeAlways, all(deployment("web", 0), pods("web", "a", 1)), []string{"evict web-a1"}, nil},
		"a volume of one node":                {drain.SurgeAuto, all(solo, pods("web", "a", 1, claims("c")), claim("c", "v", false)), []string{"mark a blocked"}, []string{"web-a1: BudgetNeverAllows!"}},
		"a volume that is not known":          {drain.SurgeAuto, all(solo, pods("web", "a", 1, claims("c"))), []string{"mark a blocked"}, []string{"web-a1: BudgetNeverAllows!"}},
		"a volume for many nodes":             {drain.SurgeAuto, all(solo, pods("web", "a", 1, claims("c")), claim("c", "v", true)), scaleUp, []string{"web-a1: SurgeStarting"}},
		"autoscalers cannot be seen":          {drain.SurgeAuto, all(solo, unreadable("horizontalpodautoscalers")), []string{"mark a blocked"}, []string{"web-a1: BudgetNeverAllows!"}},
		"an autoscaler's minimum goes first":  {drain.SurgeAuto, all(solo, autoscaler("web", 1, 5)), []string{"scale-min web to 2, was 1"}, []string{"web-a1: SurgeStarting"}},
		"an autoscaler at its maximum":        {drain.SurgeAuto, all(solo, autoscaler("web", 1, 1)), []string{"mark a blocked"}, []string{"web-a1: BudgetNeverAllows!"}},
		"an autoscaler near its maximum":      {drain.SurgeAuto, all(deployment("web", 3), pods("web", "a", 3), autoscaler("web", 1, 4)), []string{"scale-min web to 4, was 1"}, []string{"web-a1: SurgeStarting", "web-a2: SurgeStarting", "web-a3: SurgeStarting"}},
		"never two at once: dead budget":      {drain.SurgeAuto, all(solo, deployment("web", 1, noOverlap)), []string{"mark a blocked"}, []string{"web-a1: BudgetNeverAllows!"}},
		"never two at once: not even always":  {drain.SurgeAlways, all(deployment("web", 1, noOverlap), pods("web", "a", 1)), []string{"evict web-a1"}, nil},
		"several run at once in any case":     {drain.SurgeAuto, all(deployment("web", 2, noOverlap), pods("web", "a", 2)), []string{"scale web to 4, was 2"}, []string{"web-a1: SurgeStarting", "web-a2: SurgeStarting"}},
		"a record that cannot be read":        {drain.SurgeAuto, all(solo, deployment("web", 1, func(w *snapshot.Workload) { w.SurgeError = "bad json" })), []string{"mark a blocked"}, []string{"web-a1: BudgetNeverAllows!"}},
		"pods on their way out need none": {
			drain.SurgeAuto, all(deployment("web", 1), pods("web", "a", 1, endsAt(start.Add(time.Minute)))), nil,
			[]string{"web-a1: Terminating"},
		},
		"a finished pod needs none": {drain.SurgeAlways, all(deployment("web", 1), pods("web", "a", 1, phase("Failed"))), []string{"evict web-a1"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Surge = c.mode
			s := tell(t, req, node("a", ours), node("b"), c.facts)
			s.expect(c.want...)
			s.holds(c.held...)
		})
	}
}

// Where a surge would help and cannot be had, that is said.
func TestWhyNotSurged(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, autoscaler("web", 1, 1))
	s.decide()
	same(t, "notes", []string{"default/web is not surged: autoscaler web allows no more than 1 replica"}, s.last.Notes)

	s = tell(t, ask("a"), node("a", ours), solo, deployment("web", 1, noOverlap))
	s.decide()
	same(t, "notes of an only pod", []string{"default/web is not surged: its strategy (Recreate, or maxSurge 0) says that no two of its pods may run at once"}, s.last.Notes)

	s = tell(t, ask("a"), node("a", ours), deployment("web", 3), pods("web", "a", 1, claims("c")), pods("web", "b", 2))
	s.decide()
	same(t, "notes where nothing is lost", nil, s.last.Notes)
}

// Only the wave that may leave is surged: replacements for the others would wait idly.
func TestOnlyTheFirstWaveIsSurged(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, pod("first", on("a"), order(-1)))
	s.expect("evict first")
	s.answer(answers.Accepted)
	s.then(time.Second, gone("first"))
	s.expect("scale web to 2, was 1")
}

// A pod that waits for its turn is not stuck where a surge is tried then.
func TestPodThatIsSurgedInItsTurnIsNotStuck(t *testing.T) {
	cases := map[string]struct {
		mode     drain.SurgeMode
		facts    fact
		parallel int
		held     []string
	}{
		"an earlier wave":      {drain.SurgeAuto, pod("first", on("a"), order(-1)), 0, []string{"web-a1: EarlierWave", "web-a1: BudgetNeverAllows"}},
		"an earlier node":      {drain.SurgeAuto, all(node("0", ours), pod("first", on("0"))), 1, []string{"web-a1: NodeWaitsItsTurn", "web-a1: BudgetNeverAllows"}},
		"there is no surge":    {drain.SurgeNever, pod("first", on("a"), order(-1)), 0, []string{"web-a1: EarlierWave", "web-a1: BudgetNeverAllows!"}},
		"a surge cannot be":    {drain.SurgeAuto, all(pod("first", on("a"), order(-1)), autoscaler("web", 1, 1)), 0, []string{"web-a1: EarlierWave", "web-a1: BudgetNeverAllows!"}},
		"two budgets, one pod": {drain.SurgeAuto, all(pod("first", on("a"), order(-1)), budget("web", 1, 1, 1, named("b"))), 0, []string{"web-a1: EarlierWave", "web-a1: SeveralBudgets"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("0", "a")
			req.Surge, req.MaxParallel = c.mode, c.parallel
			s := tell(t, req, node("a", ours), node("b"), solo, c.facts)
			s.expect("evict first")
			s.holds(c.held...)
			if held := s.status("web-a1").Blockers; !held[1].Dead {
				same(t, "remedy", "wait", held[1].Remedy)
			}
		})
	}
}

// A wave that can go no further does not keep the next from being surged.
func TestDeadWaveKeepsNoSurge(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), solo, deployment("sick", 1),
		pods("sick", "a", 1, unready, order(-1)), budget("sick", 0, 1, 1, minAvailable("1")))
	s.expect("scale web to 2, was 1")
	s.holds("sick-a1: BudgetNeverAllows!", "web-a1: SurgeStarting")
}

func TestForbiddenSurgeGoesOnWithoutIt(t *testing.T) {
	for _, code := range []answers.Code{answers.Forbidden, answers.Denied, answers.Rejected} {
		s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1), pods("web", "a", 1))
		s.expect("scale web to 2, was 1")
		s.answer(code)
		s.expect("evict web-a1")
		same(t, "notes", []string{"default/web is not surged: server says " + string(code)}, s.last.Notes)
	}
}

// The autoscaler was raised, but the Deployment may not be scaled: the minimum is
// given back.
func TestForbiddenSurgeGivesTheMinimumBack(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1), pods("web", "a", 1), autoscaler("web", 1, 5))
	s.expect("scale-min web to 2, was 1")
	s.answer(answers.Accepted)
	s.then(time.Second, autoscaler("web", 2, 5, raisedBy(me, 1), scalerVersion("2")))
	s.expect("scale web to 2, was 1")
	s.answer(answers.Forbidden)
	s.expect("scale-min web to 1, no record", "evict web-a1")
}
