package drain_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// loads is policy cloud, by which hypervisors stay and are emptied.
func loads(c *snapshot.Cluster) {
	c.SetPolicy(&snapshot.Policy{Namespace: "default", Name: "cloud", UID: "uid-cloud", Members: []snapshot.PolicyMember{
		{Role: "hypervisor", Selector: labels.SelectorFromSet(labels.Set{"role": "hypervisor"}), Load: true},
		{Role: "router", Selector: labels.SelectorFromSet(labels.Set{"role": "router"}), LeavesAfter: []string{"hypervisor"}},
	}})
}

// claimedTwice is another policy, which claims hypervisors as well.
func claimedTwice(c *snapshot.Cluster) {
	loads(c)
	c.SetPolicy(&snapshot.Policy{Namespace: "default", Name: "other", UID: "uid-other", Members: []snapshot.PolicyMember{
		{Role: "agent", Selector: labels.SelectorFromSet(labels.Set{"role": "hypervisor"})},
	}})
}

// unselected is policy cloud with a selector that cannot be used: whose pods stay is not known.
func unselected(c *snapshot.Cluster) {
	c.SetPolicy(&snapshot.Policy{Namespace: "default", Name: "cloud", UID: "uid-cloud", LoadUnread: true})
}

// hypervisor is a pod of a DaemonSet that stays.
func hypervisor(name string) fact {
	return all(daemonSet("nova"), pod(name, on("a"), ofDaemon("nova"), inRole("hypervisor")))
}

// isEmptied is what Usher says once nothing of what a pod carries is left.
func isEmptied(name string) fact {
	return func(c *snapshot.Cluster) {
		evictionOf(name, "responder.usher.sh/governor", "Emptied: the pod stays")(c)
		e := *c.Eviction(snapshot.Key{Namespace: "default", Name: "pod-1-" + name})
		e.Emptied = true
		c.SetEviction(&e)
	}
}

// What stays is part of the drain although pods of DaemonSets are left alone, what leaves after it waits for it, and its request stands as long
// as the node is drained.
func TestWhatStaysIsEmptied(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), loads, hypervisor("nova"), pod("rt", on("a"), inRole("router")))
	s.expect("ask nova")
	s.holds("rt: EarlierRole")
	s.answer(answers.Accepted)
	s.then(time.Second, askedBy(me, "nova"), evictionOf("nova", "responder.usher.sh/governor", "3 machines are on it"))
	s.expect()
	s.holds("nova: SystemDecides", "rt: EarlierRole")
	s.then(time.Second, isEmptied("nova"))
	s.expect("ask rt")
	same(t, "state", drain.Emptied, s.status("nova").State)
	s.answer(answers.Accepted)
	s.then(time.Second, askedBy(me, "rt"), gone("rt"))
	s.expect("mark a drained")
	s.answer(answers.Accepted)
	s.then(time.Second, notAskedBy(me, "rt"), node("a", drainedBy(me, start.Add(3*time.Second)), state("drained")))
	s.expect()
	s.ends(drain.Drained)
	s.led.End(drain.Drained)
	s.expect()
	same(t, "settled", true, s.last.Settled)

	s.then(time.Minute, evictionOf("nova", "responder.usher.sh/governor", "1 machine is on it"))
	s.expect()
}

// A drain that ends without being done takes its request back, and so does one whose node is given back.
func TestWhatStaysIsGivenBack(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), loads, hypervisor("nova"), askedBy(me, "nova"), isEmptied("nova"), pod("web", on("a")))
	s.expect("evict web")
	s.led.End(drain.Interrupted)
	s.expect("withdraw nova-" + me)

	s = tell(t, ask("a", "b"), node("a", ours), node("b", ours), loads, hypervisor("nova"), pod("web", on("b")))
	s.expect("ask nova", "evict web")
	s.answer(answers.Accepted)
	s.then(time.Second, askedBy(me, "nova"), isEmptied("nova"))
	s.expect("mark a drained")
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", drainedBy(me, start), state("drained")))
	s.expect()
	s.then(time.Second, node("a", drainedBy(me, start), state("drained"), schedulable))
	s.expect("withdraw nova-" + me)
}

// Whatever the flags and the deadline, what stays is not removed, and where it cannot be asked for, that is said.
func TestWhatStaysIsNeverRemoved(t *testing.T) {
	deleting := func(r *drain.Request) {
		r.Deadline, r.AtDeadline, r.DaemonSets = start.Add(time.Minute), drain.AtDeadlineDelete, drain.DaemonSetsEvict
	}
	cases := []struct {
		name  string
		with  func(*drain.Request)
		facts []fact
		want  []string
		holds []string
	}{
		{name: "--disable-eviction", with: func(r *drain.Request) { r.DisableEviction = true }, want: []string{"ask nova"}},
		{name: "the deadline", with: deleting, facts: []fact{askedBy(me, "nova"), evictionOf("nova", "x.io/y", "busy")}, holds: []string{"nova: SystemDecides"}},
		{name: "no such objects", facts: []fact{gap("evictionrequests", "not served", true)}, want: []string{"mark a blocked"}, holds: []string{"nova: EvidenceUnavailable!"}},
		{name: "the request has failed", facts: []fact{askedBy(me, "nova", failed("NoFurtherResponder"))}, want: []string{"mark a blocked"}, holds: []string{"nova: RejectedByServer!"}},
		{name: "another's word is not Usher's", facts: []fact{askedBy(me, "nova"), evictionOf("nova", "x.io/y", "Emptied: so")}, holds: []string{"nova: SystemDecides"}},
		{name: "for another requester", facts: []fact{askedBy("other", "nova"), isEmptied("nova")}, want: []string{"ask nova"}},
		{name: "it may not be read which pods stay", facts: []fact{func(c *snapshot.Cluster) {
			c.DeletePolicy(snapshot.Key{Namespace: "default", Name: "cloud"})
		}, gap("evictionpolicies", "forbidden", true)}, want: []string{"mark a blocked"}, holds: []string{"nova: EvidenceUnavailable!"}},
		{name: "two policies claim it", facts: []fact{claimedTwice}, want: []string{"ask nova"}},
		{name: "two policies claim it, and it is not emptied", facts: []fact{claimedTwice, askedBy(me, "nova"), evictionOf("nova", "responder.usher.sh/governor", "two claim it")}, holds: []string{"nova: SystemDecides"}},
		{name: "its policy has a selector that cannot be used", facts: []fact{unselected}, want: []string{"mark a blocked"}, holds: []string{"nova: EvidenceUnavailable!"}},
		{name: "another policy has one", facts: []fact{func(c *snapshot.Cluster) {
			c.SetPolicy(&snapshot.Policy{Namespace: "default", Name: "other", UID: "uid-other", LoadUnread: true})
		}}, want: []string{"ask nova"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := ask("a")
			if c.with != nil {
				c.with(&req)
			}
			s := tell(t, req, node("a", ours), loads, hypervisor("nova"))
			s.then(0, c.facts...)
			s.now = start.Add(50 * time.Second)
			s.then(0, node("a", drainedBy(me, s.now)))
			s.expect(c.want...)
			if c.holds != nil {
				s.holds(c.holds...)
			}
		})
	}
}
