package openstack_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

// loss is a host that is lost, as its policy's controller goes on with it: each call is made when the last one is certainly over.
type loss struct {
	*bench
	cloud *openstacksim.Cloud
}

func newLoss(t *testing.T, servers ...string) loss {
	t.Helper()
	cloud := openstacksim.New(3)
	for i, state := range servers {
		cloud.Boot(fmt.Sprintf("s%d", i), "compute-1", state)
	}
	cloud.Die("compute-1")
	return loss{simulatedBench(t, cloud), cloud}
}

func (l *loss) evacuation() eviction.Preparation {
	return eviction.Preparation{Name: openstack.EvacuateServers, Namespace: "cloud", Member: l.ref("compute-1"), Job: l.job}
}

// evacuate is one call, after which time passes until the next may be made.
func (l *loss) evacuate() error {
	job, err := l.system.Prepare(l.t.Context(), l.evacuation())
	if err == nil && job.ID != "" {
		l.job = job
	}
	l.cloud.Advance(10 * time.Second)
	return err
}

// restart has another process go on, which knows what is written down.
func (l *loss) restart() { l.system = simulatedBench(l.t, l.cloud).system }

// left are the servers that have to be brought back, as the evidence has it.
func (l *loss) left() int64 {
	l.t.Helper()
	evidence, err := l.observe("compute-1")
	if err != nil {
		l.t.Fatal(err)
	}
	left, _ := evidence.Members["compute-1"]["left"].(int64)
	return left
}

func (l *loss) undoEvacuation() (eviction.Undone, error) {
	return l.system.Undo(l.t.Context(), l.evacuation())
}

// A dead host's servers run elsewhere in the end, each rebuilt once, and the host is given back when its nova-compute has cleaned up.
func TestAHostIsEvacuatedAndGivenBack(t *testing.T) {
	l := newLoss(t, "active", "stopped", "active")
	for range 5 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	if on := l.cloud.On("compute-1"); len(on) > 0 || l.left() > 0 || len(l.cloud.Migrations()) != 3 || len(l.cloud.Twice) > 0 {
		t.Fatalf("on it %v, left %d, %d migrations, twice %v", on, l.left(), len(l.cloud.Migrations()), l.cloud.Twice)
	}
	if h := l.cloud.Host("compute-1"); !h.Forced || h.Enabled || !strings.HasPrefix(h.Reason, "Usher (policy cloud/usher)") {
		t.Fatalf("%+v", h)
	}
	if _, err := l.undoEvacuation(); err == nil || !strings.Contains(err.Error(), "has to start and to clean up") {
		t.Fatalf("Nova 8: before its nova-compute has started: %v", err)
	}
	l.cloud.Start("compute-1")
	var undone eviction.Undone
	for range 3 {
		var err error
		if undone, err = l.undoEvacuation(); err != nil {
			t.Fatal(err)
		}
	}
	if h := l.cloud.Host("compute-1"); h.Forced || !h.Enabled || !undone.Done || !strings.Contains(undone.Left, "stay where they are") {
		t.Errorf("%+v, %+v", h, undone)
	}
}

// Nova 5: a second evacuation during the first is accepted, and rebuilds what has moved. An answer that is lost, or a process that ends, sends none.
func TestNova5EvacuatedOnce(t *testing.T) {
	l := newLoss(t, "active", "active")
	if err := l.evacuate(); err != nil {
		t.Fatal(err)
	}
	l.cloud.Evacuation = time.Minute
	l.cloud.Inject(httpfault.Fault{Method: http.MethodPost, Path: "/action", Times: 1, Lost: true})
	if err := l.evacuate(); err == nil {
		t.Error("an answer that was lost is none")
	}
	for range 12 {
		l.restart()
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.cloud.Migrations()) != 2 || len(l.cloud.Twice) > 0 || len(l.cloud.On("compute-1")) > 0 {
		t.Errorf("%+v, twice %v", l.cloud.Migrations(), l.cloud.Twice)
	}
}

