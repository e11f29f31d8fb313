package drain_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

func TestNodeIsCordonedFirstAndAlone(t *testing.T) {
	req := ask("a")
	req.Why = "new disk"
	s := tell(t, req, node("a"), pod("web", on("a")))
	s.expect("cordon a draining")
	want := &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: me, By: "me@host", Beat: start}, Why: "new disk", Since: start, Cordoned: true, State: "draining"}
	same(t, "record", want, s.last.Actions[0].Record)
	s.then(time.Millisecond)
	s.expect() // no answer yet
	s.answer(answers.Accepted)
	s.expect() // not seen yet
	s.then(time.Millisecond, node("a", ours, version("2")))
	s.expect("evict web")
}

func TestClaims(t *testing.T) {
	later := start.Add(time.Second)
	cases := map[string]struct {
		node     fact
		dead     map[string]bool
		want     []string
		held     []string
		outcome  drain.Outcome
		cordoned bool // what the new record says
	}{
		"free":                                {node("a"), nil, []string{"cordon a draining"}, nil, drain.Running, true},
		"cordoned by another client":          {node("a", cordoned), nil, []string{"cordon a draining"}, nil, drain.Running, false},
		"drained by a live drain":             {node("a", drainedBy("other", start.Add(-59*time.Second))), nil, nil, []string{"a: AnotherDrain"}, drain.Running, false},
		"drained by a silent drain":           {node("a", drainedBy("other", start.Add(-60*time.Second))), nil, []string{"cordon a draining"}, nil, drain.Running, true},
		"… that found it cordoned":            {node("a", drainedBy("other", start.Add(-time.Hour)), foundCordoned), nil, []string{"cordon a draining"}, nil, drain.Running, false},
		"… that was cordoned anew since":      {node("a", drainedBy("other", start.Add(-time.Hour)), cordonedAnew), nil, []string{"cordon a draining"}, nil, drain.Running, false},
		"… and was uncordoned since":          {node("a", drainedBy("other", start.Add(-time.Hour)), foundCordoned, schedulable), nil, []string{"cordon a draining"}, nil, drain.Running, true},
		"drained by a drain known to be dead": {node("a", drainedBy("other", start)), map[string]bool{"other": true}, []string{"cordon a draining"}, nil, drain.Running, true},
		"a drain that has ended":              {node("a", drainedBy("other", start), state("drained")), nil, []string{"cordon a draining"}, nil, drain.Running, true},
		"a drain that was interrupted":        {node("a", drainedBy("other", start), state("interrupted")), nil, []string{"cordon a draining"}, nil, drain.Running, true},
		"a record that cannot be read":        {node("a", func(n *nodeOf) { n.DrainError = "bad json" }), nil, nil, []string{"a: UnreadableRecord!"}, drain.Blocked, false},
		"uncordoned during the run":           {node("a", ours, schedulable), nil, nil, []string{"a: NodeNotCordoned!"}, drain.Blocked, false},
		"a beat from the future":              {node("a", drainedBy("other", start.Add(time.Hour))), nil, []string{"cordon a draining"}, nil, drain.Running, true},
		"a clock that runs ahead":             {node("a", drainedBy("other", later)), nil, nil, []string{"a: AnotherDrain"}, drain.Running, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a")
			req.Dead = c.dead
			s := tell(t, req, c.node, pod("web", on("a")))
			s.expect(c.want...)
			s.holds(c.held...)
			s.ends(c.outcome)
			if len(s.last.Actions) > 0 {
				same(t, "cordoned by us", c.cordoned, s.last.Actions[0].Record.Cordoned)
			}
		})
	}
}

// The cordon of a node that is drained again is as old as the first one; the drain is not.
func TestCordonKeepsItsAge(t *testing.T) {
	first, before := start.Add(-2*time.Hour), start.Add(-time.Hour)
	drained := func(record *snapshot.DrainRecord) { record.Since, record.State = first, "interrupted" }
	again := func(record *snapshot.DrainRecord) {
		record.Since, record.State, record.CordonTime = before, "blocked", first
	}
	cases := map[string]struct {
		record func(*snapshot.DrainRecord)
		change func(*nodeOf)
		want   time.Time
	}{
		"drained once before":    {drained, nil, first},
		"drained twice before":   {again, nil, first},
		"given back in between":  {drained, schedulable, start},
		"… with its record left": {again, schedulable, start},
		"never drained":          {nil, nil, start},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := node("a")
			if c.record != nil {
				n = node("a", drainedBy("other", start.Add(-time.Hour)), func(n *nodeOf) { c.record(n.Drain) }, func(n *nodeOf) {
					if c.change != nil {
						c.change(n)
					}
				})
			}
			s := tell(t, ask("a"), n, pod("web", on("a")))
			s.expect("cordon a draining")
			record := s.last.Actions[0].Record
			same(t, "cordoned since", c.want, record.CordonedSince())
			same(t, "drained since", start, record.Since)
		})
	}
}

