package drain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// theirs is the id of a drain that a NodeMaintenance runs.
const theirs = snapshot.MaintenancePrefix + "1"

// maintained is a drain of a NodeMaintenance, in a cluster whose administrators let namespace default hold it for maxHold; 0: for ever.
func maintained(t *testing.T, maxHold time.Duration, facts ...fact) *story {
	t.Helper()
	req := ask("a")
	req.Self, req.Persistent = snapshot.Drainer{ID: theirs, By: "NodeMaintenance kernel"}, true
	s := tell(t, req, append(facts, node("a", drainedBy(theirs, start)))...)
	if maxHold > 0 {
		s.limits = map[string]snapshot.HoldLimit{"default": {Policy: "tenants", MaxHold: maxHold}}
	}
	s.led.Resume(s.view(), s.req)
	return s
}

// beat keeps the drain's claim of the node alive.
func (s *story) beat(after time.Duration) {
	s.then(after)
	node("a", drainedBy(theirs, s.now))(s.cluster)
}

// deletes decides, and returns the pods that are to be deleted, with what is said of the first.
func (s *story) deletes() (names []string, why string) {
	s.t.Helper()
	for _, a := range s.decide().Actions {
		if a.Kind == drain.Delete {
			names = append(names, a.Pod.Name)
			why = a.HoldExpired
		}
	}
	return names, why
}

func TestBudgetsHoldAMaintenanceForABoundedTime(t *testing.T) {
	exhausted := budget("db", 2, 2, 3, minAvailable("2"))
	for name, c := range map[string]struct {
		facts  []fact
		limit  time.Duration
		change func(*story)
		want   []string
	}{
		"a budget that is used up":         {[]fact{exhausted}, time.Hour, nil, []string{"db-0"}},
		"one that never allows it":         {[]fact{budget("db", 3, 3, 3, maxUnavailable("0"))}, time.Hour, nil, []string{"db-0"}},
		"one that was not looked at":       {[]fact{budget("db", 3, 2, 3, unobserved)}, time.Hour, nil, []string{"db-0"}},
		"two budgets":                      {[]fact{exhausted, budget("db", 3, 2, 3, named("more"))}, time.Hour, nil, []string{"db-0"}},
		"no limit":                         {[]fact{exhausted}, 0, nil, nil},
		"a limit that is not over":         {[]fact{exhausted}, 90 * time.Minute, nil, nil},
		"the drain of a person":            {[]fact{exhausted}, time.Hour, func(s *story) { s.req.Self.ID = me; node("a", ours)(s.cluster) }, nil},
		"a limit of another namespace":     {[]fact{exhausted}, time.Hour, func(s *story) { s.limits["other"] = s.limits["default"]; delete(s.limits, "default") }, nil},
		"an objection":                     {[]fact{exhausted, pod("db-0", ofSet("db"), on("a"), emptyDir("data"))}, time.Hour, func(s *story) { s.req.DeleteEmptyDir = false }, nil},
		"a node whose record claims a day": {[]fact{exhausted}, time.Hour, func(s *story) { s.cluster.Node("a").Drain.Since = start.Add(100 * time.Hour) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			facts := append([]fact{statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), pod("db-1", ofSet("db"), on("b"))}, c.facts...)
			s := maintained(t, c.limit, facts...)
			if c.change != nil {
				c.change(s)
			}
			if got, _ := s.deletes(); got != nil {
				t.Fatalf("deleted at once: %v", got)
			}
			s.beatAs(time.Hour)
			got, why := s.deletes()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("deleted (-want +got):\n%s%s", diff, s.where())
			}
			if want := "NodeMaintenance kernel was held for longer than maxHold 1h0m0s of ClusterEvictionPolicy tenants"; got != nil && why != want {
				t.Errorf("it says %q", why)
			}
			if s.last.Outcome != drain.Running {
				t.Errorf("outcome %q", s.last.Outcome)
			}
		})
	}
}

// beatAs is beat under whatever id the drain has, with the record's times as they are.
func (s *story) beatAs(after time.Duration) {
	s.then(after)
	n := *s.cluster.Node("a")
	record := *n.Drain
	record.Beat = s.now
	n.Drain = &record
	s.cluster.SetNode(&n)
}

