package drain_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// governed is a pod that policy db governs.
func governed(p *snapshot.Pod) { p.Labels = map[string]string{v1alpha1.PolicyLabel: "db"} }

// askedBy is this drain's request for a pod.
func askedBy(id, pod string, options ...func(*snapshot.Request)) fact {
	r := &snapshot.Request{
		Namespace: "default", Name: pod + "-" + id, UID: types.UID("request-" + pod), PodUID: types.UID("uid-" + pod),
		Requester: snapshot.RequesterOf(id),
	}
	for _, o := range options {
		o(r)
	}
	return func(c *snapshot.Cluster) { c.SetRequest(r) }
}

func notAskedBy(id, pod string) fact {
	return func(c *snapshot.Cluster) { c.DeleteRequest(snapshot.Key{Namespace: "default", Name: pod + "-" + id}) }
}

func failed(why string) func(*snapshot.Request) {
	return func(r *snapshot.Request) { r.Failed = why }
}

// evictionOf is what a responder says about a pod.
func evictionOf(pod, responder, message string) fact {
	e := &snapshot.Eviction{
		Namespace: "default", Name: "pod-1-" + pod, UID: types.UID("eviction-" + pod), PodUID: types.UID("uid-" + pod),
		Created: start, Since: start, Responder: responder, Message: message,
	}
	return func(c *snapshot.Cluster) { c.SetEviction(e) }
}

func gap(resource, reason string, final bool) fact {
	return func(c *snapshot.Cluster) {
		c.SetGap(snapshot.Gap{Resource: resource, Reason: reason, Final: final})
	}
}

// partly says that only some objects of a resource were read.
func partly(resource string) fact {
	return func(c *snapshot.Cluster) { c.SetPartial(resource, true) }
}

func TestGovernedPodsAreAskedFor(t *testing.T) {
	said := evictionOf("db-0", "responder.usher.sh/governor", "it leads 3 shards")
	cases := []struct {
		name     string
		facts    []fact
		disable  bool
		actions  []string
		blockers []string
		outcome  drain.Outcome
	}{
		{name: "it is asked for, not evicted", actions: []string{"ask db-0"}},
		{name: "the responder's words are the blocker", facts: []fact{askedBy(me, "db-0"), said}, blockers: []string{"db-0: SystemDecides"}},
		{
			name: "never is final", facts: []fact{askedBy(me, "db-0"), evictionOf("db-0", "x.io/y", "Never: it is a single server")},
			blockers: []string{"db-0: SystemDecides!"}, actions: []string{"mark a blocked"}, outcome: drain.Running,
		},
		{name: "no responder has taken it up yet", facts: []fact{askedBy(me, "db-0")}, blockers: []string{"db-0: AskedFor"}},
		{name: "another drain's request is not ours", facts: []fact{askedBy("other", "db-0"), said}, actions: []string{"ask db-0"}},
		{name: "without such objects the eviction API is left", facts: []fact{gap("evictionrequests", "not served", true)}, actions: []string{"evict db-0"}},
		{name: "what is not read yet is waited for", facts: []fact{gap("evictionrequests", "not read yet", false)}, blockers: []string{"db-0: EvidenceUnavailable"}},
		{name: "a request that failed leaves the eviction API", facts: []fact{askedBy(me, "db-0", failed("NoFurtherResponder"))}, actions: []string{"evict db-0"}},
		{name: "--disable-eviction makes no request", disable: true, actions: []string{"delete db-0"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := ask("a")
			req.DisableEviction = c.disable
			s := tell(t, req, append([]fact{node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3)}, c.facts...)...)
			s.expect(c.actions...)
			s.holds(c.blockers...)
			s.ends(c.outcome)
		})
	}
}

// The manager withdraws the requests of a drain that shows no sign of life. One that goes
// on all the same asks again.
func TestWithdrawnRequestIsMadeAnew(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3), askedBy(me, "db-0", withdrawn))
	s.expect("withdraw db-0-me")
	s.holds("db-0: AskedFor")
	s.answer(answers.Accepted)
	s.then(time.Second, func(c *snapshot.Cluster) { c.DeleteRequest(snapshot.Key{Namespace: "default", Name: "db-0-me"}) })
	s.expect("ask db-0")
}

func TestWithdrawnRequestThatCannotBeMadeAnew(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3), askedBy(me, "db-0", withdrawn))
	s.expect("withdraw db-0-me")
	s.answer(answers.Forbidden)
	s.decide()
	s.holds("db-0: NoPermission!")
}

func withdrawn(r *snapshot.Request) { r.Withdrawn = true }

