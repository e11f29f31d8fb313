package drain_test

import (
	"fmt"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// spot is a drain whose node goes away after two minutes. Its schedule: surge at 30 s,
// short graces at 80 s (30 s of grace fit until then), last at 80 s, 10 s of reserve.
func spot(nodes ...string) drain.Request {
	req := ask(nodes...)
	req.Deadline = start.Add(2 * time.Minute)
	return req
}

func deleting(req drain.Request) drain.Request {
	req.AtDeadline = drain.AtDeadlineDelete
	return req
}

func TestLadder(t *testing.T) {
	cases := map[string]struct {
		deadline time.Duration
		pod      fact
		want     []time.Duration // evict, surge, short grace, last, end
	}{
		"two minutes":                      {2 * time.Minute, pod("web", on("a")), []time.Duration{0, 30 * time.Second, 80 * time.Second, 80 * time.Second, 2 * time.Minute}},
		"a grace of a minute":              {2 * time.Minute, pod("web", on("a"), grace(time.Minute)), []time.Duration{0, 30 * time.Second, 50 * time.Second, 80 * time.Second, 2 * time.Minute}},
		"a grace longer than all":          {2 * time.Minute, pod("web", on("a"), grace(time.Hour)), []time.Duration{0, 30 * time.Second, 30 * time.Second, 80 * time.Second, 2 * time.Minute}},
		"… of a pod that stays":            {2 * time.Minute, all(daemonSet("d"), pod("d", on("a"), ofDaemon("d"), grace(time.Hour))), []time.Duration{0, 30 * time.Second, 80 * time.Second, 80 * time.Second, 2 * time.Minute}},
		"an hour":                          {time.Hour, pod("web", on("a")), []time.Duration{0, 15 * time.Minute, 3560 * time.Second, 3560 * time.Second, time.Hour}},
		"twelve seconds":                   {12 * time.Second, pod("web", on("a"), grace(time.Second)), []time.Duration{0, 3 * time.Second, 7 * time.Second, 7 * time.Second, 12 * time.Second}},
		"a second: no time for any of it ": {time.Second, pod("web", on("a")), []time.Duration{0, -1250 * time.Millisecond, -1250 * time.Millisecond, -1250 * time.Millisecond, time.Second}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Deadline = start.Add(c.deadline)
			var got []time.Duration
			for _, r := range drain.DeadlinePhases(snapshot.View{Now: start, Cluster: cluster(node("a"), c.pod)}, req) {
				got = append(got, r.At.Sub(start))
			}
			same(t, "rungs", c.want, got)
		})
	}
	same(t, "without a deadline", nil, drain.DeadlinePhases(snapshot.View{Now: start, Cluster: cluster()}, ask("a")))
}

func TestGraceEndsBeforeTheNode(t *testing.T) {
	cases := map[string]struct {
		after time.Duration
		grace time.Duration
		flag  time.Duration // --grace-period; -1: not given
		want  string
	}{
		"it fits":                              {0, 110 * time.Second, -1, "evict web"},
		"it does not":                          {0, 111 * time.Second, -1, "evict web in 1m50s"},
		"later it fits less":                   {60 * time.Second, 55 * time.Second, -1, "evict web in 50s"},
		"whole seconds":                        {100*time.Second + 100*time.Millisecond, 30 * time.Second, -1, "evict web in 9s"},
		"a second at least":                    {115 * time.Second, 30 * time.Second, -1, "evict web in 1s"},
		"the operator's grace, if it fits":     {0, 30 * time.Second, 100 * time.Second, "evict web in 1m40s"},
		"the operator's grace, if it does not": {100 * time.Second, 5 * time.Second, time.Minute, "evict web in 10s"},
		"the operator's zero":                  {119 * time.Second, 30 * time.Second, 0, "evict web in 0s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := spot("a")
			if c.flag >= 0 {
				req.Grace = &c.flag
			}
			s := tell(t, req, node("a", drainedBy(me, start.Add(c.after))), pod("web", on("a"), grace(c.grace)))
			s.then(c.after)
			s.expect(c.want)
		})
	}
}

