package arangodb

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/arangosim"
	"usher.sh/usher/test/httpfault"
)

func (b *bench) listed(id string, predecessor *v1alpha1.MemberRegistration) system.Listing {
	b.t.Helper()
	listing, err := b.sys.(system.Membership).Listed(b.t.Context(), system.Member{MemberRef: v1alpha1.MemberRef{ID: id}}, predecessor)
	if err != nil {
		b.t.Fatal(err)
	}
	return listing
}

func (b *bench) takeOff(old *v1alpha1.MemberRegistration) string {
	b.t.Helper()
	missing, err := b.sys.(system.Membership).Leave(b.t.Context(), system.Member{}, old)
	if err != nil {
		b.t.Fatal(err)
	}
	return missing
}

// A coordinator has nothing but its id, which stays on the list when its pod is made anew.
func TestACoordinatorLeavesTheList(t *testing.T) {
	b := newBench(t, plain())
	old := b.listed("CRDN-a", nil).Member
	if old == nil || old.ID != "CRDN-a" {
		t.Fatalf("it is listed as %+v", old)
	}
	if missing := b.takeOff(old); !strings.Contains(missing, `"GOOD", and only one that has FAILED is removed`) {
		t.Errorf("while it runs: %q", missing)
	}
	b.sim.Kill(old.ID)
	b.ticks(30)
	if missing := b.takeOff(old); missing != "" {
		t.Errorf("once it has failed: %q", missing)
	}
	if got := b.listed("CRDN-a", old); got.Predecessor || got.Member != nil {
		t.Errorf("it is still listed: %+v", got)
	}
	if missing := b.takeOff(old); missing != "" {
		t.Errorf("asked for again: %q", missing)
	}
	if asked := b.asked("/_admin/cluster/removeServer"); asked != 1 {
		t.Errorf("it was asked for %d times", asked)
	}
}

func TestTheCoordinatorRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		says   string
		final  bool
	}{
		"another was first": {status: 404},
		"it is needed":      {status: 412, says: "the coordinator keeps CRDN-a: it answered 412"},
		"no rights":         {status: 403, says: "it does not allow this", final: true},
		"not now":           {status: 503, says: "it is not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, plain())
			old := b.listed("CRDN-a", nil).Member
			b.sim.Kill(old.ID)
			b.ticks(30)
			b.sim.Inject(httpfault.Fault{Path: "/_admin/cluster/removeServer", Status: test.status, Body: `{"errorNum":1}`})
			missing, err := b.sys.(system.Membership).Leave(t.Context(), system.Member{}, old)
			said := missing
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, test.says) || (said == "") != (test.says == "") || errors.Is(err, system.ErrTerminal) != test.final {
				t.Errorf("it says %q, %v", missing, err)
			}
		})
	}
}

// A server of an active failover deployment leaves the list once it has failed and another one leads; removeServer would leave it in the plan.
func TestASingleServerLeavesTheList(t *testing.T) {
	b := newBench(t, arangosim.New(arangosim.Config{Agents: 3, Singles: 3, Secret: testSecret}))
	for _, id := range []string{"SNGL-b", "SNGL-a"} { // a follower, then the leader
		old := b.listed(id, nil).Member
		if missing := b.takeOff(old); !strings.Contains(missing, `"GOOD", and only one that has FAILED is removed`) {
			t.Errorf("while %s runs: %q", id, missing)
		}
		b.sim.Wipe(id)
		b.ticks(12)
		fresh := b.sim.Renew(id)
		b.ticks(1)
		if missing := b.takeOff(old); missing != "" {
			t.Errorf("once %s has failed: %q", id, missing)
		}
		b.ticks(12)
		if at := b.sim.Mentions(id); len(at) > 0 {
			t.Errorf("%s stands at %v", id, at)
		}
		if got := b.listed(id, old); got.Predecessor || !got.Joined || got.Successor.ID != fresh {
			t.Errorf("%s is listed as %+v", fresh, got)
		}
	}
	if asked := b.asked("/_api/agency/write"); asked != 2 {
		t.Errorf("the agency was written to %d times", asked)
	}
}

// What has changed since it was looked at, of the server or of the leader, keeps it on the list, and so does what no server leads.
func TestASingleServerThatIsNeededStays(t *testing.T) {
	for name, test := range map[string]struct {
		given func(*bench)
		says  string
	}{
		"it leads, as far as the agency knows": {func(b *bench) { b.sim.Set("Plan/AsyncReplication/Leader", "SNGL-b") }, "no other server than SNGL-b leads"},
		"no server leads":                      {func(b *bench) { b.sim.Set("Plan/AsyncReplication/Leader", nil) }, "no other server than SNGL-b leads"},
		"it has changed meanwhile": {
			func(b *bench) {
				b.sim.Inject(httpfault.Fault{Path: "/_api/agency/write", Status: 412, Body: `{"results":[0]}`})
			}, "the agency keeps SNGL-b: it answered 412",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, arangosim.New(arangosim.Config{Agents: 3, Singles: 2, Secret: testSecret}))
			old := b.listed("SNGL-b", nil).Member
			b.sim.Kill("SNGL-b")
			b.ticks(12)
			test.given(b)
			if missing := b.takeOff(old); !strings.Contains(missing, test.says) || !b.sim.Knows("SNGL-b") {
				t.Errorf("it says %q", missing)
			}
		})
	}
}