// Nova 7: with no valid host the server is in the state error on its host; it is tried again later, and recovers.
func TestNova7NoValidHost(t *testing.T) {
	l := newLoss(t, "active")
	l.cloud.Change("s0", func(s *openstacksim.Server) { s.Nowhere = true })
	for range 3 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	evidence, err := l.observe("compute-1")
	if failed, _ := evidence.Members["compute-1"]["failed"].([]string); err != nil || len(failed) != 1 || !strings.Contains(failed[0], "Nova found no valid host") {
		t.Fatalf("%v, %v", failed, err)
	}
	l.cloud.Change("s0", func(s *openstacksim.Server) { s.Nowhere = false })
	l.cloud.Advance(5 * time.Minute)
	for range 3 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	if s := l.cloud.Server("s0"); s.State != "active" || s.Host == "compute-1" {
		t.Errorf("%+v", s)
	}
}

// Nova 4: nothing is asked for while Nova takes the host for up, which contradicts that it is off.
func TestNova4NovaHearsOfIt(t *testing.T) {
	l := newLoss(t, "active")
	l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Up = true })
	l.cloud.TakeRequests()
	if err := l.evacuate(); err == nil || !strings.Contains(err.Error(), "although its node is proven off") {
		t.Errorf("%v", err)
	}
	changes := slices.DeleteFunc(l.cloud.TakeRequests(), func(r string) bool { return strings.HasPrefix(r, http.MethodGet) || strings.Contains(r, "/v3/auth") })
	if len(changes) > 0 {
		t.Errorf("%v", changes)
	}
}

// What is under way when a step begins is not asked for again: its policy was deleted and made anew in the middle, or another client evacuates as well.
func TestNova5UnderWayBeforeTheStep(t *testing.T) {
	l := newLoss(t, "active", "active")
	l.cloud.Evacuation = time.Minute
	for range 3 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	l.restart()
	l.job = eviction.Job{}
	for range 12 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.cloud.Migrations()) != 2 || len(l.cloud.Twice) > 0 || len(l.cloud.On("compute-1")) > 0 {
		t.Errorf("%+v, twice %v", l.cloud.Migrations(), l.cloud.Twice)
	}
}

// interleaved calls before each request what else happens at that moment.
type interleaved struct {
	http.RoundTripper
	before func(*http.Request)
}

func (i interleaved) RoundTrip(r *http.Request) (*http.Response, error) {
	i.before(r)
	return i.RoundTripper.RoundTrip(r)
}

// Each server is looked up before it is asked for: another client may have asked while those before it were.
func TestNova5AnotherClientAsksMeanwhile(t *testing.T) {
	l := newLoss(t, "active", "active", "active")
	access := system.Access{Namespace: "cloud", Timeout: time.Minute, Loopback: true, Secrets: map[v1alpha1.SecretKey][]byte{cloudsKey: l.site.clouds()}}
	asked := false
	access.Transport = interleaved{l.cloud.Transport(), func(r *http.Request) {
		if !asked && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/action") {
			asked = true
			l.cloud.Evacuate("s2")
		}
	}}
	opened, err := openstack.OpenAt(&v1alpha1.System{OpenStack: &v1alpha1.OpenStack{Clouds: cloudsKey}}, access, l.cloud.Now)
	if err != nil {
		t.Fatal(err)
	}
	l.system = opened
	for range 4 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.cloud.Migrations()) != 3 || len(l.cloud.Twice) > 0 || len(l.cloud.On("compute-1")) > 0 {
		t.Errorf("%+v, twice %v", l.cloud.Migrations(), l.cloud.Twice)
	}
}