// An exhausted budget is surged past only once the second phase has come.
func TestSurgeRung(t *testing.T) {
	s := tell(t, spot("a"), node("a", drainedBy(me, start.Add(29*time.Second))), deployment("web", 3), pods("web", "a", 1), pods("web", "b", 1), budget("web", 2, 2, 3, maxUnavailable("1")))
	s.then(29 * time.Second)
	s.expect()
	same(t, "next", start.Add(30*time.Second), s.last.Next)
	s.then(time.Second)
	s.expect("scale web to 4, was 3")
}

func TestWavesNoLongerWait(t *testing.T) {
	s := tell(t, spot("a"), node("a", drainedBy(me, start.Add(79*time.Second))), pod("low", on("a"), endsAt(start.Add(100*time.Second))), pod("high", on("a"), priority(1)))
	s.then(79 * time.Second)
	s.expect()
	s.holds("low: Terminating", "high: EarlierWave")
	s.then(time.Second)
	s.expect("evict high")
}

// TestLongGraceVoidsNoOthersOrder: only the pod that needs the time leaves early; others keep their waves as long as their own
// graces allow.
func TestLongGraceVoidsNoOthersOrder(t *testing.T) {
	lives := func(after time.Duration) fact { return node("a", drainedBy(me, start.Add(after))) }
	s := tell(t, spot("a"), lives(29*time.Second), pod("low", on("a"), endsAt(start.Add(100*time.Second))), pod("high", on("a"), priority(1)),
		pod("next", on("a"), in("tenant"), order(1)), pod("first", on("a"), in("tenant"), endsAt(start.Add(100*time.Second))),
		pod("long", on("a"), in("tenant"), priority(2), grace(time.Hour)), daemonSet("cni"), pod("cni", on("a"), ofDaemon("cni")))
	s.req.DaemonSets = drain.DaemonSetsEvict
	s.then(29 * time.Second)
	s.expect()
	same(t, "next", start.Add(30*time.Second), s.last.Next)
	s.then(time.Second)
	s.expect("evict long in 1m20s")
	s.answer(answers.Accepted)
	s.then(49*time.Second, lives(79*time.Second), pod("long", on("a"), in("tenant"), priority(2), grace(time.Hour), endsAt(start.Add(110*time.Second))))
	s.expect()
	same(t, "next", start.Add(80*time.Second), s.last.Next)
	s.then(time.Second)
	s.expect("evict high", "evict next", "evict cni")
}

// TestLongGraceEndsNoOthersSurge: a Deployment's pods are evicted in place of being scaled away where their own grace has to
// be cut.
func TestLongGraceEndsNoOthersSurge(t *testing.T) {
	cases := map[string]struct {
		web  time.Duration
		want []string
	}{
		"another pod's": {30 * time.Second, []string{"evict other in 1m20s", "lower-cost web-a1"}},
		"its own":       {time.Hour, []string{"evict other in 1m20s", "evict web-a1 in 1m20s"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, spot("a"), node("a", drainedBy(me, start.Add(30*time.Second))), deployment("web", 2, surgedBy(me, 1, start)),
				pods("web", "a", 1, grace(c.web)), pods("web", "b", 1), pod("other", on("a"), in("tenant"), grace(time.Hour)))
			s.then(30 * time.Second)
			s.decide()
			same(t, "deeds", c.want, sorted(deeds(s.last)))
		})
	}
}

