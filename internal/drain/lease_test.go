package drain_test

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// leasesRead is a cluster whose Leases can be read.
func leasesRead(c *snapshot.Cluster) { c.SetLeasesRead("", true) }

// leaseOf is the Lease of a drain that its process "<id>@host" holds.
func leaseOf(id string, renewed time.Time, options ...func(*snapshot.Lease)) fact {
	l := &snapshot.Lease{ID: id, UID: "lease", ResourceVersion: renewed.String(), Holder: id + "@host/0", Acquired: start, Renewed: renewed}
	for _, o := range options {
		o(l)
	}
	return all(leasesRead, func(c *snapshot.Cluster) { c.SetLease(l) })
}

func heldBy(holder string) func(*snapshot.Lease) {
	return func(l *snapshot.Lease) { l.Holder = holder }
}

func acquired(t time.Time) func(*snapshot.Lease) { return func(l *snapshot.Lease) { l.Acquired = t } }

// inLease is a node whose drain's signs of life are in its Lease.
func inLease(n *snapshot.Node) { n.Drain.Lease = true }

// lastingFor is a drain of node a on which a pod stays for longer than that.
func lastingFor(t *testing.T, facts ...fact) *story {
	t.Helper()
	return tell(t, ask("a"), append([]fact{pod("web", on("a"), endsAt(start.Add(24*time.Hour)), grace(24*time.Hour))}, facts...)...)
}

const myLease = "me@host/0"

func TestLeaseIsTheSignOfLife(t *testing.T) {
	s := lastingFor(t, node("a"), leasesRead)
	s.expect("cordon a draining", "renew-lease of "+me)
	same(t, "record", true, s.last.Actions[0].Record.Lease)
	lease := *s.last.Actions[1].Lease
	same(t, "lease", snapshot.Lease{ID: me, Holder: myLease, Acquired: start, Renewed: start}, lease)
	s.answer(answers.Accepted)
	s.then(time.Second, node("a", ours, inLease), leaseOf(me, start, heldBy(myLease)))
	s.expect()
	same(t, "next is the renewal", start.Add(snapshot.BeatEvery), s.last.Next)
	for at := start.Add(snapshot.BeatEvery); at.Before(start.Add(10 * time.Minute)); at = at.Add(snapshot.BeatEvery) {
		s.then(at.Sub(s.now))
		s.expect("renew-lease of " + me)
		same(t, "held since", start, s.last.Actions[0].Lease.Acquired)
		s.answer(answers.Accepted)
		s.then(0, leaseOf(me, at, heldBy(myLease)))
		s.expect()
	}
	s.then(time.Second, gone("web"))
	s.expect("mark a drained")
	s.answer(answers.Accepted)
	s.then(0, node("a", ours, inLease, state("drained")))
	s.expect()
	s.ends(drain.Drained)
	s.led.End(drain.Drained)
	s.expect("delete-lease of " + me)
	s.answer(answers.Accepted)
	s.then(0, func(c *snapshot.Cluster) { c.DeleteLease(me) })
	s.expect()
	same(t, "settled", true, s.last.Settled)
}

// A drain with a Lease is never taken for one that has ended where that cannot be read, however long it lasts.
func TestLeaseThatOthersCannotRead(t *testing.T) {
	s := lastingFor(t, node("a", ours, inLease), leaseOf(me, start, heldBy(myLease)))
	marks := 0
	for s.now.Before(start.Add(time.Hour)) {
		s.then(snapshot.BeatEvery)
		for _, a := range s.decide().Actions {
			if a.Kind == drain.Mark {
				marks++
				s.then(0, node("a", ours, inLease, func(n *snapshot.Node) { n.Drain = a.Record }))
			}
		}
		s.answer(answers.Accepted)
		s.then(0, leaseOf(me, s.now, heldBy(myLease)))
		others := snapshot.View{Now: s.now, Cluster: cluster(unreadable("leases"))}
		others.Cluster.SetNode(s.cluster.Node("a"))
		if _, obstacle := drain.Release(others, s.cluster.Node("a"), nil); obstacle == "" {
			t.Fatalf("after %s it is taken for one that has ended", s.now.Sub(start))
		}
	}
	same(t, "marks in an hour", 6, marks)
}