// A beat from the future that another client writes into this drain's record must not keep the drain from renewing it: to others the
// drain would soon be dead.
func TestBeatFromTheFutureIsRenewed(t *testing.T) {
	s := tell(t, ask("a"), node("a", drainedBy(me, start.Add(time.Hour))), budget("web", 2, 2, 3, maxUnavailable("1")), pod("web", on("a"), of("web")))
	s.expect("mark a draining")
	same(t, "beat", start, s.last.Actions[0].Record.Beat)
}

func schedulable(n *nodeOf) { n.Unschedulable = false }

func TestSecondDrainGoesOnWhenTheFirstFallsSilent(t *testing.T) {
	s := tell(t, ask("a"), node("a", drainedBy("other", start)), pod("web", on("a")))
	s.expect()
	same(t, "next", start.Add(time.Minute), s.last.Next)
	s.then(time.Minute)
	s.expect("cordon a draining")
}

// What leaves a node while another drain works on it is not this drain's doing.
func TestWaitingDrainCountsNothingOfTheOther(t *testing.T) {
	s := tell(t, ask("a"), node("a", drainedBy("other", start)), node("b"), deployment("web", 2), pods("web", "a", 2))
	s.expect()
	s.holds("a: AnotherDrain")
	s.then(time.Second, gone("web-a1"))
	s.expect()
	same(t, "pods that are shown", []string{"web-a2 waiting"}, shown(s.last))
	s.led.End(drain.TimedOut)
	s.decide()
	s.holds("a: AnotherDrain")
	same(t, "pods that are left", []string{"web-a2 waiting"}, shown(s.last))
}

func shown(d drain.Decision) []string {
	var all []string
	for _, p := range d.Pods {
		all = append(all, p.Pod.Name+" "+string(p.State))
	}
	return all
}

func TestCordonRefused(t *testing.T) {
	cases := map[answers.Code]struct {
		held string
		ends drain.Outcome
	}{
		answers.Forbidden: {"a: NoPermission!", drain.NoAccess},
		answers.Denied:    {"a: DeniedByAdmission!", drain.Blocked},
		answers.Rejected:  {"a: RejectedByServer!", drain.Blocked},
	}
	for code, c := range cases {
		t.Run(string(code), func(t *testing.T) {
			s := tell(t, ask("a"), node("a"), pod("web", on("a")))
			s.expect("cordon a draining")
			s.answer(code)
			s.then(time.Hour)
			s.expect()
			s.holds(c.held)
			s.ends(c.ends)
			same(t, "state", drain.NodeBlocked, s.last.Nodes[0].State)
		})
	}
}

func TestCordonConflictIsTriedAgain(t *testing.T) {
	s := tell(t, ask("a"), node("a"), pod("web", on("a")))
	s.expect("cordon a draining")
	s.answer(answers.Conflict)
	s.expect() // what is known is what failed
	s.ends(drain.Running)
	s.then(time.Millisecond, node("a", version("2")))
	s.expect("cordon a draining")
}

// A watch that is behind shows old versions one after the other: they are not tried one after the other.
func TestConflictsInARowWait(t *testing.T) {
	s := tell(t, ask("a"), node("a"), pod("web", on("a")))
	s.expect("cordon a draining")
	s.answer(answers.Conflict)
	s.then(time.Millisecond, node("a", version("2")))
	s.expect("cordon a draining")
	s.answer(answers.Conflict)
	s.then(time.Millisecond, node("a", version("3")))
	s.expect()
	s.ends(drain.Running)
	s.then(500*time.Millisecond - time.Millisecond)
	s.expect("cordon a draining")
}

func TestSignOfLife(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), pod("web", on("a"), endsAt(start.Add(time.Hour))))
	s.then(15*time.Second - time.Millisecond)
	s.expect()
	same(t, "next", start.Add(15*time.Second), s.last.Next)
	s.then(time.Millisecond)
	s.expect("mark a draining")
	same(t, "beat", s.now, s.last.Actions[0].Record.Beat)
	same(t, "since", start, s.last.Actions[0].Record.Since)
	s.answer(answers.Accepted)
	s.expect()
}

// A node that is done needs no sign of life: it is not worked on.
func TestDrainedNodeGivesNoSignOfLife(t *testing.T) {
	s := tell(t, ask("a", "b"), node("a", ours, state("drained")), node("b", ours), pod("web", on("b"), endsAt(start.Add(time.Hour))))
	s.then(20 * time.Second)
	s.expect("mark b draining")
}

