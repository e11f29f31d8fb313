package drain_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// interrupted is a drain that a notice makes of node a, which goes two minutes after the drain has begun. Another node has room.
func interrupted(t *testing.T, facts ...fact) *story {
	t.Helper()
	s := maintained(t, 0, append(facts, node("free"))...)
	s.req.Deadline, s.req.NodeGoes = start.Add(2*time.Minute), true
	return s
}

// warned returns "pod: reason" for every warning of the last decision.
func (s *story) warned() (lines []string) {
	for _, w := range s.last.Warnings {
		lines = append(lines, w.Pod.Name+": "+string(w.Reason))
	}
	return lines
}

// says returns the words of the only warning, in two lines.
func (s *story) says() []string {
	s.t.Helper()
	if len(s.last.Warnings) != 1 {
		s.t.Fatalf("warnings: %v%s", s.warned(), s.where())
	}
	return []string{s.last.Warnings[0].Message, s.last.Warnings[0].Remedy}
}

// expects is when the responder of a pod expects to be done with it.
func expects(pod string, after time.Duration) fact {
	return func(c *snapshot.Cluster) {
		e := *c.EvictionOf(c.Pod(types.UID("uid-" + pod)))
		e.Expected = start.Add(after)
		c.SetEviction(&e)
	}
}

// prepares is policy db, which has a step under way for the pod.
func prepares(pod string) fact {
	return func(c *snapshot.Cluster) {
		c.SetPolicy(&snapshot.Policy{Namespace: "default", Name: "db", UID: "policy-db", Prepares: []types.UID{types.UID("uid-" + pod)}})
	}
}

func TestWarningsOfANotice(t *testing.T) {
	dead := budget("db", 3, 3, 3, maxUnavailable("0"))
	used := budget("db", 2, 2, 3, minAvailable("2"))
	db := all(statefulSet("db", 3), pod("db-0", on("a"), ofSet("db")))
	web := all(deployment("web", 3), pods("web", "a", 1), pods("web", "b", 1))
	member := all(statefulSet("db", 3), pod("db-0", on("a"), ofSet("db"), governed), askedBy(theirs, "db-0"))
	said := func(message string) fact { return evictionOf("db-0", "x.io/y", message) }
	for name, c := range map[string]struct {
		facts  []fact
		after  time.Duration
		change func(*story)
		want   []string
	}{
		"what leaves in time and comes back":       {facts: []fact{db}},
		"what nothing replaces":                    {facts: []fact{pod("once", on("a"))}, want: []string{"once: UnreplicatedPod"}},
		"what its DaemonSet does not any more":     {facts: []fact{pod("cni", on("a"), ofDaemon("cni"))}, want: []string{"cni: OrphanedDaemonSetPod"}},
		"a DaemonSet's pod, which stays":           {facts: []fact{daemonSet("cni"), pod("cni", on("a"), ofDaemon("cni"), emptyDir("tmp"))}},
		"local data":                               {facts: []fact{db, pod("db-1", on("a"), ofSet("db"), emptyDir("tmp"))}, want: []string{"db-1: LocalStorage"}},
		"both":                                     {facts: []fact{pod("once", on("a"), emptyDir("tmp"))}, want: []string{"once: UnreplicatedPod", "once: LocalStorage"}},
		"of a pod that has ended":                  {facts: []fact{pod("once", on("a"), emptyDir("tmp"), phase("Succeeded"))}},
		"of one on another node":                   {facts: []fact{pod("once", on("b"), emptyDir("tmp"))}},
		"of one that objects":                      {facts: []fact{pod("once", on("a"))}, change: func(s *story) { s.req.Force = false }, want: []string{"once: WillBeLost"}},
		"a budget that never allows it":            {facts: []fact{db, dead}, want: []string{"db-0: WillBeLost"}},
		"… and is passed at the deadline":          {facts: []fact{db, dead}, change: func(s *story) { s.req.AtDeadline = drain.AtDeadlineDelete }},
		"… of a node that stays":                   {facts: []fact{db, dead}, change: func(s *story) { s.req.NodeGoes = false }, want: []string{"db-0: NotInTime"}},
		"… without a deadline":                     {facts: []fact{db, dead}, change: func(s *story) { s.req.Deadline = time.Time{} }},
		"… where a limit of holds ends it in time": {facts: []fact{db, dead}, change: hold(time.Minute)},
		"… and later":                              {facts: []fact{db, dead}, change: hold(time.Hour), want: []string{"db-0: WillBeLost"}},
		"a budget that allows none now":            {facts: []fact{db, used}, want: []string{"db-0: WillBeLost"}},
		"… with a surge to come":                   {facts: []fact{web, node("b"), budget("web", 2, 2, 3, maxUnavailable("1"))}},
		"… and none that may":                      {facts: []fact{web, node("b"), budget("web", 2, 2, 3, maxUnavailable("1"))}, change: func(s *story) { s.req.Surge = drain.SurgeNever }, want: []string{"web-a1: WillBeLost"}},
		"… since its pods are being evicted":       {facts: []fact{db, budget("db", 3, 2, 3, minAvailable("2")), pod("db-1", on("a"), ofSet("db"))}},
		"two budgets":                              {facts: []fact{db, used, budget("db", 3, 2, 3, named("more"))}, want: []string{"db-0: WillBeLost"}},
		"a responder that never lets it go":        {facts: []fact{member, said("Never: it is a single server")}, want: []string{"db-0: WillBeLost"}},
		"… that expects to be done in time":        {facts: []fact{member, said("moving"), expects("db-0", time.Minute)}, after: time.Minute},
		"… that expects to be done later":          {facts: []fact{member, said("moving"), expects("db-0", 3*time.Minute)}, want: []string{"db-0: WillBeLost"}},
		"… that keeps it":                          {facts: []fact{member, said("another member is down")}, after: 10 * time.Second, want: []string{"db-0: WillBeLost"}},
		"… that has begun a moment ago":            {facts: []fact{member, said("another member is down")}, after: 9 * time.Second},
		"… that has a step under way":              {facts: []fact{member, said("shards move"), prepares("db-0")}, after: time.Minute},
		"… that does not pass it at the deadline":  {facts: []fact{member, said("Never: no")}, change: func(s *story) { s.req.AtDeadline = drain.AtDeadlineDelete }, want: []string{"db-0: WillBeLost"}},
		"a grace that fits":                        {facts: []fact{pod("db-0", on("a"), ofSet("db"), grace(110*time.Second))}},
		"… that does not":                          {facts: []fact{pod("db-0", on("a"), ofSet("db"), grace(111*time.Second))}, want: []string{"db-0: GraceCut"}},
		"… of a pod that ends already":             {facts: []fact{pod("db-0", on("a"), ofSet("db"), endsAt(start.Add(time.Hour)))}, want: []string{"db-0: GraceCut"}},
		"… of one that ends in time":               {facts: []fact{pod("db-0", on("a"), ofSet("db"), grace(time.Hour), endsAt(start.Add(time.Minute)))}},
	} {
		t.Run(name, func(t *testing.T) {
			s := interrupted(t, c.facts...)
			if c.change != nil {
				c.change(s)
			}
			s.beat(c.after)
			s.decide()
			same(t, "warnings", c.want, s.warned())
		})
	}
}

