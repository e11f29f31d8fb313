package drain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// run plays some turns with drawn answers, which the same draws give to every run,
// and returns what was decided. The cluster does not react: what matters is that the
// ledger fills with everything that may be in it.
func run(w world, codes []answers.Code, shuffled []fact, check func(snapshot.View, *drain.Ledger, drain.Decision)) []drain.Decision {
	view := snapshot.View{Now: start, Cluster: cluster(shuffled...)}
	led := drain.NewLedger()
	var decided []drain.Decision
	for _, code := range codes {
		led.Observe(view)
		d := drain.Decide(view, w.req, led)
		check(view, led, d)
		led.Note(&d, view.Now)
		decided = append(decided, d)
		for i, a := range d.Actions {
			led.Begin(a, view.Now)
			if code != "" && i%2 == 0 {
				led.Answer(a, answers.Answer{Code: code, Message: string(code)}, view.Now)
			}
		}
		if d.Outcome != drain.Running {
			led.End(d.Outcome)
		}
		view.Now = view.Now.Add(7 * time.Second)
	}
	return decided
}

var genAnswers = rapid.SliceOfN(rapid.SampledFrom([]answers.Code{
	"", answers.Accepted, answers.Accepted, answers.Gone, answers.Conflict, answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets,
	answers.Denied, answers.NamespaceTerminating, answers.Forbidden, answers.Unavailable, answers.Rejected,
}), 1, 8)

// sameDecision compares without the identity of facts: two clusters built from the
// same facts hold different copies of some.
func sameDecision(a, b drain.Decision) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(drain.Action{}))
}

func TestStepDoesWhatDecideDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld.Draw(t, "world")
		run(w, genAnswers.Draw(t, "answers"), w.facts, func(view snapshot.View, led *drain.Ledger, d drain.Decision) {
			step := drain.Step(view, w.req, led)
			if diff := cmp.Diff(deeds(d), deeds(step)); diff != "" {
				t.Fatalf("actions of Decide and Step differ:\n%s", diff)
			}
			if d.Outcome != step.Outcome || d.Settled != step.Settled {
				t.Fatalf("Decide ends %q (settled %v), Step ends %q (settled %v)", d.Outcome, d.Settled, step.Outcome, step.Settled)
			}
		})
	})
}

func TestDecideChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld.Draw(t, "world")
		run(w, genAnswers.Draw(t, "answers"), w.facts, func(view snapshot.View, led *drain.Ledger, d drain.Decision) {
			before := picture(view.Cluster)
			if diff := sameDecision(d, drain.Decide(view, w.req, led)); diff != "" {
				t.Fatalf("the second look decides otherwise, so the first has changed the ledger or the cluster:\n%s", diff)
			}
			if diff := cmp.Diff(before, picture(view.Cluster), compareSelectors); diff != "" {
				t.Fatalf("facts were changed:\n%s", diff)
			}
		})
	})
}

// The order in which facts came in does not matter.
func TestDecideIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld.Draw(t, "world")
		codes := genAnswers.Draw(t, "answers")
		ignore := func(snapshot.View, *drain.Ledger, drain.Decision) {}
		one := run(w, codes, w.facts, ignore)
		two := run(w, codes, rapid.Permutation(w.facts).Draw(t, "shuffled"), ignore)
		for i := range one {
			if diff := sameDecision(one[i], two[i]); diff != "" {
				t.Fatalf("turn %d differs:\n%s", i, diff)
			}
		}
	})
}

// Nothing is waited for in silence: a drain that goes on is about to act, waits for an
// answer or an event that a blocker names, or names a time at which it looks again.
func TestNoSilence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld.Draw(t, "world")
		run(w, genAnswers.Draw(t, "answers"), w.facts, func(_ snapshot.View, led *drain.Ledger, d drain.Decision) {
			if led.Ending() != drain.Running || d.Outcome != drain.Running || led.InFlight() || len(d.Actions) > 0 {
				return
			}
			if len(d.Blockers()) == 0 && d.Next.IsZero() {
				t.Fatalf("it goes on, says nothing and will never look again: %+v", d)
			}
		})
	})
}

// A blocked drain says what blocks it, and every pod that is left has its reason.
func TestBlockedDrainsSayWhy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld.Draw(t, "world")
		run(w, genAnswers.Draw(t, "answers"), w.facts, func(_ snapshot.View, led *drain.Ledger, d drain.Decision) {
			if d.Outcome == drain.Blocked && len(d.Blockers()) == 0 {
				t.Fatalf("blocked by nothing (ending %q): %+v", led.Ending(), d.Nodes)
			}
			for _, b := range d.Blockers() {
				if b.Message == "" || b.Remedy == "" || b.Reason == "" || b.Node == "" {
					t.Fatalf("a blocker without words: %+v", b)
				}
			}
		})
	})
}

var compareSelectors = cmp.Comparer(func(a, b labels.Selector) bool { return a.String() == b.String() })

// picture copies every fact of a cluster.
func picture(c *snapshot.Cluster) map[string]any {
	facts := map[string]any{}
	c.EachPod(func(p *snapshot.Pod) { facts["pod "+p.Name] = *p })
	for _, n := range c.Nodes() {
		facts["node "+n.Name] = *n
		if n.Drain != nil {
			facts["record "+n.Name] = *n.Drain
		}
	}
	for _, b := range c.Budgets() {
		facts["budget "+b.Name] = *b
	}
	for _, w := range c.Workloads() {
		facts[w.Kind+" "+w.Name] = *w
		if w.Surge != nil {
			facts["surge "+w.Name] = *w.Surge
		}
	}
	for _, a := range c.Autoscalers() {
		facts["autoscaler "+a.Name] = *a
		if a.Surge != nil {
			facts["raise "+a.Name] = *a.Surge
		}
	}
	return facts
}