// While the shards of a dbserver that has failed have nowhere to go it stays, and no coordinator is asked: that keeps the call for a minute. A successor is room.
func TestADBServerWithShardsStaysOnTheList(t *testing.T) {
	sim := cluster(2)
	sim.AddCollection("c", 2, []string{prmrA, prmrB})
	b := newBench(t, sim)
	old := b.listed(prmrA, nil).Member
	b.sim.Wipe(prmrA)
	b.ticks(30)
	if missing := b.takeOff(old); missing != "server PRMR-a has 1 shard by plan or in fact, until the supervision has moved them to others" {
		t.Errorf("with shards: %q", missing)
	}
	if asked := b.asked("/_admin/cluster/removeServer"); asked > 0 {
		t.Errorf("with shards it is asked for %d times", asked)
	}
	b.sim.Renew(prmrA)
	b.ticks(5)
	if missing := b.takeOff(old); missing != "" || len(b.sim.Mentions(prmrA)) > 0 {
		t.Errorf("once they have moved to its successor: %q, and it stands at %v", missing, b.sim.Mentions(prmrA))
	}
}

// Each pod of a coordinator without a volume begins as another server. Whichever of them are on the list leave it with the last one that is lost, once its
// successor is there, and none before.
func TestCoordinatorsThatHadTheAddressLeaveTheList(t *testing.T) {
	b := newBench(t, plain())
	first := "CRDN-a"
	if got := b.listed("crdn-a", nil); got.Failed {
		t.Errorf("while it runs it is listed as %+v", got)
	}
	b.sim.Wipe(first)
	second := b.sim.Renew(first)
	b.ticks(12)
	if got := b.listed("crdn-a", nil); got.Member == nil || got.Member.ID != first || !got.Failed {
		t.Errorf("while its successor runs, what is to leave is %+v", got)
	}
	b.sim.Wipe(second)
	b.ticks(12)
	old := b.listed("crdn-a", nil).Member
	if old == nil || old.ID != second {
		t.Fatalf("while both have failed it is listed as %+v", old)
	}
	third := b.sim.Renew(second)
	b.ticks(1)
	if missing := b.takeOff(old); missing != first+", which has failed at the same address, is the next to leave" || !b.listed("crdn-a", old).Predecessor {
		t.Errorf("once the second has left: %q", missing)
	}
	if missing := b.takeOff(old); missing != "" {
		t.Errorf("once the first has left: %q", missing)
	}
	if got := b.listed("crdn-a", old); got.Predecessor || got.Successor.ID != third || len(b.sim.Mentions(first)) > 0 || len(b.sim.Mentions(second)) > 0 {
		t.Errorf("in the end it is listed as %+v", got)
	}
}

// Of servers at one address that have all failed the one with data is meant; where several have some it is not known which.
func TestFailedServersAtOneAddress(t *testing.T) {
	for name, c := range map[string]struct {
		on   []string
		want string
	}{
		"the first has data":  {[]string{prmrA}, prmrA},
		"the second has data": {[]string{"PRMR-a-again1"}, "PRMR-a-again1"},
		"both have data":      {[]string{prmrA, "PRMR-a-again1"}, ""},
		"neither has data":    {nil, "PRMR-a-again1"},
	} {
		t.Run(name, func(t *testing.T) {
			sim := cluster(2)
			sim.AddCollection("b", 1, []string{prmrB})
			sim.Wipe(prmrA)
			sim.Renew(prmrA)
			for i, server := range c.on {
				sim.AddCollection(string(rune('c'+i)), 1, []string{server})
			}
			b := newBench(t, sim)
			b.sim.Kill("PRMR-a-again1")
			b.ticks(12)
			if got, _ := b.evidence("prmr-a").Members["prmr-a"]["server"].(string); got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

// A dbserver that may be replaced is lost for good, and its successor joins at its address: in the end it is off the list, all of its shards are
// on others, and nothing is lost.
func TestPropertyReplacedDBServersLeaveTheList(t *testing.T) {
	left := 0
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, families(rt))
		old := b.listed(prmrA, nil).Member
		if b.replace("dbserver", prmrA).Answer != eviction.Allowed {
			return
		}
		b.sim.Wipe(prmrA)
		b.ticks(rapid.IntRange(0, 40).Draw(rt, "ticks before its successor comes"))
		fresh := b.sim.Renew(prmrA)
		for range 30 {
			b.takeOff(old)
			b.ticks(rapid.IntRange(1, 5).Draw(rt, "ticks"))
		}
		got := b.listed(prmrA, old)
		if got.Predecessor || !got.Joined || got.Successor.ID != fresh {
			rt.Fatalf("all is well again, and: %+v; %q", got, b.takeOff(old))
		}
		if lost := b.sim.Lost(); len(lost) > 0 {
			rt.Fatalf("lost %v", lost)
		}
		left++
	})
	if left == 0 {
		t.Error("the inputs show nothing")
	}
}
