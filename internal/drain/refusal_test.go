package drain_test

import (
	"fmt"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// Every refusal is a blocker with the server's words, and is asked again when it may
// have cleared: then, and not before.
func TestRefusals(t *testing.T) {
	cases := map[answers.Code]struct {
		held  string
		again time.Duration // 0: never
	}{
		answers.Conflict:             {"web: ChangedMeanwhile", 250 * time.Millisecond},
		answers.RefusedByBudget:      {"web: BudgetExhausted", 10 * time.Second},
		answers.RefusedForNow:        {"web: ServerAskedToWait", time.Second},
		answers.SeveralBudgets:       {"web: SeveralBudgets", 10 * time.Second},
		answers.Denied:               {"web: DeniedByAdmission", 5 * time.Second},
		answers.NamespaceTerminating: {"web: NamespaceTerminating", 10 * time.Second},
		answers.Unavailable:          {"web: ServerUnavailable", time.Second},
		answers.Forbidden:            {"web: NoPermission!", 0},
		answers.Rejected:             {"web: RejectedByServer!", 0},
	}
	for code, c := range cases {
		t.Run(string(code), func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours, version("9")), pod("web", on("a"), of("web")))
			s.expect("evict web")
			s.answer(code)
			if c.again == 0 {
				s.expect("mark a blocked")
				s.holds(c.held)
				s.answer(answers.Accepted)
				s.then(time.Hour, node("a", drainedBy(me, start.Add(time.Hour)), state("blocked")))
				s.expect()
				return
			}
			s.expect()
			s.holds(c.held)
			s.ends(drain.Running)
			same(t, "message", "server says "+string(code), s.status("web").Blockers[0].Message)
			if want := start.Add(c.again); s.last.Next.After(want) || s.status("web").Blockers[0].Retry != want {
				t.Errorf("next look %v, retry %v, want %v", s.last.Next, s.status("web").Blockers[0].Retry, want)
			}
			s.then(c.again - time.Millisecond)
			s.expect()
			s.then(time.Millisecond)
			s.expect("evict web")
		})
	}
}

func TestServersRetryAfterIsKept(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a"), of("web")))
	s.expect("evict web")
	s.say("evict web", answers.Answer{Code: answers.RefusedForNow, RetryAfter: 12 * time.Second})
	s.then(11 * time.Second)
	s.expect()
	s.then(time.Second)
	s.expect("evict web")
}

func TestRefusalsBackOff(t *testing.T) {
	cases := map[answers.Code][]time.Duration{
		answers.Unavailable: {1, 2, 4, 8, 16, 30, 30},
		answers.Denied:      {5, 10, 20, 40, 80, 120, 120},
	}
	for code, waits := range cases {
		t.Run(string(code), func(t *testing.T) {
			s := tell(t, ask("a"), pod("web", on("a"), of("web")))
			for _, seconds := range waits {
				s.then(0, node("a", drainedBy(me, s.now)))
				s.expect("evict web")
				s.answer(code)
				s.decide()
				same(t, "retry", s.now.Add(seconds*time.Second), s.status("web").Blockers[0].Retry)
				s.then(seconds * time.Second)
			}
		})
	}
}

func TestAnAcceptedEvictionStartsTheBackOffAnew(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a"), of("web")))
	for _, wait := range []time.Duration{time.Second, 2 * time.Second} {
		s.expect("evict web")
		s.answer(answers.Unavailable)
		s.then(wait)
	}
	s.expect("evict web")
	s.answer(answers.Accepted)
	s.then(30*time.Second, node("a", drainedBy(me, start.Add(30*time.Second))))
	s.expect("evict web") // it was never seen to go
	s.answer(answers.Unavailable)
	s.decide()
	same(t, "retry", s.now.Add(time.Second), s.status("web").Blockers[0].Retry)
}