// hold has administrators let budgets hold a maintenance for so long.
func hold(maxHold time.Duration) func(*story) {
	return func(s *story) {
		s.limits = map[string]snapshot.HoldLimit{"default": {Policy: "tenants", MaxHold: maxHold}}
		s.decide()
		s.then(0)
	}
}

// A drain that a person runs has no warnings: what goes was accepted, and the rest is on the screen.
func TestNoWarningsInADrain(t *testing.T) {
	s := tell(t, spot("a"), node("a", ours), pod("once", on("a"), emptyDir("tmp"), grace(time.Hour)))
	s.decide()
	same(t, "warnings", nil, s.warned())
}

func TestWhatWarningsSay(t *testing.T) {
	db := all(statefulSet("db", 3), pod("db-0", on("a"), ofSet("db")))
	member := all(statefulSet("db", 3), pod("db-0", on("a"), ofSet("db"), governed), askedBy(theirs, "db-0"))
	for name, c := range map[string]struct {
		facts []fact
		want  []string
	}{
		"unreplicated": {[]fact{pod("once", on("a"))}, []string{"no controller owns it: nothing replaces it", "create it anew once it is gone, or have a controller run it"}},
		"local data":   {[]fact{db, pod("db-0", on("a"), ofSet("db"), emptyDir("tmp", "log"))}, []string{"its local data (emptyDir tmp, log) goes with it", "save what is needed of it before the pod has ended"}},
		"a budget": {[]fact{db, budget("db", 2, 2, 3, minAvailable("2"))}, []string{
			"it will be lost with the node, as things stand: budget db needs 2 healthy and has 2", "--at-deadline=delete to have it deleted past that at the deadline; or wait until more of its pods are ready",
		}},
		"a member": {[]fact{member, evictionOf("db-0", "x.io/y", "shards move"), expects("db-0", 3*time.Minute)}, []string{
			"it will be lost with the node, as things stand: shards move; its responder expects that to take until 12:03:00", "wait, or look closer: usher why pod/db-0 -n default",
		}},
		"a grace": {[]fact{pod("db-0", on("a"), ofSet("db"), grace(10*time.Minute))}, []string{
			"it may take 10m to end, and gets 1m50s at most: what it has not done by then is lost", "see that it ends sooner, or needs no longer: spec.terminationGracePeriodSeconds",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := interrupted(t, c.facts...)
			s.decide()
			same(t, "words", c.want, s.says())
		})
	}
}