// A node that was blocked and goes on says so, or another drain would take it over.
func TestBlockedNodeGoesOn(t *testing.T) {
	s := tell(t, never("a"), node("a", ours, state("blocked")), deployment("web", 2), pods("web", "a", 2), budget("web", 2, 1, 2, maxUnavailable("1")))
	s.expect("evict web-a1", "mark a draining")
}

func TestPlaces(t *testing.T) {
	abc := all(node("a", ours, zone("z1")), node("b", ours, zone("z2")), node("c", ours, zone("z1")),
		pod("pa", on("a")), pod("pb", on("b")), pod("pc", on("c")))
	cases := map[string]struct {
		parallel, zones int
		facts           fact
		want            []string
	}{
		"no limit":                    {0, 0, abc, []string{"evict pa", "evict pb", "evict pc"}},
		"one node":                    {1, 0, abc, []string{"evict pa"}},
		"two nodes":                   {2, 0, abc, []string{"evict pa", "evict pb"}},
		"one zone":                    {0, 1, abc, []string{"evict pa", "evict pc"}},
		"one node of one zone":        {1, 1, abc, []string{"evict pa"}},
		"two nodes, one zone":         {2, 1, abc, []string{"evict pa", "evict pc"}},
		"a zone that is on its way":   {0, 1, all(abc, pod("pa", on("a"), endsAt(start.Add(time.Minute)))), []string{"evict pc"}},
		"an empty node needs none":    {1, 1, all(abc, gone("pa")), []string{"mark a drained", "evict pb"}},
		"a node of another drain":     {1, 0, all(abc, node("a", drainedBy("other", start))), []string{"evict pb"}},
		"a node that cannot be moved": {1, 0, all(abc, deadSet("pa", "a")), []string{"mark a blocked", "evict pb"}},
		"… under two budgets":         {1, 0, all(abc, deadSet("pa", "a"), budget("pa", 2, 1, 2), budget("pa", 2, 1, 2, named("x"))), []string{"mark a blocked", "evict pb"}},
		"a volume on its way":         {1, 0, all(abc, gone("pa"), attached("v", "a")), nil},
		"a volume that stays with a DaemonSet": {
			1, 0, all(abc, gone("pa"), daemonSet("d"), pod("d-a", on("a"), ofDaemon("d"), claims("c")), claim("c", "v", false), attached("v", "a")),
			[]string{"mark a drained", "evict pb"},
		},
		"a volume of a pod that cannot be moved": {
			1, 0, all(abc, deadSet("pa", "a", claims("c")), claim("c", "v", false), attached("v", "a")),
			[]string{"mark a blocked", "evict pb"},
		},
		"an unready pod under a dead budget that no surge would help": {
			1, 0, all(abc, deployment("pa", 1), pod("pa", on("a"), of("pa"), unready), budget("pa", 0, 1, 1, minAvailable("1"))),
			[]string{"mark a blocked", "evict pb"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := ask("a", "b", "c")
			req.MaxParallel, req.MaxZones = c.parallel, c.zones
			s := tell(t, req, c.facts)
			s.expect(c.want...)
			s.ends(drain.Running)
		})
	}
}

// deadSet is a pod that nothing but its owner can set free.
func deadSet(name, node string, options ...func(*snapshot.Pod)) fact {
	return all(statefulSet(name, 1), budget(name, 1, 1, 1, minAvailable("1")),
		pod(name, append([]func(*snapshot.Pod){on(node), ofSet(name)}, options...)...))
}

func TestWaitingNodeSaysSo(t *testing.T) {
	req := ask("a", "b")
	req.MaxParallel = 1
	s := tell(t, req, node("a", ours), node("b", ours), pod("pa", on("a")), pod("pb", on("b")))
	s.expect("evict pa")
	s.holds("pb: NodeWaitsItsTurn")
	got := map[string]drain.NodeState{}
	for _, n := range s.last.Nodes {
		got[n.Name] = n.State
	}
	if diff := cmp.Diff(map[string]drain.NodeState{"a": drain.NodeDraining, "b": drain.NodePending}, got); diff != "" {
		t.Error(diff)
	}
	s.answer(answers.Accepted)
	s.then(time.Second, gone("pa"))
	s.expect("mark a drained", "evict pb")
}

// A pod that may never be removed must not keep other nodes waiting.
func TestRefusedForGoodGivesUpThePlace(t *testing.T) {
	for _, disable := range []bool{false, true} {
		req := ask("a", "b")
		req.MaxParallel, req.DisableEviction = 1, disable
		s := tell(t, req, node("a", ours), node("b", ours), pod("pa", on("a")), pod("pb", on("b")))
		s.decide()
		s.answer(answers.Forbidden)
		s.decide()
		if got := evictions(s.last); len(got) != 1 || s.last.Actions[len(s.last.Actions)-1].Pod.Name != "pb" {
			t.Errorf("disable-eviction %v: b is not drained: %v%s", disable, deeds(s.last), s.where())
		}
	}
}