// What a limit will end is waited for, and says until when; without one a budget that never allows it is stuck.
func TestHoldSaysUntilWhen(t *testing.T) {
	facts := []fact{statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), budget("db", 3, 3, 3, maxUnavailable("0"))}
	s := maintained(t, 0, facts...)
	s.decide()
	s.holds("db-0: BudgetNeverAllows!")
	s = maintained(t, time.Hour, facts...)
	s.decide()
	s.holds("db-0: BudgetNeverAllows")
	if b := s.status("db-0").Blockers[0]; !strings.HasSuffix(b.Message, "by maxHold 1h of ClusterEvictionPolicy tenants it is deleted at 2026-03-01T13:00:00Z") || !b.Retry.Equal(start.Add(time.Hour)) {
		t.Errorf("%s; again at %s", b.Message, b.Retry)
	}
}

// Of the pods under one budget one passes it at a time: the next once the one before is gone and replaced, or was waited for.
func TestOnePodPassesABudgetAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		healthy int32         // once the first is gone
		after   time.Duration // since then
		want    []string
		stays   bool // the first does not go
		grace   time.Duration
	}{
		"replaced, at once":         {2, time.Second, nil, false, 30 * time.Second},
		"replaced, and counted":     {2, 6 * time.Second, []string{"db-1"}, false, 30 * time.Second},
		"not replaced":              {1, 6 * time.Second, nil, false, 30 * time.Second},
		"not replaced for a while":  {1, 4 * time.Minute, nil, false, 30 * time.Second},
		"not replaced for too long": {1, 5*time.Minute + time.Second, []string{"db-1"}, false, 30 * time.Second},
		"not gone":                  {2, 4 * time.Minute, nil, true, 30 * time.Second},
		"not gone for too long":     {1, 6 * time.Minute, []string{"db-1"}, true, 30 * time.Second},
		"grace of years":            {2, 6 * time.Minute, nil, true, 10 * 365 * 24 * time.Hour},
		"grace of years, too long":  {2, 11 * time.Minute, []string{"db-1"}, true, 10 * 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := maintained(t, time.Hour, statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), pod("db-1", ofSet("db"), on("a")), budget("db", 2, 2, 3, minAvailable("2")))
			s.decide()
			s.beat(time.Hour)
			if got, _ := s.deletes(); !cmp.Equal([]string{"db-0"}, got) {
				t.Fatalf("deleted %v%s", got, s.where())
			}
			s.answer(answers.Accepted)
			s.beat(time.Second)
			s.then(0, pod("db-0", ofSet("db"), on("a"), endsAt(s.now.Add(c.grace))))
			if got, _ := s.deletes(); got != nil {
				t.Fatalf("deleted %v beside one that is still there", got)
			}
			s.then(0, budget("db", c.healthy, 2, 3, minAvailable("2"), budgetVersion("2")))
			if !c.stays {
				s.then(0, gone("db-0"))
			}
			s.decide()
			s.beat(c.after)
			if got, _ := s.deletes(); !cmp.Equal(c.want, got) {
				t.Errorf("deleted %v, want %v%s", got, c.want, s.where())
			}
		})
	}
}

// A budget that lets pods go one after the other holds nothing: the time counts from the last one.
func TestBudgetThatLetsPodsGoHoldsNothing(t *testing.T) {
	s := maintained(t, time.Hour, statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), pod("db-1", ofSet("db"), on("a")), pod("db-2", ofSet("db"), on("b")),
		budget("db", 3, 2, 3, minAvailable("2")))
	s.expect("evict db-0")
	s.beat(50 * time.Minute)
	s.answer(answers.Accepted)
	s.then(0, gone("db-0"), budget("db", 2, 2, 3, minAvailable("2"), budgetVersion("2")))
	s.decide()
	s.beat(55 * time.Minute)
	if got, _ := s.deletes(); got != nil {
		t.Errorf("deleted %v%s", got, s.where())
	}
	s.beat(6 * time.Minute)
	if got, _ := s.deletes(); !cmp.Equal([]string{"db-1"}, got) {
		t.Errorf("deleted %v%s", got, s.where())
	}
}

// The next leader goes on with the time on record, once it has seen a refusal for a while itself.
func TestHoldOutlivesItsLeader(t *testing.T) {
	s := maintained(t, time.Hour, statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), budget("db", 2, 2, 3, minAvailable("2")))
	s.decide()
	s.beat(2 * time.Hour)
	s.led = drain.NewLedger()
	s.led.Resume(s.view(), s.req)
	if got, _ := s.deletes(); got != nil {
		t.Fatalf("deleted %v at its first look", got)
	}
	s.beat(5 * time.Minute)
	if got, _ := s.deletes(); !cmp.Equal([]string{"db-0"}, got) {
		t.Errorf("deleted %v%s", got, s.where())
	}
}