// A pod that was deleted with a grace that outlasts the node is hastened.
func TestHasten(t *testing.T) {
	beat := start.Add(90 * time.Second)
	cases := map[string]struct {
		node fact
		ends time.Duration
		want []string
	}{
		"it would outlast the node":  {node("a", drainedBy(me, beat)), time.Hour, []string{"delete web in 20s"}},
		"it ends in time":            {node("a", drainedBy(me, beat)), 110 * time.Second, nil},
		"a node of another drain":    {node("a", drainedBy("other", beat)), time.Hour, nil},
		"a node that was uncordoned": {node("a", drainedBy(me, beat), schedulable), time.Hour, nil},
		"it stays by its policy":     {all(node("a", drainedBy(me, beat)), loads), time.Hour, nil},
		"… by one of two":            {all(node("a", drainedBy(me, beat)), claimedTwice), time.Hour, nil},
		"it may stay":                {all(node("a", drainedBy(me, beat)), gap("evictionpolicies", "forbidden", true)), time.Hour, nil},
		"… by a selector of no use":  {all(node("a", drainedBy(me, beat)), unselected), time.Hour, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, spot("a"), c.node, pod("web", on("a"), inRole("hypervisor"), endsAt(start.Add(c.ends))))
			s.then(79 * time.Second)
			s.decide()
			same(t, "before the rung", nil, evictions(s.last))
			s.then(11 * time.Second)
			s.decide()
			same(t, "on the rung", c.want, evictions(s.last))
			s.answer(answers.Accepted)
			s.decide()
			same(t, "again", nil, evictions(s.last))
		})
	}
}

// At the deadline nothing is deleted that may stay by its policy.
func TestDeadlineRemovesNothingThatMayStay(t *testing.T) {
	unserved := gap("evictionrequests", "not served", true)
	for name, c := range map[string]struct {
		policies fact
		want     []string
	}{
		"its policy has no pods stay":     {func(*snapshot.Cluster) {}, []string{"delete db-0 in 1s"}},
		"policies cannot be read":         {gap("evictionpolicies", "forbidden", true), nil},
		"a selector of it cannot be used": {unselected, nil},
		"it stays by one of two policies": {claimedTwice, nil},
		"another's selector is of no use": {func(c *snapshot.Cluster) {
			c.SetPolicy(&snapshot.Policy{Namespace: "default", Name: "x", LoadUnread: true})
		}, []string{"delete db-0 in 1s"}},
		"… that of a policy it has not": {func(c *snapshot.Cluster) {
			c.SetPolicy(&snapshot.Policy{Namespace: "tenant", Name: "cloud", LoadUnread: true})
		}, []string{"delete db-0 in 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			req := spot("a")
			req.AtDeadline = drain.AtDeadlineDelete
			inBudget := func(p *snapshot.Pod) { inRole("hypervisor")(p); p.Labels["app"] = "db" }
			s := tell(t, req, node("a", drainedBy(me, start.Add(109*time.Second))), unserved, c.policies, statefulSet("db", 1), pod("db-0", on("a"), ofSet("db"), inBudget),
				budget("db", 1, 1, 1, minAvailable("1")))
			s.then(109 * time.Second)
			s.decide()
			same(t, "near the deadline", c.want, evictions(s.last))
		})
	}
}

func TestDeadlineStopsByDefault(t *testing.T) {
	s := tell(t, spot("a"), node("a", drainedBy(me, start.Add(119*time.Second))), statefulSet("db", 2), pod("db-0", on("a"), ofSet("db")), budget("db", 1, 1, 2, maxUnavailable("1")))
	s.then(119 * time.Second)
	s.expect()
	s.ends(drain.Running)
	s.then(time.Second)
	s.expect()
	s.ends(drain.DeadlinePassed)
	s.holds("db-0: BudgetExhausted")
}

// A deadline that has passed before the node was cordoned leaves it schedulable.
func TestDeadlineBeforeTheCordon(t *testing.T) {
	s := tell(t, spot("a"), node("a"), pod("web", on("a")))
	s.then(2 * time.Minute)
	s.expect()
	s.ends(drain.DeadlinePassed)
}

// A drain that begins after its deadline, as that of the next leader does, drains a node that is empty by then, and no other.
func TestBegunAfterTheDeadline(t *testing.T) {
	req := ask("a")
	req.Deadline = start.Add(-time.Minute)
	s := tell(t, req, node("a"))
	s.expect("cordon a draining")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours))
	s.expect("mark a drained")
	s.answer(answers.Accepted)
	s.then(time.Second)
	s.expect()
	s.ends(drain.Running)
	s.then(time.Second, node("a", ours, state("drained")))
	s.expect()
	s.ends(drain.Drained)

	s = tell(t, req, node("a"), pods("web", "a", 1), deployment("web", 1))
	s.expect()
	s.ends(drain.DeadlinePassed)
}

