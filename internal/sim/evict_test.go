package sim_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

const violates = "Cannot evict pod as it would violate the pod's disruption budget."

// TestEvictionRules goes through the rows of the server's eviction handler.
func TestEvictionRules(t *testing.T) {
	phase := func(phase corev1.PodPhase) podOption {
		return func(p *snapshot.Pod) { p.Phase, p.Ready = phase, false }
	}
	unready := func(p *snapshot.Pod) { p.Ready = false }
	dead := minAvailable("9")
	for _, c := range []struct {
		name    string
		pod     podOption
		budgets []budgetOption
		status  budgetOption // the budget's status, set after it was counted
		want    answers.Answer
	}{
		{name: "no budget", want: answers.Answer{Code: answers.Accepted}},
		{name: "pending skips the budget", pod: phase(corev1.PodPending), budgets: []budgetOption{dead}, want: answers.Answer{Code: answers.Accepted}},
		{name: "failed skips the budget", pod: phase(corev1.PodFailed), budgets: []budgetOption{dead}, want: answers.Answer{Code: answers.Accepted}},
		{name: "succeeded skips the budget", pod: phase(corev1.PodSucceeded), budgets: []budgetOption{dead}, want: answers.Answer{Code: answers.Accepted}},
		{
			name: "terminating skips the budget", pod: func(p *snapshot.Pod) { p.Deletion = p.Created.Add(2 * time.Hour) },
			budgets: []budgetOption{dead}, want: answers.Answer{Code: answers.Accepted},
		},
		{
			name: "two budgets", budgets: []budgetOption{maxUnavailable("1"), maxUnavailable("1")},
			want: answers.Answer{Code: answers.SeveralBudgets, Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."},
		},
		{name: "two budgets do not matter to a pending pod", pod: phase(corev1.PodPending), budgets: []budgetOption{dead, dead}, want: answers.Answer{Code: answers.Accepted}},
		{
			name: "unready under AlwaysAllow", pod: unready, budgets: []budgetOption{dead},
			status: func(b *snapshot.Budget) { b.AlwaysAllow = true }, want: answers.Answer{Code: answers.Accepted},
		},
		{
			name: "unready while enough others are healthy", pod: unready, budgets: []budgetOption{minAvailable("1")},
			status: func(b *snapshot.Budget) { b.Current, b.Desired, b.Allowed = 1, 1, 0 }, want: answers.Answer{Code: answers.Accepted},
		},
		{
			name: "unready, and nothing is desired", pod: unready, budgets: []budgetOption{minAvailable("0")},
			status: func(b *snapshot.Budget) { b.Current, b.Desired, b.Allowed = 1, 0, 0 },
			want:   answers.Answer{Code: answers.RefusedByBudget, Message: violates + " The disruption budget b0 does not allow evicting pods currently"},
		},
		{
			name: "unready while too few are healthy", pod: unready, budgets: []budgetOption{minAvailable("2")},
			status: func(b *snapshot.Budget) { b.Current, b.Desired, b.Allowed = 1, 2, 0 },
			want:   answers.Answer{Code: answers.RefusedByBudget, Message: violates + " The disruption budget b0 needs 2 healthy pods and has 1 currently"},
		},
		{
			name: "ready under AlwaysAllow is still guarded", budgets: []budgetOption{dead},
			status: func(b *snapshot.Budget) { b.AlwaysAllow = true },
			want:   answers.Answer{Code: answers.RefusedByBudget, Message: violates + " The disruption budget b0 needs 9 healthy pods and has 2 currently"},
		},
		{
			name: "not observed yet", budgets: []budgetOption{minAvailable("1")},
			status: func(b *snapshot.Budget) { b.Observed = false },
			want: answers.Answer{
				Code: answers.RefusedForNow, RetryAfter: 10 * time.Second,
				Message: violates + " The disruption budget b0 is still being processed by the server.",
			},
		},
		{name: "allowed", budgets: []budgetOption{maxUnavailable("1")}, want: answers.Answer{Code: answers.Accepted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.node("a", "z1")
			w.workload("Deployment", "web", []string{"a", "a"})
			if p := *w.cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: "web-0"}); c.pod != nil {
				c.pod(&p)
				w.cluster.SetPod(&p)
			}
			for i, option := range c.budgets {
				w.budget("b"+string(rune('0'+i)), "web", option)
			}
			view := w.view()
			if b := view.Cluster.Budget(snapshot.Key{Namespace: "shop", Name: "b0"}); c.status != nil {
				changed := *b
				c.status(&changed)
				view.Cluster.SetBudget(&changed)
			}
			s := sim.New(view, sim.Config{Budgets: time.Second})
			got := s.Do(drain.Action{Kind: drain.Evict, Pod: podNamed(s, "web-0")})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if gone := podNamed(s, "web-0") == nil || podNamed(s, "web-0").Terminating(); gone != (got.Code == answers.Accepted) {
				t.Errorf("the pod leaves: %v, answer %s", gone, got.Code)
			}
		})
	}
}

// TestRestoringCosts: a cost that was set since stays, and what changed since it was seen is not touched.
func TestRestoringCosts(t *testing.T) {
	for _, c := range []struct {
		cost, mark, version string
		want                answers.Code
		then                string
	}{
		{snapshot.LowestCost, "d1=7", "1", answers.Accepted, "7"},
		{snapshot.LowestCost, "d1", "1", answers.Accepted, ""},
		{"100", "d1=7", "1", answers.Accepted, "100"},
		{"", "d1=7", "1", answers.Accepted, ""},
		{"100", "d1=7", "0", answers.Conflict, "100"},
	} {
		w := newWorld()
		w.node("a", "z1")
		seen := *w.pod("web", "a", func(p *snapshot.Pod) { p.DeletionCost, p.CostMark = c.cost, c.mark })
		seen.ResourceVersion = c.version
		s := sim.New(w.view(), sim.Config{})
		got := s.Do(drain.Action{Kind: drain.RestoreCost, Pod: &seen}).Code
		if cost := podNamed(s, "web").DeletionCost; got != c.want || cost != c.then {
			t.Errorf("%+v: %s, and a cost of %q", c, got, cost)
		}
	}
}

