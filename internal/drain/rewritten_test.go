package drain_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// A namespace's users can write the records of a surge as often as they like: the drain ends all the same.
func TestRewrittenRecordsEndTheDrain(t *testing.T) {
	long := start.Add(-time.Hour)
	by := func(id string, beat func(now time.Time) time.Time) func(now time.Time) fact {
		return func(now time.Time) fact { return deployment("web", 2, surgedBy(id, 1, beat(now))) }
	}
	old := func(time.Time) time.Time { return long }
	fresh := func(now time.Time) time.Time { return now }
	raised := func(now time.Time) fact {
		return all(deployment("web", 2, surgedBy("other", 1, long)), autoscaler("web", 2, 5, raisedBy("other", 1)))
	}
	cases := map[string]struct {
		write func(now time.Time) fact
		code  answers.Code
	}{
		"of a dead drain":                          {by("other", old), answers.Accepted},
		"of a dead drain, on its autoscaler, too":  {raised, answers.Accepted},
		"of a drain with a sign of life each time": {by("other", fresh), answers.Accepted},
		"of this very drain":                       {by(me, fresh), answers.Accepted},
		"of a dead drain, between read and write":  {by("other", old), answers.Conflict},
		"of this very drain, between …":            {by(me, fresh), answers.Conflict},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), solo)
			for turn := range 2000 {
				now := strconv.Itoa(turn)
				s.then(time.Second, c.write(s.now), versions(now))
				if s.decide(); s.last.Outcome != drain.Running {
					s.ends(drain.Blocked)
					endsSettled(s, c.code)
					return
				}
				for _, a := range s.open {
					if a.Kind == drain.Mark {
						s.led.Answer(a, answers.Answer{Code: answers.Accepted}, s.now)
						s.then(0, node("a", drainedBy(me, s.now), state(a.Record.State), version(now)))
						continue
					}
					s.led.Answer(a, answers.Answer{Code: c.code, Message: "changed"}, s.now)
				}
				s.open = nil
			}
			t.Errorf("the drain does not end%s", s.where())
		})
	}
}

// A namespace's users who write another drain's record over this drain's each time hold its pod for minutes, not for good.
func TestRecordOfASurgeIsReplacedEachTime(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1), pods("web", "a", 1))
	s.led.Resume(s.view(), s.req)
	forged := func() fact {
		return deployment("web", 2, surgedBy("other", 1, s.now), at(strconv.Itoa(int(s.now.Unix()))))
	}
	for range 600 {
		s.then(time.Second, node("a", drainedBy(me, s.now)))
		s.decide()
		for _, a := range s.open {
			s.led.Answer(a, answers.Answer{Code: answers.Accepted}, s.now)
			switch {
			case a.Kind == drain.Evict:
				return
			case a.Kind == drain.Scale && a.Surge == nil:
				s.then(time.Second, deployment("web", 1, at(strconv.Itoa(int(s.now.Unix())))))
			case a.Kind == drain.Scale:
				s.then(time.Second, forged())
			}
		}
		s.open = nil
	}
	t.Errorf("the pod is not evicted within ten minutes%s", s.where())
}

// versions gives what namespaces' users write another resource version.
func versions(version string) fact {
	return func(c *clusterOf) {
		if w := c.Workload("uid-web"); w != nil {
			changed := *w
			changed.ResourceVersion = version
			c.SetWorkload(&changed)
		}
		for _, a := range c.SurgedAutoscalers() {
			changed := *a
			changed.ResourceVersion = version
			c.SetAutoscaler(&changed)
		}
	}
}

// endsSettled plays the end of the drain, in which records are written no more: thirty conflicts on the workload
// and thirty on its node, five seconds apart at most.
func endsSettled(s *story, code answers.Code) {
	s.t.Helper()
	s.led.End(s.last.Outcome)
	for range 300 {
		s.answer(code)
		if s.decide().Settled {
			return
		}
		s.then(time.Second)
	}
	s.t.Errorf("the drain does not settle%s", s.where())
}

// Undoing what killed drains have left, which comes before a drain, ends as well.
func TestRewrittenLeftoversAreLeft(t *testing.T) {
	cases := map[string]fact{
		"a surge":         deployment("web", 2, surgedBy("other", 1, start.Add(-time.Hour))),
		"a deletion cost": pod("p", on("a"), of("web"), marked("other=7")),
	}
	for name, written := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"))
			for turn := range 20 {
				s.then(time.Second, written, versions(strconv.Itoa(turn)), podVersion("p", strconv.Itoa(turn)))
				decision := drain.Leftovers(s.view(), map[string]bool{"other": true}, s.led)
				if decision.Settled {
					same(t, "notes", 1, len(decision.Notes))
					same(t, "turns", 3, turn)
					return
				}
				for _, a := range decision.Actions {
					s.led.Begin(a, s.now)
					s.led.Answer(a, answers.Answer{Code: answers.Accepted}, s.now)
				}
			}
			t.Error("undoing does not end")
		})
	}
}

func podVersion(name, version string) fact {
	return func(c *clusterOf) {
		for _, p := range c.PodsIn("default") {
			if p.Name == name {
				changed := *p
				changed.ResourceVersion = version
				c.SetPod(&changed)
			}
		}
	}
}