// A server is brought to a host by an evacuation, and that host dies as well: the first evacuation is not taken for one of the second loss.
func TestNova5TwoHostsDieInTurn(t *testing.T) {
	l := newLoss(t, "active")
	for range 2 {
		host := l.cloud.Server("s0").Host
		l.cloud.Die(host)
		step := l.evacuation()
		step.Member = l.ref(host)
		for range 4 {
			job, err := l.system.Prepare(t.Context(), step)
			if err != nil {
				t.Fatal(err)
			}
			step.Job = job
			l.cloud.Advance(10 * time.Second)
		}
		if l.cloud.Server("s0").Host == host {
			t.Errorf("it stays on %s: %+v", host, l.cloud.Migrations())
		}
	}
}

// A server whose evacuation has failed is in the state error, and does not stay on the dead host because the policy lets such servers stay.
func TestNova7AFailedEvacuationDoesNotStay(t *testing.T) {
	cloud := openstacksim.New(3)
	cloud.Boot("s0", "compute-1", "active")
	cloud.Boot("broken", "compute-1", "error")
	cloud.Die("compute-1")
	l := loss{newBench(t, simulated{cloud}, v1alpha1.OpenStack{Servers: v1alpha1.ServersByState{Error: v1alpha1.ServerStay}}), cloud}
	cloud.Change("s0", func(s *openstacksim.Server) { s.Nowhere = true })
	for range 3 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	if s := cloud.Server("s0"); s.State != "error" || l.left() != 1 {
		t.Fatalf("%+v, left %d", s, l.left())
	}
	cloud.Change("s0", func(s *openstacksim.Server) { s.Nowhere = false })
	cloud.Advance(5 * time.Minute)
	for range 3 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	if s := cloud.Server("s0"); s.State != "active" || s.Host == "compute-1" || l.left() != 0 {
		t.Errorf("%+v, left %d", s, l.left())
	}
}

// A host dies while servers live-migrate off it. What may run at its destination already is named, and not evacuated before a person has.
func TestAHostDiesWhileServersLeaveIt(t *testing.T) {
	l := newLoss(t, "active", "active")
	l.cloud.ChangeHost("compute-1", func(h *openstacksim.Host) { h.Up = true })
	l.cloud.Migrate("s0", "live-migration", openstacksim.User)
	l.cloud.Advance(3 * time.Second)
	l.cloud.Die("compute-1")
	for range 5 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
		l.cloud.Advance(8 * 24 * time.Hour)
	}
	if on := l.cloud.On("compute-1"); !slices.Equal(on, []string{"s0"}) || len(l.cloud.Migrations()) != 2 {
		t.Fatalf("on it %v, %+v", on, l.cloud.Migrations())
	}
	if said := l.status("compute-1").Message; !strings.Contains(said, "may run on compute-2 already, to which migration 1 was moving it") {
		t.Errorf("%s", said)
	}
	l.cloud.Change("s0", func(s *openstacksim.Server) { s.Task = "" }) // who has looked sets its state
	for range 2 {
		if err := l.evacuate(); err != nil {
			t.Fatal(err)
		}
	}
	if on := l.cloud.On("compute-1"); len(on) > 0 {
		t.Errorf("on it %v", on)
	}
}

// Each role says what is done on a host that is off: nothing takes a member's place, and its pod would stay for ever otherwise.
func TestLostStepsOfTheRole(t *testing.T) {
	roles, err := eviction.ParseRoles(kind().Roles)
	if err != nil {
		t.Fatal(err)
	}
	for i := range roles {
		if roles[i].Lost == nil {
			t.Errorf("role %s says nothing of a host that is off: its pods would stay for ever", roles[i].Name)
		}
	}
}

