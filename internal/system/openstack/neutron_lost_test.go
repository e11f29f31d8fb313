package openstack_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

// A process that ends between two calls leaves a router without an agent to the next one, which finds it in the job.
func TestARouterBetweenTwoAgentsIsNotForgotten(t *testing.T) {
	for name, fault := range map[string]httpfault.Fault{
		"it was refused": {Method: "POST", Path: "/l3-routers", Times: 1, Refuse: true},
		"it arrived":     {Method: "POST", Path: "/l3-routers", Times: 1, Lost: true},
		"it did not":     {Method: "POST", Path: "/l3-routers", Times: 1, Status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := networkCloud()
			id := cloud.Make("l3", "r", "compute-1")
			b := roleBench(t, cloud, "neutron-l3-agent")
			b.turn("compute-1")
			b.turn("compute-1")
			cloud.Inject(fault)
			if err := b.prepare("compute-1"); err == nil {
				t.Fatal("the call says nothing")
			}
			if v := b.judge("compute-1"); v.Answer == eviction.Allowed || !needs(v) {
				t.Fatalf("with a router between two agents: %s", said(v))
			}
			next := roleBench(t, cloud, "neutron-l3-agent")
			next.job = b.job
			if v := next.run(cloud, "compute-1", 5); v.Answer != eviction.Allowed || !cloud.Served(id) {
				t.Errorf("%s, on %v", said(v), cloud.Hosts(id))
			}
		})
	}
}

// It is not forgotten either where all that is left on its agent has nowhere to go.
func TestARouterBetweenTwoAgentsBesideOneThatIsStuck(t *testing.T) {
	cloud := networkCloud()
	id, stuck := cloud.Make("l3", "r", "compute-1"), cloud.Make("l3", "far", "compute-1")
	cloud.ChangeThing(stuck, func(r *openstacksim.Thing) { r.Zones = []string{"moon"} })
	b := roleBench(t, cloud, "neutron-l3-agent")
	b.turn("compute-1")
	b.turn("compute-1")
	cloud.Inject(httpfault.Fault{Method: "POST", Path: "/l3-routers", Times: 1, Refuse: true})
	_ = b.prepare("compute-1")
	if b.turn("compute-1"); !cloud.Served(id) {
		t.Errorf("it is on %v", cloud.Hosts(id))
	}
}

// A router that is deleted while it has no agent is not looked for any more.
func TestARouterIsDeletedBetweenTwoAgents(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "r", "compute-1")
	b := roleBench(t, cloud, "neutron-l3-agent")
	b.turn("compute-1")
	b.turn("compute-1")
	cloud.Inject(httpfault.Fault{Method: "POST", Path: "/l3-routers", Times: 1, Refuse: true})
	_ = b.prepare("compute-1")
	cloud.Remove(id)
	cloud.TakeRequests()
	if v := b.run(cloud, "compute-1", 3); v.Answer != eviction.Allowed || asked(cloud.TakeRequests(), "POST") > 0 {
		t.Error(said(v))
	}
}

// An agent whose answer was lost gets nothing for a while, also by the process that is opened next. One that was certainly not asked gets what it would have.
func TestAnswersThatAreLost(t *testing.T) {
	for name, c := range map[string]struct {
		fault httpfault.Fault
		want  string
	}{
		"lost": {httpfault.Fault{Method: "POST", Path: "/l3-routers", Times: 1, Status: 503}, "compute-1"}, "not sent": {httpfault.Fault{Method: "POST", Path: "/l3-routers", Times: 1, Refuse: true}, "compute-2"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := openstacksim.New(2)
			cloud.AddAgents("compute-1=l3", "compute-2=l3")
			id := cloud.Make("l3", "r", "compute-1")
			b := roleBench(t, cloud, "neutron-l3-agent")
			b.turn("compute-1")
			b.turn("compute-1")
			cloud.Inject(c.fault)
			_ = b.prepare("compute-1")
			next, err := open(b.site, v1alpha1.OpenStack{Clouds: cloudsKey}, b.site.clouds())
			if err != nil {
				t.Fatal(err)
			}
			next.(system.Resumer).Resume(b.system)
			b.system = next
			if err := b.prepare("compute-1"); err != nil || !slices.Equal(cloud.Hosts(id), []string{c.want}) {
				t.Errorf("%v, on %v", err, cloud.Hosts(id))
			}
			if v := b.run(cloud, "compute-1", 30); v.Answer != eviction.Allowed || !slices.Equal(cloud.Hosts(id), []string{"compute-2"}) {
				t.Errorf("%s, on %v", said(v), cloud.Hosts(id))
			}
		})
	}
}