// Drains of one process pass a budget one at a time, too.
func TestDrainsPassABudgetOneAtATime(t *testing.T) {
	for _, refused := range []bool{false, true} {
		charges := &drain.Charges{}
		s := maintained(t, time.Hour, statefulSet("db", 3), pod("db-0", ofSet("db"), on("a")), pod("db-1", ofSet("db"), on("b")), budget("db", 2, 2, 3, minAvailable("2")))
		charges.Join(s.led)
		other := s.together(charges, snapshot.MaintenancePrefix+"2", "b")
		other.then(0, node("b", drainedBy(other.req.Self.ID, start)))
		other.led.Resume(other.view(), other.req)
		s.decide()
		other.decide()
		s.beat(time.Hour)
		other.then(time.Hour, node("b", drainedBy(other.req.Self.ID, s.now)))
		if got, _ := s.deletes(); !cmp.Equal([]string{"db-0"}, got) {
			t.Fatalf("deleted %v%s", got, s.where())
		}
		if refused {
			s.answer(answers.Forbidden)
		}
		if got, _ := other.deletes(); cmp.Equal([]string{"db-1"}, got) != refused {
			t.Errorf("the first was refused %t: deleted %v%s", refused, got, other.where())
		}
	}
}

// A governed pod passes its budgets as well, maxHold after its eviction was requested: until then its responder has it.
func TestHoldOfAGovernedPodEnds(t *testing.T) {
	for name, c := range map[string]struct {
		requested time.Duration
		budgets   []fact
		want      []string
	}{
		"under a budget":          {0, []fact{budget("db", 2, 2, 3, minAvailable("2"))}, []string{"db-0"}},
		"requested a moment ago":  {time.Minute, []fact{budget("db", 2, 2, 3, minAvailable("2"))}, nil},
		"its responder may evict": {0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			both := func(p *snapshot.Pod) { governed(p); p.Labels["app"] = "db" }
			request := askedBy(theirs, "db-0", func(r *snapshot.Request) { r.Created = start.Add(c.requested) })
			s := maintained(t, time.Hour, append(c.budgets, statefulSet("db", 3), pod("db-0", ofSet("db"), on("a"), both), request, evictionOf("db-0", "responder", "evicting it"))...)
			s.decide()
			s.beat(time.Hour)
			if got, _ := s.deletes(); !cmp.Equal(c.want, got) {
				t.Errorf("deleted %v, want %v%s", got, c.want, s.where())
			}
		})
	}
}

// A pod that stays by its policy is never deleted, however long what it carries has been asked to leave: its budgets hold no eviction.
func TestNoHoldRemovesWhatStays(t *testing.T) {
	unread := gap("evictionpolicies", "forbidden", true)
	unserved := gap("evictionrequests", "not served", true)
	for name, c := range map[string]struct {
		policies fact
		holds    string
	}{
		"by its policy":                           {loads, "nova: SystemDecides"},
		"by one of two":                           {claimedTwice, "nova: SystemDecides"},
		"its policy cannot be read":               {unread, "nova: SystemDecides"},
		"a selector of its policy cannot be used": {unselected, "nova: SystemDecides"},
		"… and nothing can be requested":          {all(unselected, unserved), "nova: BudgetNeverAllows!"},
		"policies and requests cannot be read":    {all(unread, unserved), "nova: BudgetNeverAllows!"},
	} {
		t.Run(name, func(t *testing.T) {
			inBudget := func(p *snapshot.Pod) { inRole("hypervisor")(p); p.Labels["app"] = "db" }
			request := askedBy(theirs, "nova", func(r *snapshot.Request) { r.Created = start })
			s := maintained(t, time.Hour, c.policies, statefulSet("nova", 1), pod("nova", on("a"), ofSet("nova"), inBudget),
				budget("db", 1, 1, 1, minAvailable("1")), request, evictionOf("nova", "responder.usher.sh/governor", "3 machines are on it"))
			s.decide()
			s.beat(2 * time.Hour)
			if got, _ := s.deletes(); got != nil {
				t.Errorf("deleted %v%s", got, s.where())
			}
			s.holds(c.holds)
		})
	}
}