// What is only to be written is tried for a while after the deadline, and not for ever.
func TestCordonIsNotAcceptedAfterTheDeadline(t *testing.T) {
	s := tell(t, spot("a"), node("a"))
	for s.now.Before(start.Add(4 * time.Minute)) {
		s.decide()
		s.ends(drain.Running)
		s.answer(answers.Unavailable)
		s.then(30 * time.Second)
	}
	s.decide()
	s.ends(drain.DeadlinePassed)
}

func TestNothingLeftAtTheDeadlineIsDrained(t *testing.T) {
	s := tell(t, spot("a"), node("a", drainedBy(me, start.Add(2*time.Minute)), state("drained")))
	s.then(2 * time.Minute)
	s.expect()
	s.ends(drain.Drained)
}

// Deleting past budgets starts with what is best replaced and ends with what serves
// others: a tenth of the last phase for each class of risk.
func TestDeletionInSafetyOrder(t *testing.T) {
	held := func(app string) fact { return budget(app, 1, 1, 2, maxUnavailable("1")) }
	s := tell(t, deleting(spot("a")), node("a"), node("b"),
		deployment("safe", 2), pods("safe", "a", 1), pods("safe", "b", 1), held("safe"),
		deployment("last", 2), pods("last", "a", 1), pods("last", "b", 1, unready), held("last"),
		statefulSet("disk", 2), pod("disk-0", on("a"), ofSet("disk"), claims("c")), pod("disk-1", on("b"), ofSet("disk")), held("disk"),
		pod("bare", on("a"), labelled("app", "bare")), held("bare"),
		pod("dns", on("a"), labelled("app", "dns"), priority(critical)), held("dns"))
	s.req.Surge = drain.SurgeNever
	for i, want := range []string{"safe-a1", "last-a1", "disk-0", "bare", "dns"} {
		at := 80*time.Second + time.Duration(i)*3*time.Second
		s.now = start.Add(at - time.Millisecond)
		s.then(0, node("a", drainedBy(me, s.now)))
		s.decide()
		same(t, "before the turn of "+want, nil, evictions(s.last))
		s.then(time.Millisecond)
		s.decide()
		grace := 30*time.Second - time.Duration(i)*3*time.Second
		deed := "delete " + want
		if grace < 30*time.Second {
			deed += " in " + grace.String()
		}
		same(t, "at the turn of "+want, []string{deed}, evictions(s.last))
		s.answer(answers.Accepted)
	}
}

// What is not a matter of availability is not passed over, whatever the deadline.
func TestWhatDeletionRespects(t *testing.T) {
	end := start.Add(109 * time.Second)
	cases := map[string]struct {
		req    drain.Request
		facts  fact
		answer answers.Code // to an eviction just before, "" if none was sent
		want   []string
	}{
		"a budget is passed":                   {never("a"), deadSet("db", "a"), "", []string{"delete db in 1s"}},
		"two budgets are passed":               {never("a"), all(deadSet("db", "a"), budget("db", 2, 1, 2, named("x"))), "", []string{"delete db in 1s"}},
		"local data is not":                    {asked(force), all(deadSet("db", "a", emptyDir("x")), node("a", drainedBy(me, end))), "", nil},
		"a bare pod is not":                    {asked(), all(pod("bare", on("a"), labelled("app", "db")), budget("db", 1, 1, 1, maxUnavailable("0"))), "", nil},
		"a node that waits its turn is not":    {parallel(1, "b", "a"), all(deadSet("db", "a"), budget("db", 1, 1, 2, maxUnavailable("1")), node("b", drainedBy(me, end)), pod("x", on("b"), endsAt(end.Add(time.Second)))), "", nil},
		"a webhook is not":                     {never("a"), pod("db", on("a")), answers.Denied, nil},
		"a missing right is not":               {never("a"), pod("db", on("a")), answers.Forbidden, nil},
		"a namespace that ends is not":         {never("a"), pod("db", on("a")), answers.NamespaceTerminating, nil},
		"a budget that is not shown is":        {never("a"), pod("db", on("a")), answers.RefusedByBudget, []string{"delete db in 1s"}},
		"a budget that is not up to date is":   {never("a"), all(deadSet("db", "a"), budget("db", 1, 1, 1, unobserved)), "", []string{"delete db in 1s"}},
		"a server that does not answer is not": {never("a"), pod("db", on("a")), answers.Unavailable, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := deleting(c.req)
			req.Deadline = start.Add(2 * time.Minute)
			s := tell(t, req, node("a", drainedBy(me, end)), c.facts)
			s.now = end.Add(-100 * time.Millisecond)
			if c.answer != "" {
				s.decide()
				s.answer(c.answer)
				s.then(time.Millisecond)
			} else {
				s.then(900 * time.Millisecond)
			}
			s.decide()
			want := c.want
			if c.answer != "" && want != nil {
				want = []string{"delete db in 1s"}
			}
			same(t, "deletions", want, evictions(s.last))
		})
	}
}