// Where no Lease can be had, signs of life are kept on each node, and that is said.
func TestSignsOfLifeWithoutALease(t *testing.T) {
	for name, c := range map[string]struct {
		facts  fact
		answer answers.Code // to the Lease's creation; "": it is not tried
		note   string
	}{
		"it may not be created": {leasesRead, answers.Forbidden, "signs of life are kept on each node, not in a Lease: server says forbidden"},
		"there is no namespace": {leasesRead, answers.Gone, "signs of life are kept on each node, not in a Lease: server says gone"},
		"the namespace goes":    {leasesRead, answers.NamespaceTerminating, "signs of life are kept on each node, not in a Lease: server says "},
		"it may not be read":    {unreadable("leases"), "", "signs of life are kept on each node, not in a Lease: "},
		"it is not read yet":    {all(), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := lastingFor(t, node("a"), c.facts)
			s.decide()
			same(t, "tried", c.answer != "", len(s.last.Actions) == 2)
			s.say("cordon a draining", answers.Answer{Code: answers.Accepted})
			if c.answer != "" {
				s.answer(c.answer)
			}
			s.then(time.Second, node("a", ours, inLease))
			s.expect()
			same(t, "note", c.note != "", strings.Contains(strings.Join(s.last.Notes, "\n"), "not in a Lease"))
			s.then(snapshot.BeatEvery)
			s.expect("mark a draining")
			same(t, "record", false, s.last.Actions[0].Record.Lease)
		})
	}
}

// What this process has not seen renewed is no sign of life: the node says it, and after a gap it is claimed anew.
func TestLeaseThatIsNotRenewed(t *testing.T) {
	minute := start.Add(time.Minute)
	for name, c := range map[string]struct {
		at    time.Duration
		facts fact
		want  []string
	}{
		"in force":                             {5 * time.Minute, all(node("a", ours, inLease), leaseOf(me, start.Add(5*time.Minute), heldBy(myLease))), nil},
		"not for half a minute":                {5 * time.Minute, all(node("a", ours, inLease), leaseOf(me, start.Add(5*time.Minute-31*time.Second), heldBy(myLease))), []string{"mark a draining", "renew-lease of me"}},
		"for as long as it counts":             {5 * time.Minute, all(node("a", ours, inLease), leaseOf(me, start.Add(4*time.Minute), heldBy(myLease))), []string{"mark a draining lapsed", "renew-lease of me"}},
		"it was deleted":                       {5 * time.Minute, all(node("a", ours, inLease), leasesRead), []string{"mark a draining lapsed", "renew-lease of me"}},
		"there was a gap since the record":     {5 * time.Minute, all(node("a", ours, inLease), leaseOf(me, start.Add(5*time.Minute), heldBy(myLease), acquired(minute))), []string{"mark a draining lapsed"}},
		"… and the record is from after it":    {5 * time.Minute, all(node("a", drainedBy(me, minute), inLease), leaseOf(me, start.Add(5*time.Minute), heldBy(myLease), acquired(minute))), nil},
		"another process holds it":             {5 * time.Minute, all(node("a", ours, inLease), leaseOf(me, start.Add(5*time.Minute), heldBy("other/1"))), []string{"mark a draining lapsed", "renew-lease of me"}},
		"it is dated into the future":          {5 * time.Minute, all(node("a", ours, inLease), leaseOf(me, start.Add(time.Hour), heldBy(myLease))), []string{"mark a draining lapsed", "renew-lease of me"}},
		"the record does not say that it has":  {15 * time.Second, all(node("a", ours), leaseOf(me, start.Add(15*time.Second), heldBy(myLease))), []string{"mark a draining"}},
		"the record is of an earlier process":  {time.Second, all(node("a", ours, inLease, func(n *snapshot.Node) { n.Drain.Boot = "boot/1" }), leaseOf(me, start, heldBy(myLease))), []string{"mark a draining"}},
		"Leases cannot be read for the moment": {20 * time.Second, all(node("a", ours, inLease), leaseOf(me, start, heldBy(myLease)), func(c *snapshot.Cluster) { c.SetLeasesRead("", false) }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := lastingFor(t, c.facts)
			s.now = start.Add(c.at)
			s.decide()
			var got []string
			for _, a := range s.last.Actions {
				deed := deedOf(a)
				if a.Lapsed {
					deed += " lapsed"
				}
				got = append(got, strings.ReplaceAll(deed, me, "me"))
			}
			same(t, "actions", c.want, got)
		})
	}
}