// What is said of a pod is said no longer once it is not true any more, and is said when it has become so, without an event of the cluster.
func TestWarningsClear(t *testing.T) {
	s := interrupted(t, statefulSet("db", 3), pod("db-0", on("a"), ofSet("db")), budget("db", 2, 2, 3, minAvailable("2")))
	s.decide()
	same(t, "a budget that allows none", []string{"db-0: WillBeLost"}, s.warned())
	s.beat(10 * time.Second)
	all(budget("db", 3, 2, 3, minAvailable("2")), pod("db-1", on("b"), ofSet("db")), pod("db-2", on("b"), ofSet("db")))(s.cluster)
	s.expect("evict db-0")
	same(t, "it allows one", nil, s.warned())

	s = interrupted(t, statefulSet("db", 3), pod("db-0", on("a"), ofSet("db"), governed), askedBy(theirs, "db-0"), evictionOf("db-0", "x.io/y", "another member is down"))
	s.decide()
	same(t, "a responder that looks", nil, s.warned())
	if s.last.Next.After(start.Add(10 * time.Second)) {
		t.Errorf("it looks again at %s", s.last.Next)
	}
	s.beat(10 * time.Second)
	s.decide()
	same(t, "… and keeps it", []string{"db-0: WillBeLost"}, s.warned())
	prepares("db-0")(s.cluster)
	s.decide()
	same(t, "… and has begun a step", nil, s.warned())
}

// A budget that lets the pods of a drain go one after the other holds none past the deadline, unless what it waits for does not get ready by itself.
func TestBudgetThatLetsPodsGoInTurn(t *testing.T) {
	db := func(name, node string, options ...func(*snapshot.Pod)) fact {
		return pod(name, append([]func(*snapshot.Pod){on(node), ofSet("db")}, options...)...)
	}
	s := interrupted(t, statefulSet("db", 3), db("db-0", "a"), db("db-1", "a"), db("db-2", "free"), budget("db", 3, 2, 3, minAvailable("2")))
	s.expect("evict db-0")
	s.answer(answers.Accepted)
	s.beat(10 * time.Second)
	all(gone("db-0"), db("db-0", "free", uid("new"), unready), budget("db", 2, 2, 3, minAvailable("2"), budgetVersion("2")))(s.cluster)
	s.decide()
	s.holds("db-1: BudgetExhausted")
	same(t, "warnings", nil, s.warned())
	db("db-0", "", uid("new"), unready, func(p *snapshot.Pod) { p.Unschedulable, p.NotReadyWhy = true, "0/2 nodes are available" })(s.cluster)
	s.decide()
	same(t, "warnings", []string{"db-1: WillBeLost"}, s.warned())
}

// A grace is said to be cut where the deletion that was to shorten it was refused, as what is lost.
func TestGraceThatIsNotShortened(t *testing.T) {
	s := interrupted(t, pod("db-0", on("a"), ofSet("db"), endsAt(start.Add(time.Hour))))
	s.beat(100 * time.Second)
	s.expect("delete db-0 in 10s")
	s.answer(answers.Denied)
	s.decide()
	same(t, "warnings", []string{"db-0: WillBeLost"}, s.warned())
}

// Each warning has its words, and is about a pod that has not left; what is said to be lost is held, and is not said to end too early as well.
func TestPropertyWarnings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld.Draw(t, "world")
		w.req.Self.ID, w.req.NodeGoes = theirs, true
		for _, name := range w.req.Nodes[:1] {
			w.facts = append(w.facts, node(name, drainedBy(theirs, start)))
		}
		run(w, genAnswers.Draw(t, "answers"), w.facts, func(view snapshot.View, _ *drain.Ledger, d drain.Decision) {
			seen := map[string]bool{}
			for _, w := range d.Warnings {
				key := w.Pod.Name + " "
				if w.Message == "" || w.Remedy == "" || w.Node == "" || view.Cluster.PodNamed(w.Pod) == nil || seen[key+string(w.Reason)] {
					t.Fatalf("warning %+v", w)
				}
				seen[key+string(w.Reason)] = true
				if w.Reason == drain.GraceCut && seen[key+string(drain.WillBeLost)] {
					t.Fatalf("%s is lost, and its grace cut", w.Pod)
				}
				held := slices.ContainsFunc(d.Pods, func(s drain.PodStatus) bool { return s.Pod.Name == w.Pod.Name && len(s.Blockers) > 0 })
				if w.Reason == drain.WillBeLost && !held {
					t.Fatalf("nothing holds what is said to be lost: %+v", w)
				}
			}
		})
	})
}