// A webhook may refuse evictions only, and with the code by which a server asks to wait: what it has refused is not deleted past a budget either.
func TestWhatAdmissionRefusesIsNotDeletedAtTheDeadline(t *testing.T) {
	for admission, want := range map[bool][]string{true: nil, false: {"delete db in 1s"}} {
		t.Run(fmt.Sprint(admission), func(t *testing.T) {
			end := start.Add(109 * time.Second)
			req := deleting(asked(force))
			req.Deadline = start.Add(2 * time.Minute)
			s := tell(t, req, node("a", ours), deadSet("db", "a"), budget("db", 1, 0, 1, minAvailable("0")))
			s.expect("evict db")
			s.say("evict db", answers.Answer{Code: answers.RefusedForNow, Admission: admission, RetryAfter: time.Second})
			s.now = end
			s.then(900*time.Millisecond, node("a", drainedBy(me, end)), budget("db", 1, 1, 1, minAvailable("1")))
			s.decide()
			same(t, "deletions", want, evictions(s.last))
		})
	}
}

func parallel(n int, nodes ...string) drain.Request {
	req := never(nodes...)
	req.MaxParallel = n
	return req
}

// A deletion that is refused is not sent again in a hurry.
func TestRefusedDeletionBacksOff(t *testing.T) {
	cases := map[answers.Code]time.Duration{answers.Forbidden: 0, answers.Denied: 5 * time.Second, answers.Unavailable: time.Second, answers.RefusedForNow: time.Second, answers.Conflict: 250 * time.Millisecond}
	for code, wait := range cases {
		t.Run(string(code), func(t *testing.T) {
			beat := start.Add(95 * time.Second)
			s := tell(t, deleting(spot("a")), node("a", drainedBy(me, beat)), deadSet("db", "a"))
			s.now = beat
			s.decide()
			same(t, "deletions", []string{"delete db in 15s"}, evictions(s.last))
			s.answer(code)
			s.decide()
			same(t, "deletions after the refusal", nil, evictions(s.last))
			s.then(max(wait-time.Millisecond, 0))
			s.decide()
			same(t, "deletions before its time", nil, evictions(s.last))
			s.then(time.Millisecond)
			s.decide()
			if got := len(evictions(s.last)); (got == 1) != (wait > 0) {
				t.Errorf("%d deletions after %s%s", got, wait, s.where())
			}
		})
	}
}

func TestRungIsSaid(t *testing.T) {
	s := tell(t, spot("a"), node("a", ours), pod("web", on("a")))
	texts := map[string]bool{}
	for _, after := range []time.Duration{0, 30 * time.Second, 50 * time.Second, 40 * time.Second} {
		s.then(after)
		s.decide()
		texts[s.last.Phase] = true
	}
	if len(texts) != 4 || texts[""] {
		t.Errorf("the rungs are said in these words: %v", texts)
	}
}