// What is done for a host that is off names what it waits for, and what a person can do.
func TestWordsOfLostHosts(t *testing.T) {
	const (
		evacuating = "evacuating the servers of compute-1, which is proven off; servers left: "
		giving     = "giving the routers of compute-1, which is proven off, to living L3 agents; routers left: "
		s1         = "00000002-0000-4000-8000-000000000000"
	)
	evacuated := func(l *loss, change func(*openstacksim.Server)) {
		l.cloud.Change("s1", change)
		for range 5 {
			_ = l.evacuate()
		}
	}
	for name, c := range map[string]struct {
		role, host string
		given      func(*loss)
		want       string
		left       int64
	}{
		"servers":    {"nova-compute", "compute-1", func(*loss) {}, evacuating + "2", 2},
		"no host":    {"nova-compute", "compute-9", func(*loss) {}, "OpenStack has no compute host compute-9 in this region", 0},
		"no routers": {"neutron-l3-agent", "compute-1", func(*loss) {}, giving + "0", 0},
		"nowhere to go": {"nova-compute", "compute-1", func(l *loss) {
			for _, other := range []string{"compute-2", "compute-3"} {
				l.cloud.ChangeHost(other, func(h *openstacksim.Host) { h.Enabled = false })
			}
		}, evacuating + "2; no other compute host is up and enabled: openstack compute service set --enable HOST nova-compute", 2},
		"one is suspended": {
			"nova-compute", "compute-1", func(l *loss) { evacuated(l, func(s *openstacksim.Server) { s.State = "suspended" }) },
			evacuating + "1; not evacuated as they are (1): s1 (" + s1 + ") is suspended, its memory is lost with the host, and Nova evacuates no such server: openstack server set --state active " + s1 + " has it evacuated", 1,
		},
		"one has no valid host": {
			"nova-compute", "compute-1", func(l *loss) { evacuated(l, func(s *openstacksim.Server) { s.Nowhere = true }) },
			evacuating + "1; not evacuated yet (1): s1 (" + s1 + ") stayed: Nova found no valid host for it (migration 2: error); asked for again at 12:05:11Z", 1,
		},
		"one is on its way": {"nova-compute", "compute-1", func(l *loss) {
			l.cloud.Evacuation = time.Hour
			evacuated(l, func(s *openstacksim.Server) { s.State = "suspended" })
		}, evacuating + "2; not evacuated as they are (1): s1 (" + s1 + ") is suspended, its memory is lost with the host, and Nova evacuates no such server: openstack server set --state active " + s1 +
			" has it evacuated; on their way (1): s0 (00000001-0000-4000-8000-000000000000) evacuation to compute-2: migration 1 is evacuating", 2},
		"no L3 agent": {"neutron-l3-agent", "compute-9", func(*loss) {}, "Neutron has no L3 agent on a host compute-9 in this region", 0},
		"several DHCP agents": {
			"neutron-dhcp-agent", "compute-1", func(l *loss) { l.cloud.AddAgents("compute-1=dhcp", "compute-1=dhcp") },
			"host compute-1 has several agents of the type DHCP agent: openstack network agent delete ID removes the one that is not there any more", 0,
		},
		"an agent of another policy's": {"neutron-bgp-agent", "compute-1", func(l *loss) {
			l.cloud.AddAgents("compute-1=bgp")
			l.cloud.ChangeAgent("bgp", "compute-1", func(a *openstacksim.Agent) {
				a.Alive, a.Description = false, "Usher (policy other/usher): what it has is moved to other agents"
			})
		}, "the BGP dynamic routing agent on compute-1 is being emptied for policy other/usher already; " +
			"where that one is gone, openstack network agent set --description WORDS agent-BGP-dynamic-routing-agent-compute-1-3 takes its mark off", 0},
		"all routers are stuck": {
			"neutron-l3-agent", "compute-1", func(l *loss) {
				l.cloud.Make("l3", "r", "compute-1")
				l.cloud.ChangeAgent("l3", "compute-2", func(a *openstacksim.Agent) { a.Alive = false })
			},
			giving + "1; no other agent may have (1): r (00000003-0000-4000-8000-000000000003) has nowhere to go: no other L3 agent is alive, enabled and not being emptied", 1,
		},
		"a router is stuck": {"neutron-l3-agent", "compute-1", func(l *loss) {
			l.cloud.Make("l3", "r", "compute-1")
			stuck := l.cloud.Make("l3", "far", "compute-1")
			l.cloud.ChangeThing(stuck, func(r *openstacksim.Thing) { r.Zones = []string{"moon"} })
		}, giving + "2; no other agent may have (1): far (00000004-0000-4000-8000-000000000004) has nowhere to go: no other L3 agent in its zones (moon) is alive, enabled and not being emptied", 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t, "active", "active")
			l.cloud.AddAgents("compute-1=l3", "compute-2=l3")
			l.cloud.ChangeAgent("l3", "compute-1", func(a *openstacksim.Agent) { a.Alive = false })
			c.given(&l)
			l.role = c.role
			got := l.status(c.host)
			if got.Message != c.want || got.Remaining != c.left {
				t.Errorf("got  %q, %d left\nwant %q, %d left", got.Message, got.Remaining, c.want, c.left)
			}
		})
	}
}