// Records that are taken off and written again in turn, on a Deployment and on its autoscaler, are undone a few times.
func TestMinimumThatIsRaisedEachTime(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours, state("drained")))
	writes := 0
	for turn := range 60 {
		v := strconv.Itoa(turn)
		raised := autoscaler("web", 3, 5, raisedBy(me, 1), fromBase(2), scalerVersion(v))
		s.then(time.Second, []fact{
			all(deployment("web", 3, at(v)), raised),
			all(deployment("web", 3, surgedBy(me, 2, s.now), at(v)), autoscaler("web", 1, 5, scalerVersion(v))),
			all(deployment("web", 2, at(v)), raised),
		}[turn%3])
		writes += len(s.decide().Actions)
		if s.last.Outcome != drain.Running {
			s.ends(drain.Drained)
			same(t, "writes", 5, writes)
			return
		}
		s.answer(answers.Accepted)
	}
	t.Errorf("the drain does not end, after %d writes%s", writes, s.where())
}

// A mark that is taken off each time is written a few times; then the pod leaves as one whose cost may not be changed.
func TestMarkThatIsTakenOff(t *testing.T) {
	cases := map[string]struct {
		budget fact
		want   string
		held   []string
	}{
		"no budget":                {all(), "evict web-a1", nil},
		"a budget that lets it go": {budget("web", 2, 1, 2, minAvailable("1")), "evict web-a1", nil},
		"one that never does":      {budget("web", 2, 2, 2, maxUnavailable("0")), "mark a blocked", []string{"web-a1: BudgetNeverAllows!", "web-a1: SurgeStarting!"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours), deployment("web", 2, surgedBy(me, 1, start)), pods("web", "a", 1), pods("web", "b", 1), c.budget)
			for turn := range 3 {
				s.then(time.Second, podVersion("web-a1", strconv.Itoa(turn+2)))
				s.expect("lower-cost web-a1")
				s.answer(answers.Accepted)
			}
			s.then(time.Second, podVersion("web-a1", "9"))
			s.expect(c.want)
			s.holds(c.held...)
			if len(c.held) == 0 {
				return
			}
			b := s.status("web-a1").Blockers[1]
			same(t, "message", "its replacement is ready; it can leave only by an eviction, which its budgets never allow, since its lowest deletion cost is taken off each time", b.Message)
			same(t, "remedy", "see what writes it: kubectl get pod -n default web-a1 -o yaml --show-managed-fields", b.Remedy)
		})
	}
}

// A tenant who takes the mark off each time, under a budget that allows nothing, holds a maintenance for no longer than maxHold.
func TestMarkThatIsTakenOffEndsAHold(t *testing.T) {
	s := maintained(t, time.Hour, deployment("web", 2, surgedBy(theirs, 1, start)), pods("web", "a", 1), pods("web", "b", 1), budget("web", 2, 2, 2, maxUnavailable("0")))
	for turn := range 3 {
		s.then(time.Second, podVersion("web-a1", strconv.Itoa(turn+2)))
		s.expect("lower-cost web-a1")
		s.answer(answers.Accepted)
	}
	s.then(time.Second, podVersion("web-a1", "9"))
	s.expect()
	s.holds("web-a1: BudgetNeverAllows", "web-a1: SurgeStarting")
	s.beat(time.Hour)
	if names, _ := s.deletes(); len(names) != 1 {
		t.Errorf("after an hour %v is deleted%s", names, s.where())
	}
}

// A tenant whose pods have the lowest deletion cost deletes one of those that leave in each surge. After three scalings down that have taken
// none of them away, they leave by evictions.
func TestScalingsDownThatTakeNoneAreCounted(t *testing.T) {
	const n = 8
	lowest := func(p *snapshot.Pod) { p.DeletionCost = snapshot.LowestCost }
	name := func(node string, i int) string { return fmt.Sprintf("web-%s%d", node, i) }
	s := tell(t, always("a"), node("a", ours), node("b"), deployment("web", n), pods("web", "a", n, lowest))
	changes := 1
	changed := func() func(*snapshot.Workload) {
		changes++
		return at(strconv.Itoa(changes))
	}
	// turn returns what a decision scales to, and whether it evicts.
	turn := func(facts ...fact) (scaled int32, evicts bool) {
		s.then(time.Second, append(facts, node("a", drainedBy(me, s.now.Add(time.Second))))...)
		for _, a := range s.decide().Actions {
			if a.Kind == drain.Scale {
				scaled = a.Replicas
			}
			evicts = evicts || a.Kind == drain.Evict
		}
		s.answer(answers.Accepted)
		return scaled, evicts
	}
	for deleted := range 4 {
		left := n - deleted
		if got, _ := turn(); got != int32(n+left) {
			t.Fatalf("surge %d: scaled to %d, want %d%s", deleted, got, n+left, s.where())
		}
		var marks []fact
		for i := deleted + 1; i <= n; i++ {
			marks = append(marks, pod(name("a", i), of("web"), on("a"), lowest, marked(me)))
		}
		s.then(time.Minute, deployment("web", int32(n+left), surgedBy(me, n, s.now), changed()), pods("web", "b", n, lowest, readySince(start)))
		got, evicts := turn(marks...)
		if !evicts && got == 0 {
			got, evicts = turn()
		}
		if evicts != (deleted == 3) || !evicts && got != n {
			t.Fatalf("surge %d: scaled to %d, evicts: %t%s", deleted, got, evicts, s.where())
		}
		var younger []string // which the ReplicaSet removes: their cost is as low
		for i := deleted + 2; i <= n; i++ {
			younger = append(younger, name("b", i))
		}
		s.then(20*time.Second, deployment("web", n, changed()), gone(younger...), gone(name("a", deleted+1)), pods("web", "b", deleted+1, lowest, readySince(start)))
	}
}