// A budget that refuses although its status had room is asked again when its status
// changes, without waiting.
func TestRefusedByBudgetIsAskedAgainWhenTheBudgetMoves(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 3), pod("web", on("a"), of("web")), pods("web", "b", 2), budget("web", 3, 2, 3))
	s.expect("evict web")
	s.answer(answers.RefusedByBudget)
	s.expect()
	s.holds("web: BudgetExhausted")
	s.then(time.Second, budget("web", 3, 2, 3, budgetVersion("2")))
	s.expect("evict web")
}

// Where the budget's own status says why, the server's shorter words are left out.
func TestBudgetExplainsTheRefusal(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), deployment("web", 3), pod("web", on("a"), of("web")), pods("web", "b", 2), budget("web", 3, 2, 3))
	s.expect("evict web")
	s.answer(answers.RefusedByBudget)
	s.then(time.Millisecond, budget("web", 2, 2, 3, budgetVersion("2")))
	s.expect()
	s.holds("web: BudgetExhausted")
	same(t, "message", "budget web needs 2 healthy and has 2", s.status("web").Blockers[0].Message)
}

// A name that now belongs to another pod is another pod.
func TestRecreatedPodIsNotTouchedElsewhere(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), statefulSet("db", 2), pod("db-0", on("a"), ofSet("db")))
	s.expect("evict db-0")
	s.answer(answers.Gone)
	s.then(time.Millisecond, pod("db-0", on("b"), ofSet("db"), uid("new")))
	s.expect("mark a drained")
}

func TestPodThatIsSeenAfterGoneIsAskedAgainLater(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a"), of("web")))
	s.expect("evict web")
	s.answer(answers.Gone)
	s.then(29 * time.Second)
	s.decide()
	same(t, "evictions", nil, evictions(s.last))
	s.then(time.Second)
	s.decide()
	same(t, "evictions", []string{"evict web"}, evictions(s.last))
}

func TestAllPodsForbiddenIsNoAccess(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("one", on("a")), pod("two", on("a")))
	s.expect("evict one", "evict two")
	s.answer(answers.Forbidden)
	s.expect("mark a blocked")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, state("blocked"), version("2")))
	s.expect()
	s.ends(drain.NoAccess)
}

func TestDisabledEvictionDeletes(t *testing.T) {
	req := ask("a")
	req.DisableEviction = true
	s := tell(t, req, node("a", ours), statefulSet("db", 1), pod("db-0", on("a"), ofSet("db")), budget("db", 1, 1, 1, minAvailable("1")))
	s.expect("delete db-0")
	s.answer(answers.Forbidden)
	s.expect("mark a blocked")
	s.holds("db-0: NoPermission!")
}

// What the server says of pods that may not be removed differs in their names only, and is said once for all of them.
func TestForbiddenNamesTheRightAndNoPod(t *testing.T) {
	cases := map[bool]struct{ deed, words, remedy string }{
		false: {"evict", `User "u" cannot create resource "pods/eviction"`, "ask for the right to create pods/eviction in namespace default"},
		true:  {"delete", `User "u" cannot delete resource "pods"`, "ask for the right to delete pods in namespace default"},
	}
	for disabled, c := range cases {
		req := ask("a")
		req.DisableEviction = disabled
		s := tell(t, req, node("a", ours), pod("one", on("a")), pod("two", on("a")))
		s.decide()
		for _, name := range []string{"one", "two"} {
			s.say(c.deed+" "+name, answers.Answer{Code: answers.Forbidden, Message: fmt.Sprintf("pods %q is forbidden: %s", name, c.words)})
		}
		s.decide()
		for _, b := range s.last.Blockers() {
			same(t, "message", c.words, b.Message)
			same(t, "remedy", c.remedy, b.Remedy)
		}
		s.holds("one: NoPermission!", "two: NoPermission!")
	}
}

func TestGracePeriod(t *testing.T) {
	req := ask("a")
	five := 5 * time.Second
	req.Grace = &five
	s := tell(t, req, node("a", ours), pod("web", on("a")))
	s.expect("evict web in 5s")
}