// A renewal that is late must not make up for a gap; what it rests on is looked at again before it is sent.
func TestRenewalsInTime(t *testing.T) {
	at := start.Add(2 * time.Minute)
	renewal := func(acquired time.Time) drain.Action {
		return drain.Action{Kind: drain.RenewLease, Lease: &snapshot.Lease{ID: me, UID: "lease", Acquired: acquired, Renewed: at}}
	}
	for name, c := range map[string]struct {
		facts  fact
		action drain.Action
		want   bool
	}{
		"in force":                       {leaseOf(me, at.Add(-15*time.Second)), renewal(start), true},
		"it is in force no more":         {leaseOf(me, at.Add(-time.Minute)), renewal(start), false},
		"it was deleted":                 {leasesRead, renewal(start), false},
		"acquired anew, after a gap":     {leaseOf(me, at.Add(-time.Minute)), renewal(at), true},
		"acquired anew, after its going": {leasesRead, renewal(at), true},
	} {
		view := snapshot.View{Now: at, Cluster: cluster(c.facts)}
		same(t, name, c.want, drain.InTime(view, snapshot.Drainer{ID: me}, nil, c.action))
	}
}

// Pods are evicted only where this process holds the Lease in force, or the node's own record is young.
func TestClaimsByLease(t *testing.T) {
	at := start.Add(10 * time.Minute)
	self := snapshot.Drainer{ID: me, By: "me@host"}
	evict := drain.Action{Kind: drain.Evict, Pod: &snapshot.Pod{Name: "web", Node: "a", UID: "web"}}
	for name, c := range map[string]struct {
		facts fact
		want  bool
	}{
		"in force":                    {leaseOf(me, at, heldBy(myLease)), true},
		"another process's":           {leaseOf(me, at, heldBy("other/1")), false},
		"no more":                     {leaseOf(me, at.Add(-time.Minute), heldBy(myLease)), false},
		"since after the record":      {leaseOf(me, at, heldBy(myLease), acquired(at.Add(-time.Minute))), false},
		"there is none":               {leasesRead, false},
		"whether there is, is unread": {all(), false},
	} {
		view := snapshot.View{Now: at, Cluster: cluster(node("a", ours, inLease), c.facts)}
		same(t, name, c.want, drain.InTime(view, self, nil, evict))
	}
}

// A process whose Lease another one has taken leaves the drain; one that begins takes it over.
func TestLeaseTakenOver(t *testing.T) {
	s := lastingFor(t, node("a", ours, inLease), leaseOf(me, start.Add(-15*time.Second), heldBy(myLease), acquired(start.Add(-time.Hour))))
	s.expect("renew-lease of " + me)
	s.answer(answers.Accepted)
	s.then(time.Second, leaseOf(me, start, heldBy(myLease)))
	s.expect()
	s.then(time.Second, leaseOf(me, start.Add(2*time.Second), heldBy("other/1")))
	s.expect()
	s.ends(drain.Left)
	same(t, "notes", []string{"the drain is left as it is: the Lease kube-public/usher-drain-me is held by other/1 now"}, s.last.Notes)

	next := lastingFor(t, node("a", ours, inLease), leaseOf(me, start.Add(-5*time.Second), heldBy("other/1"), acquired(start.Add(-time.Hour))))
	next.expect("renew-lease of " + me)
	same(t, "acquired", start.Add(-time.Hour), next.last.Actions[0].Lease.Acquired)
	next.ends(drain.Running)
}