// status is what the policy's status says of the step for a host that is off, once its controller has asked for it.
func (l *loss) status(host string) v1alpha1.PreparationStatus {
	l.t.Helper()
	evidence, err := l.observe(host)
	if err != nil {
		l.t.Fatal(err)
	}
	pod := l.pod(host)
	in := eviction.LostInput{
		Now: l.site.now(), Pods: []*snapshot.Pod{pod}, Nodes: map[string]eviction.NodeState{pod.Node: eviction.NodeProvenOff}, Evidence: evidence,
		Policy: eviction.Declared{Key: snapshot.Key{Namespace: "cloud", Name: "nova"}, Policy: l.policy, Held: true, Status: &v1alpha1.EvictionPolicyStatus{}},
	}
	for range 2 { // it is written down first
		if actions := eviction.LoseMembers(in).Actions; len(actions) > 0 {
			in.Policy.Status = actions[0].Status
		}
	}
	return in.Policy.Status.Preparations[0]
}

// Whatever breaks, and whichever process goes on: no server is rebuilt twice at a time, or once it is elsewhere, and all are elsewhere in the end.
func TestPropertyEvacuated(t *testing.T) {
	faults := []httpfault.Fault{
		{Method: "POST", Path: "/action", Times: 1, Lost: true},
		{Method: "POST", Path: "/action", Times: 1, Status: 503},
		{Method: "PUT", Times: 1, Lost: true},
		{Path: "/os-migrations", Times: 1, Status: 500},
		{Path: "/servers/detail", Times: 1, Cut: 10},
		{Method: "POST", Path: "/action", Times: 1, Refuse: true},
	}
	rapid.Check(t, func(r *rapid.T) {
		l := newLoss(t, rapid.SliceOfN(rapid.SampledFrom([]string{"active", "stopped"}), 0, 12).Draw(r, "servers")...)
		l.cloud.Evacuation = time.Duration(rapid.IntRange(1, 40).Draw(r, "takes")) * time.Second
		for range rapid.IntRange(0, 12).Draw(r, "turns") {
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0:
				l.cloud.Inject(rapid.SampledFrom(faults).Draw(r, "fault"))
			case 1:
				l.restart()
			case 2:
				l.cloud.ExpireTokens()
			case 3: // the policy was deleted and made anew
				l.restart()
				l.job = eviction.Job{}
			}
			_ = l.evacuate()
		}
		l.cloud.Heal()
		for turns := 0; l.left() > 0 || !l.cloud.Host("compute-1").Forced; turns++ {
			if turns > 100 {
				r.Fatalf("it is never evacuated: %+v", l.cloud.Migrations())
			}
			if err := l.evacuate(); err != nil {
				r.Fatal(err)
			}
		}
		tries := map[string]int{}
		for _, m := range l.cloud.Migrations() {
			tries[m.Server]++
			if tries[m.Server] > 1 {
				r.Fatalf("server %s was evacuated %d times", m.Server, tries[m.Server])
			}
		}
		if len(l.cloud.Twice) > 0 || len(l.cloud.On("compute-1")) > 0 {
			r.Fatalf("twice %v, on it %v", l.cloud.Twice, l.cloud.On("compute-1"))
		}
	})
}