// TestLoweringCosts: of a pod that changed since it was seen no cost is lowered, and none lost.
func TestLoweringCosts(t *testing.T) {
	for version, want := range map[string]answers.Code{"1": answers.Accepted, "0": answers.Conflict} {
		w := newWorld()
		w.node("a", "z1")
		seen := *w.pod("web", "a")
		seen.ResourceVersion = version
		s := sim.New(w.view(), sim.Config{})
		got := s.Do(drain.Action{Kind: drain.LowerCost, Pod: &seen, Drain: "d1"}).Code
		if mark := podNamed(s, "web").CostMark; got != want || (mark == "d1") != (want == answers.Accepted) {
			t.Errorf("at %s: %s, and the mark %q", version, got, mark)
		}
	}
}

func podNamed(s *sim.Sim, name string) *snapshot.Pod {
	return s.Truth().Cluster.PodNamed(snapshot.Key{Namespace: "shop", Name: name})
}

func budgetNamed(s *sim.Sim, name string) *snapshot.Budget {
	return s.Truth().Cluster.Budget(snapshot.Key{Namespace: "shop", Name: name})
}

func (w *world) web(on ...string) *sim.Sim {
	return w.webIn(sim.Config{Budgets: time.Second, Ready: after(time.Minute)}, on...)
}

func after(took time.Duration) sim.Delay {
	return func(*snapshot.Pod, *rand.Rand) time.Duration { return took }
}

// webIn makes a Deployment web under a budget maxUnavailable 1.
func (w *world) webIn(cfg sim.Config, on ...string) *sim.Sim {
	w.workload("Deployment", "web", on)
	w.budget("web", "web", maxUnavailable("1"))
	return sim.New(w.view(), cfg)
}

func evict(s *sim.Sim, p *snapshot.Pod) answers.Answer {
	return s.Do(drain.Action{Kind: drain.Evict, Pod: p})
}

func TestEvictionUsesTheBudgetAtOnce(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	s := w.web("a", "a")
	if got := evict(s, podNamed(s, "web-0")).Code; got != answers.Accepted {
		t.Fatalf("first eviction: %s", got)
	}
	b := budgetNamed(s, "web")
	if _, named := b.Disrupted["web-0"]; b.Allowed != 0 || !named {
		t.Errorf("status after an eviction: allowed %d, disrupted %v", b.Allowed, b.Disrupted)
	}
	if got := evict(s, podNamed(s, "web-1")).Code; got != answers.RefusedByBudget {
		t.Errorf("second eviction: %s", got)
	}
	s.Advance(s.View().Now.Add(time.Second))
	if b := budgetNamed(s, "web"); len(b.Disrupted) != 0 || b.Current != 1 {
		t.Errorf("once the deletion was seen: current %d, disrupted %v", b.Current, b.Disrupted)
	}
}

// The server looks at the UID only when it deletes: an eviction of another pod of the
// name uses the budget for nothing.
func TestEvictionOfAnotherUID(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	s := w.web("a", "a")
	former := *podNamed(s, "web-0")
	former.UID = "another"
	if got := evict(s, &former).Code; got != answers.Gone {
		t.Errorf("got %s", got)
	}
	if podNamed(s, "web-0").Terminating() {
		t.Error("the pod that now has the name was removed")
	}
	if b := budgetNamed(s, "web"); b.Allowed != 0 {
		t.Errorf("allowed %d", b.Allowed)
	}
	s.Advance(s.View().Now.Add(2*time.Minute + 2*time.Second))
	if b := budgetNamed(s, "web"); len(b.Disrupted) != 0 || b.Allowed != 1 {
		t.Errorf("after two minutes: allowed %d, disrupted %v", b.Allowed, b.Disrupted)
	}
	unknown := snapshot.Pod{Namespace: "shop", Name: "unknown", UID: "x"}
	if got := evict(s, &unknown).Code; got != answers.Gone {
		t.Errorf("eviction of a pod that is not there: %s", got)
	}
}

func TestGrace(t *testing.T) {
	w := newWorld()
	w.node("a", "z1")
	w.pod("p", "a")
	took := func(d time.Duration) sim.Config {
		return sim.Config{Stop: after(d)}
	}
	second := time.Second
	zero := time.Duration(0)
	for _, c := range []struct {
		name  string
		cfg   sim.Config
		grace *time.Duration
		want  time.Duration
	}{
		{"the pod's own, stops earlier", took(4 * time.Second), nil, 4 * time.Second},
		{"the pod's own, does not stop by itself", took(time.Hour), nil, 30 * time.Second},
		{"asked for", took(time.Hour), &second, time.Second},
		{"at once", took(time.Hour), &zero, 0},
	} {
		s := sim.New(w.view(), c.cfg)
		s.Do(drain.Action{Kind: drain.Evict, Pod: podNamed(s, "p"), Grace: c.grace})
		for podNamed(s, "p") != nil {
			next, _ := s.Next()
			s.Advance(next)
		}
		if got := s.View().Now.Sub(w.now); got != c.want {
			t.Errorf("%s: gone after %s, want %s", c.name, got, c.want)
		}
	}
}