// Another drain's liveness is that of its Lease. What cannot be read counts as running, and not for ever.
func TestOtherDrainsByLease(t *testing.T) {
	at := func(d time.Duration) time.Time { return start.Add(d) }
	other := node("a", drainedBy("other", start), inLease)
	for name, c := range map[string]struct {
		after time.Duration
		facts fact
		lives bool
		until time.Time
	}{
		"renewed":                             {time.Hour, leaseOf("other", at(time.Hour-20*time.Second)), true, at(time.Hour + 40*time.Second)},
		"renewed by another of its processes": {time.Hour, leaseOf("other", at(time.Hour), heldBy("x/1"), acquired(at(time.Hour))), true, at(time.Hour + time.Minute)},
		"not renewed":                         {time.Hour, leaseOf("other", at(time.Hour-time.Minute)), false, time.Time{}},
		"dated into the future":               {time.Hour, leaseOf("other", at(3*time.Hour)), false, time.Time{}},
		"a little ahead":                      {time.Hour, leaseOf("other", at(time.Hour+time.Minute)), true, at(time.Hour + 2*time.Minute)},
		"gone":                                {time.Hour, leasesRead, false, time.Time{}},
		"not there yet":                       {20 * time.Second, leasesRead, true, at(time.Minute)},
		"of another drain":                    {time.Hour, leaseOf("third", at(time.Hour)), false, time.Time{}},
		"not read, and not long ago":          {14 * time.Minute, unreadable("leases"), true, at(15 * time.Minute)},
		"not read, and long ago":              {15 * time.Minute, unreadable("leases"), false, time.Time{}},
		"as last seen, and not read now":      {20 * time.Minute, all(leaseOf("other", at(20*time.Minute-5*time.Second)), func(c *snapshot.Cluster) { c.SetLeasesRead("", false) }), true, at(20*time.Minute + 55*time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), other, pod("web", on("a")), c.facts)
			s.now = start.Add(c.after)
			s.decide()
			if !c.lives {
				same(t, "it takes the node", "cordon a draining", deeds(s.last)[0])
				return
			}
			blockers := s.last.Nodes[0].Blockers
			if len(blockers) != 1 || blockers[0].Reason != drain.AnotherDrain || !blockers[0].Retry.Equal(c.until) {
				t.Errorf("blockers %+v, want one until %s", blockers, c.until)
			}
			node := s.cluster.Node("a")
			if _, obstacle := drain.Release(s.view(), node, nil); obstacle == "" {
				t.Error("it may be uncordoned")
			}
		})
	}
}

// Rights are asked for where these are missing, and not where the apiserver does not answer for the moment.
func TestAdviceOnLeasesThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		facts  fact
		remedy string
	}{
		"they may not be read": {unreadable("leases"), "wait, or ask for the right to list and watch Leases in namespace kube-public and run the drain again"},
		"not at present":       {func(c *snapshot.Cluster) { c.SetGap(snapshot.Gap{Resource: "leases", Reason: "etcd is away"}) }, "wait; its Lease is read again, or stop the other drain"},
		"the watch is broken":  {all(), "wait; its Lease is read again, or stop the other drain"},
	} {
		s := tell(t, ask("a"), node("a", drainedBy("other", start), inLease), pod("web", on("a")), c.facts)
		s.now = start.Add(5 * time.Minute)
		same(t, name, c.remedy, s.decide().Nodes[0].Blockers[0].Remedy)
	}
}

// What a killed drain has left is undone by its Lease's end, and the Lease last of all.
func TestLeasesOfKilledDrains(t *testing.T) {
	late := start.Add(time.Hour)
	killed := all(node("b", drainedBy("killed", start), inLease), deployment("web", 2, surgedBy("killed", 1, start)))
	s := tell(t, drain.Request{}, killed, leaseOf("killed", late.Add(-10*time.Second)))
	s.now = late
	same(t, "while it lives", []string(nil), deeds(drain.Leftovers(s.view(), nil, drain.NewLedger())))
	led := drain.NewLedger()
	s.then(time.Minute)
	led.Observe(s.view())
	same(t, "once it is dead", []string{"scale web to 1, no record"}, deeds(drain.Leftovers(s.view(), nil, led)))
	s.then(0, deployment("web", 1))
	led.Observe(s.view())
	same(t, "at last", []string{"delete-lease of killed"}, deeds(drain.Leftovers(s.view(), nil, led)))
	action, some := drain.ReleaseLease(s.view(), s.cluster.Node("b").Drain.Drainer, nil)
	same(t, "with its node", true, some && action.Kind == drain.DeleteLease)
	same(t, "nothing is left to say of", 1, len(drain.Remains(s.view(), nil))) // the cordon
}
