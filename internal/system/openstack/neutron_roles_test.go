package openstack_test

import (
	"errors"
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

// The agents on which all others stand stay while anything on the host needs them.
func TestTheNetworkIsInUse(t *testing.T) {
	cloud := networkCloud()
	cloud.AddAgents("compute-1=ovn")
	for _, role := range []string{"neutron-l2-agent", "ovn-agent"} {
		cloud.Boot("web", "compute-1", "active")
		ids := []string{cloud.Make("l3", "r", "compute-1"), cloud.Make("dhcp", "lan", "compute-1"), cloud.Make("bgp", "as", "compute-1")}
		b := roleBench(t, cloud, role)
		v := b.judge("compute-1")
		if !slices.Equal(reasons(v), []string{"NetworkInUse"}) || !strings.Contains(said(v)[0], "servers: 1, routers: 1, networks: 1, speakers: 1") {
			t.Errorf("%s: %s", role, said(v))
		}
		for _, id := range ids {
			cloud.Remove(id)
		}
		if v := b.judge("compute-1"); !slices.Equal(reasons(v), []string{"NetworkInUse"}) {
			t.Errorf("%s: %s", role, said(v))
		}
		cloud.Change("web", func(s *openstacksim.Server) { s.Host, s.Name = "compute-2", "gone" })
		if v := b.judge("compute-1"); v.Answer != eviction.Allowed {
			t.Errorf("%s: %s", role, said(v))
		}
	}
	for _, role := range []string{"neutron-l2-agent", "ovn-agent", "ovn-bgp-agent"} {
		if v := roleBench(t, cloud, role).judge("nowhere"); !slices.Equal(reasons(v), []string{"HostUnknown"}) {
			t.Errorf("%s: %s", role, said(v))
		}
	}
	if v := roleBench(t, cloud, "ovn-bgp-agent").judge("compute-1"); v.Answer != eviction.Allowed {
		t.Error(said(v))
	}
}

// A host that Nova, or another agent of Neutron, knows by another spelling of its name, or by its whole name, is taken for the same: its layer 2 agent stays.
func TestTheNetworkIsInUseByAnotherName(t *testing.T) {
	for host, other := range map[string]string{"Compute-1": "compute-1", "compute-1.example.com": "compute-1", "compute-7": ""} {
		cloud := openstacksim.New(2)
		cloud.Boot("web", "compute-1", "active")
		cloud.AddAgents(host + "=ovs")
		v := roleBench(t, cloud, "neutron-l2-agent").judge(host)
		if want := "Nova has a compute host " + other + ", which may be the same machine under another name"; (v.Answer == eviction.Allowed) != (other == "") ||
			other != "" && !strings.Contains(said(v)[0], want) {
			t.Errorf("%s: %s", host, said(v))
		}
		if other == "" {
			continue
		}
		cloud = openstacksim.Named(cloud.Now(), host)
		cloud.AddAgents(host+"=ovs", other+"=l3")
		v = roleBench(t, cloud, "neutron-l2-agent").judge(host)
		if !slices.Equal(reasons(v), []string{"HostUnknown"}) || !strings.Contains(said(v)[0], "Neutron has this type of agent, L3 agent, on host "+other) {
			t.Errorf("%s: %s", host, said(v))
		}
	}
}

// Neutron 7: an agent that was deleted while it lives comes back under another id. That nothing is known of it in between does not say that it has nothing.
func TestNeutron7AnAgentIsForgottenWhileItIsLookedAt(t *testing.T) {
	cloud := networkCloud()
	cloud.Make("l3", "r", "compute-1")
	cloud.Inject(httpfault.Fault{Path: "/l3-routers", Status: http.StatusNotFound, Body: `{"NeutronError": {"type": "AgentNotFound", "message": "Agent x could not be found."}}`})
	for _, role := range []string{"neutron-l2-agent", "neutron-l3-agent"} {
		if v := roleBench(t, cloud, role).judge("compute-1"); v.Answer == eviction.Allowed || !slices.Contains(reasons(v), "HostUnknown") {
			t.Errorf("%s: %s", role, said(v))
		}
	}
}

// One host is a member in several roles, and each knows its facts.
func TestSeveralRolesOfAHost(t *testing.T) {
	cloud := networkCloud()
	cloud.Boot("web", "compute-1", "active")
	cloud.Make("l3", "r", "compute-1")
	b := simulatedBench(t, cloud)
	var members []system.Member
	for _, role := range []string{"nova-compute", "neutron-l3-agent"} {
		members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{Role: role, ID: "compute-1"}})
	}
	evidence, err := b.system.Observe(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	facts := evidence.Members["compute-1"]
	if facts["left"] != int64(1) || facts["l3Left"] != int64(1) || facts["dhcpLeft"] != nil {
		t.Errorf("%+v", facts)
	}
	members[0].Role = "a role of one's own"
	if evidence, err = b.system.Observe(t.Context(), members[:1]); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"left", "l3Left", "dhcpLeft", "bgpLeft", "l2Alive", "ovnProblem", "networkUsers"} {
		if _, known := evidence.Members["compute-1"][name]; !known {
			t.Errorf("%s is not known to a role of one's own", name)
		}
	}
}