// A tenant's request in the drain's name, which a finalizer keeps, keeps none of its own from being made, and one that stands counts before it.
func TestRequestInTheNameOfTheDrain(t *testing.T) {
	forged := func(r *snapshot.Request) { r.Name, r.UID, r.Withdrawn, r.Deleted = "a-forged", "forged", true, true }
	s := tell(t, ask("a"), node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3), askedBy(me, "db-0", forged))
	s.expect("ask db-0")
	s.answer(answers.Accepted)
	s.then(time.Second, askedBy(me, "db-0"))
	s.expect()
	s.holds("db-0: AskedFor")
}

// A request of a killed drain that is being deleted, and that a tenant's finalizer keeps, holds up no other drain and is not to be undone.
func TestRequestOfAKilledDrainThatAFinalizerKeeps(t *testing.T) {
	for deleted, want := range map[bool][]string{false: {"withdraw db-0-killed"}, true: nil} {
		s := tell(t, ask(), node("a"), pod("db-0", on("a"), governed), askedBy("killed", "db-0", func(r *snapshot.Request) {
			r.Created, r.Withdrawn, r.Deleted = start.Add(-time.Hour), deleted, deleted
		}))
		undo := drain.Leftovers(s.view(), map[string]bool{"killed": true}, s.led)
		same(t, "undone", want, deeds(undo))
		same(t, "settled", deleted, undo.Settled)
		if left := drain.Remains(s.view(), map[string]bool{"killed": true}); (len(left) == 0) != deleted {
			t.Errorf("deleted %v: left %v", deleted, left)
		}
	}
}

func madeAt(t time.Time) func(*snapshot.Request) {
	return func(r *snapshot.Request) { r.Created = t }
}

func TestUnansweredRequestsNameTheManager(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3))
	s.expect("ask db-0")
	s.answer(answers.Accepted)
	s.then(time.Minute, askedBy(me, "db-0"), node("a", drainedBy(me, start.Add(time.Minute))))
	s.decide()
	s.holds("db-0: AskedFor")
	if said := s.last.Blockers()[0].Message; said != "its eviction was asked for, and no responder has taken it up" {
		t.Errorf("it says %q", said)
	}
}

// A request that was seen and taken back is not waited for, however short ago it was made.
func TestEndWaitsForNoRequestThatIsTakenBack(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3))
	s.expect("ask db-0")
	s.answer(answers.Accepted)
	s.then(time.Second, askedBy(me, "db-0"))
	s.expect()
	s.led.End(drain.TimedOut)
	s.expect("withdraw db-0-me")
	s.answer(answers.Accepted)
	s.then(time.Second, notAskedBy(me, "db-0"))
	s.expect("mark a timeout")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, version("2"), state("timeout")))
	s.expect()
	same(t, "settled", true, s.last.Settled)
}

func TestRequestsAreWithdrawn(t *testing.T) {
	cases := []struct {
		name  string
		by    string
		facts fact
		want  []string
	}{
		{name: "a dead drain's that has drained another node", by: "dead", facts: node("b", drainedBy("dead", start), state("drained")), want: []string{"withdraw db-0-dead"}},
		{name: "its own", by: me, want: []string{"withdraw db-0-me"}},
		{name: "a dead drain's", by: "dead", want: []string{"withdraw db-0-dead"}},
		{name: "not another drain's", by: "other", want: []string{"mark a interrupted"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := ask("a")
			req.Dead = map[string]bool{"dead": true}
			s := tell(t, req, node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3), askedBy(c.by, "db-0"))
			if c.facts != nil {
				s.then(0, c.facts)
			}
			s.led.End(drain.Interrupted)
			s.expect(c.want...)
		})
	}
}

// The drain's own request is being deleted and a finalizer keeps it, so that asking anew is answered that it is there (which counts as accepted:
// internal/act/ask.go). The drain says so, and asks again every few minutes.
func TestOwnRequestThatAFinalizerKeeps(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("db-0", on("a"), ofSet("db"), governed), statefulSet("db", 3),
		askedBy(me, "db-0", func(r *snapshot.Request) { r.Withdrawn, r.Deleted = true, true }))
	asked, said := 0, 0
	for range 240 {
		for _, a := range s.decide().Actions {
			if a.Kind == drain.Ask {
				asked++
			}
		}
		said += len(s.status("db-0").Blockers)
		s.answer(answers.Accepted)
		s.then(15*time.Second, node("a", drainedBy(me, s.now.Add(15*time.Second))))
	}
	if said < 200 || asked > 12 {
		t.Errorf("in an hour it asked %d times and named %d blockers; state %s, outcome %q", asked, said, s.status("db-0").State, s.last.Outcome)
	}
}