// breakOff ends a context once a router was taken off its agent.
type breakOff struct {
	http.RoundTripper

	cancel context.CancelFunc
}

func (b breakOff) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete {
		defer b.cancel()
	}
	return b.RoundTripper.RoundTrip(r)
}

type brokenOff struct {
	simulated

	cancel context.CancelFunc
}

func (b brokenOff) transport() http.RoundTripper { return breakOff{b.simulated.transport(), b.cancel} }

// A call that is broken off when its manager ends gives a router that it has taken off an agent to another.
func TestACallThatIsBrokenOff(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "r", "compute-1")
	ctx, cancel := context.WithCancel(t.Context())
	b := newBench(t, brokenOff{simulated{cloud}, cancel}, v1alpha1.OpenStack{})
	b.role = "neutron-l3-agent"
	b.turn("compute-1")
	b.turn("compute-1")
	_, _ = b.system.Prepare(ctx, b.step("compute-1"))
	if ctx.Err() == nil || !cloud.Served(id) {
		t.Errorf("%v, on %v", ctx.Err(), cloud.Hosts(id))
	}
}

// Taken back in between, it gets an agent as well.
func TestUndoFindsARouterBetweenTwoAgents(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "r", "compute-1")
	b := roleBench(t, cloud, "neutron-l3-agent")
	b.turn("compute-1")
	b.turn("compute-1")
	cloud.Inject(httpfault.Fault{Method: "POST", Path: "/l3-routers", Times: 1, Refuse: true})
	_ = b.prepare("compute-1")
	if len(cloud.Hosts(id)) != 0 {
		t.Fatal(cloud.Hosts(id))
	}
	b.undoAll(cloud)
	if !cloud.Served(id) {
		t.Error("it has no agent")
	}
}

// What another agent was given in addition is taken from it when the step is taken back.
func TestUndoTakesBackWhatWasGivenInAddition(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("dhcp", "lan", "compute-1")
	b := roleBench(t, cloud, "neutron-dhcp-agent")
	b.turn("compute-1")
	b.turn("compute-1")
	if len(cloud.Hosts(id)) != 2 {
		t.Fatal(cloud.Hosts(id))
	}
	b.undoAll(cloud)
	if hosts := cloud.Hosts(id); !slices.Equal(hosts, []string{"compute-1"}) {
		t.Errorf("it is on %v", hosts)
	}
}

// A router with HA is on two hosts, of which one is given back while the other is emptied: what was given in addition for the one stays when the other's step is
// taken back, which ends.
func TestUndoLeavesWhatWasGivenForAnotherHost(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "r", "compute-1", "compute-2")
	b := roleBench(t, cloud, "neutron-l3-agent")
	back := b.job
	for range 2 {
		b.turn("compute-2")
	}
	leaving := b.job
	if hosts := cloud.Hosts(id); len(hosts) != 3 {
		t.Fatal(hosts)
	}
	b.job = back
	b.undoAll(cloud) // compute-1
	if hosts := cloud.Hosts(id); len(hosts) != 3 {
		t.Errorf("it is on %v", hosts)
	}
	b.job = leaving
	b.run(cloud, "compute-2", 10)
	if hosts := cloud.Hosts(id); !slices.Equal(hosts, []string{"compute-1(active)", "compute-3(standby)"}) {
		t.Errorf("it is on %v", hosts)
	}
}

// A router with HA is on two hosts that are emptied at once: each has an agent in its place, so that it is on two in the end.
func TestARouterLeavesTwoHostsAtOnce(t *testing.T) {
	cloud := networkCloud()
	cloud.AddAgents("compute-4=l3")
	id := cloud.Make("l3", "r", "compute-1", "compute-2")
	one, two := roleBench(t, cloud, "neutron-l3-agent"), roleBench(t, cloud, "neutron-l3-agent")
	two.system = one.system
	for range 12 {
		one.turn("compute-1")
		two.turn("compute-2")
		cloud.Advance(10 * time.Second)
	}
	if hosts := cloud.Hosts(id); len(hosts) != 2 || !strings.HasPrefix(hosts[0], "compute-3") || !strings.HasPrefix(hosts[1], "compute-4") {
		t.Errorf("it is on %v", hosts)
	}
}