// Each service is asked only where a role needs it.
func TestOnlyWhatIsNeededIsAsked(t *testing.T) {
	cloud := networkCloud()
	for role, want := range map[string]string{"nova-compute": "/agents", "neutron-l3-agent": "/os-hypervisors/detail", "ovn-bgp-agent": "/os-hypervisors/detail"} {
		b := roleBench(t, cloud, role)
		cloud.TakeRequests()
		if _, err := b.observe("compute-1"); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(cloud.TakeRequests(), func(r string) bool { return strings.HasSuffix(r, want) }) {
			t.Errorf("%s asks for %s", role, want)
		}
	}
}

// What an agent has that serves is listed once a minute: of a whole region's agents nothing is wanted but of those that are being emptied. That it has nothing, and so
// that nothing uses the network of its host, is not said of what was seen before.
func TestAgentsThatServeAreListedOnceAMinute(t *testing.T) {
	cloud := networkCloud()
	router := cloud.Make("l3", "r", "compute-1")
	b := simulatedBench(t, cloud)
	for _, step := range []struct {
		what   string
		do     func()
		roles  []string
		asked  int
		amount int64
	}{
		{what: "first", roles: []string{"neutron-l3-agent"}, asked: 1, amount: 1},
		{what: "a moment later", roles: []string{"neutron-l3-agent"}, amount: 1},
		{what: "in use by what was seen", roles: []string{"neutron-l3-agent", "neutron-l2-agent"}, amount: 1},
		{what: "asked for the network's sake alone", roles: []string{"neutron-l2-agent"}, asked: 1},
		{what: "by a role of one's own", roles: []string{"own"}, asked: 1, amount: 1},
		{what: "a minute later", do: func() { cloud.Remove(router); cloud.Advance(time.Minute) }, roles: []string{"neutron-l3-agent"}, asked: 1},
		{what: "not in use by what was seen", roles: []string{"neutron-l3-agent", "neutron-l2-agent"}, asked: 1},
		{
			what: "being emptied", roles: []string{"neutron-l3-agent"}, asked: 1,
			do: func() {
				cloud.ChangeAgent("l3", "compute-1", func(a *openstacksim.Agent) {
					a.Description = "Usher (policy cloud/usher): what it has is moved to other agents"
				})
			},
		},
		{
			what: "silent", roles: []string{"neutron-l3-agent"}, asked: 1,
			do: func() {
				cloud.ChangeAgent("l3", "compute-1", func(a *openstacksim.Agent) { a.Description, a.Alive = "", false })
			},
		},
	} {
		if step.do != nil {
			step.do()
		}
		cloud.TakeRequests()
		var members []system.Member
		for _, role := range step.roles {
			members = append(members, system.Member{MemberRef: v1alpha1.MemberRef{Role: role, ID: "compute-1"}})
		}
		evidence, err := b.system.Observe(t.Context(), members)
		if err != nil {
			t.Fatal(err)
		}
		asked := slices.DeleteFunc(cloud.TakeRequests(), func(r string) bool { return !strings.HasSuffix(r, "/l3-routers") })
		left, _ := evidence.Members["compute-1"]["l3Left"].(int64)
		if len(asked) != step.asked || left != step.amount {
			t.Errorf("%s: asked %d times, and %d routers; want %d and %d", step.what, len(asked), left, step.asked, step.amount)
		}
	}
}