// TestLapsedClaim: a process that was suspended for longer than its sign of life counts acts on nothing that it saw before:
// another drain may have taken the node.
func TestLapsedClaim(t *testing.T) {
	suspended := snapshot.LiveFor
	begin := func(t *testing.T) *story {
		t.Helper()
		s := tell(t, ask("a", "b"), node("a", ours), node("b", ours), pod("web", on("a")), pod("db", on("b")),
			deployment("api", 2, surgedBy(me, 1, start)), pods("api", "a", 1), pods("api", "b", 1))
		s.then(suspended)
		s.expect("mark a draining", "mark b draining")
		s.holds("a: EvidenceUnavailable", "b: EvidenceUnavailable")
		same(t, "it insists on what was seen", true, s.last.Actions[0].Lapsed)
		same(t, "beat", s.now, s.last.Actions[0].Record.Beat)
		return s
	}
	t.Run("the node is still its own", func(t *testing.T) {
		s := begin(t)
		s.answer(answers.Accepted)
		s.expect() // accepted is not observed
		s.holds("a: EvidenceUnavailable", "b: EvidenceUnavailable")
		s.then(0, node("a", drainedBy(me, s.now), version("2")), node("b", drainedBy(me, s.now), version("2")))
		s.decide()
		same(t, "deeds", true, len(s.last.Actions) > 0)
		for _, a := range s.last.Actions {
			same(t, a.Why+" insists on what was seen", false, a.Lapsed)
		}
	})
	t.Run("another drain has it", func(t *testing.T) {
		s := begin(t)
		s.answer(answers.Conflict)
		s.then(0, node("a", drainedBy("other", s.now), version("2")), node("b", drainedBy("other", s.now), version("2")))
		s.decide()
		s.holds("a: AnotherDrain", "b: AnotherDrain")
	})
	t.Run("it ends", func(t *testing.T) {
		s := tell(t, ask("a"), node("a", ours))
		s.led.End(drain.TimedOut)
		s.then(suspended - 1)
		s.expect("mark a timeout")
		same(t, "in time, it insists on what was seen", false, s.last.Actions[0].Lapsed)
		s.led = drain.NewLedger()
		s.led.End(drain.TimedOut)
		s.then(1)
		s.expect("mark a timeout")
		same(t, "too late, it insists on what was seen", true, s.last.Actions[0].Lapsed)
	})
}

// TestInTime is about what rests on the drain's sign of life on node a, and how old that is when it is to be sent.
func TestInTime(t *testing.T) {
	web := &snapshot.Pod{Node: "a"}
	was := &nodeOf{Name: "a"}
	type kinds []drain.Action
	pods := kinds{{Kind: drain.Evict, Pod: web}, {Kind: drain.Delete, Pod: web}, {Kind: drain.LowerCost, Pod: web}, {Kind: drain.Ask, Pod: web}}
	marks := kinds{{Kind: drain.Mark, Node: was}}
	compared := kinds{{Kind: drain.Mark, Node: was, Lapsed: true}, {Kind: drain.Cordon, Node: was}, {Kind: drain.Uncordon, Node: was}, {Kind: drain.Scale}, {Kind: drain.RestoreCost, Pod: web}}
	cases := map[string]struct {
		node    fact
		actions kinds
		want    bool
		back    string
	}{
		"in time":                    {node("a", ours), slices.Concat(pods, marks), true, ""},
		"at the last moment":         {node("a", drainedBy(me, start.Add(1-snapshot.LiveFor))), slices.Concat(pods, marks), true, ""},
		"too late":                   {node("a", drainedBy(me, start.Add(-snapshot.LiveFor))), slices.Concat(pods, marks), false, ""},
		"another drain has the node": {node("a", drainedBy("other", start)), slices.Concat(pods, marks), false, ""},
		"the node was given back":    {node("a"), slices.Concat(pods, marks), false, ""},
		"the node was opened":        {node("a", ours, schedulable), pods, false, ""},
		"… and cordoned again":       {node("a", ours, cordonedAnew), pods, false, ""},
		"… which was seen":           {node("a", ours), pods, false, "a"},
		"another node was opened":    {node("a", ours), pods, true, "b"},
		"… but its record is there":  {node("a", ours, schedulable), marks, true, "a"},
		"the node is gone":           {node("b", ours), slices.Concat(pods, marks), false, ""},
		"it needs no claim":          {node("a", drainedBy("other", start)), compared, true, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, a := range c.actions {
				same(t, string(a.Kind), c.want, drain.InTime(snapshot.View{Now: start, Cluster: cluster(c.node)}, snapshot.Drainer{ID: me}, map[string]bool{c.back: true}, a))
			}
		})
	}
}