// Each call says when the next is of use: at once while it has more to do, later where what it has begun takes a while.
func TestProgress(t *testing.T) {
	const soon, done = eviction.ProgressSoon, eviction.ProgressDone
	for role, want := range map[string][]eviction.Progress{
		"nova-compute": {soon, "", "", done}, "neutron-l3-agent": {soon, soon, soon, soon, done}, "neutron-dhcp-agent": {soon, "", soon, soon, done},
	} {
		cloud := networkCloud()
		cloud.Boot("web", "compute-1", "active")
		cloud.Make("l3", "r", "compute-1")
		cloud.Make("dhcp", "lan", "compute-1")
		b := roleBench(t, cloud, role)
		var got []eviction.Progress
		for len(got) < 10 && !slices.Contains(got, done) {
			if err := b.prepare("compute-1"); err != nil {
				t.Fatal(err)
			}
			if got = append(got, b.job.Progress); b.job.Progress == "" {
				cloud.Advance(4 * time.Second)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", role, got, want)
		}
	}
}

// What is wrong with Neutron is a sentence that says what to do.
func TestNeutronBadInput(t *testing.T) {
	const at = "network API at http://neutron.sim:9696, "
	for name, test := range map[string]struct {
		change func(*openstacksim.Cloud)
		want   string
	}{
		"no administrator": {
			func(c *openstacksim.Cloud) { c.NoAdmin = true },
			at + "listing agents: (rule:get_agents) is disallowed by policy (403): the account needs the role admin in its project",
		},
		"no agents": {
			func(c *openstacksim.Cloud) { c.Missing = []string{"agent"} },
			at + "listing agents: its extension agent is not loaded in neutron-server",
		},
		"something else answers": {
			func(c *openstacksim.Cloud) {
				c.Inject(httpfault.Fault{Path: "/agents", Status: 200, Body: "<html>"})
			},
			at + "listing agents: its answer is not what OpenStack says there",
		},
		"something else answers in JSON": {
			func(c *openstacksim.Cloud) { c.Inject(httpfault.Fault{Path: "/agents", Status: 200, Body: "{}"}) },
			at + "listing agents: its answer is not what OpenStack says there",
		},
		"an answer breaks off": {
			func(c *openstacksim.Cloud) { c.Inject(httpfault.Fault{Path: "/l3-routers", Cut: 5}) },
			at + "listing the routers of an agent: its answer breaks off",
		},
		"it fails": {
			func(c *openstacksim.Cloud) {
				c.Inject(httpfault.Fault{Path: "/agents", Status: 500, Body: "secret"})
			},
			at + "listing agents: it answered 500",
		},
	} {
		cloud := networkCloud()
		b := roleBench(t, cloud, "neutron-l3-agent")
		test.change(cloud)
		if _, err := b.observe("compute-1"); err == nil || err.Error() != test.want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, test.want)
		}
	}
}

// An extension that is not loaded is a problem of the members that need it.
func TestAnExtensionIsMissing(t *testing.T) {
	cloud := networkCloud()
	cloud.Missing = []string{"bgp_dragent_scheduler"}
	b := roleBench(t, cloud, "neutron-bgp-agent")
	v := b.judge("compute-1")
	if !slices.Equal(reasons(v), []string{"HostUnknown"}) || !strings.Contains(said(v)[0], "its extension bgp_dragent_scheduler is not loaded in neutron-server") || needs(v) {
		t.Error(said(v))
	}
	if err := b.prepare("compute-1"); err == nil || errors.Is(err, system.ErrTerminal) {
		t.Error(err)
	}
	if undone, err := b.undo("compute-1"); err != nil || !undone.Done {
		t.Errorf("%+v, %v", undone, err)
	}
	if v := roleBench(t, cloud, "neutron-l3-agent").judge("compute-1"); slices.Contains(reasons(v), "HostUnknown") {
		t.Error(said(v))
	}
}

// A token that expires in the middle is renewed, and a router is not left between two agents.
func TestTokenExpiresBetweenTwoAgents(t *testing.T) {
	cloud := networkCloud()
	id := cloud.Make("l3", "r", "compute-1")
	b := roleBench(t, cloud, "neutron-l3-agent")
	b.turn("compute-1")
	b.turn("compute-1")
	cloud.Inject(httpfault.Fault{Method: "POST", Path: "/l3-routers", Times: 1, Status: 401})
	if err := b.prepare("compute-1"); err != nil || !cloud.Served(id) {
		t.Errorf("%v, on %v", err, cloud.Hosts(id))
	}
}
