package openstack_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// realKind is where a real Neutron has what agents of a type have.
type realKind struct{ agent, under, body, one, holders string }

var realKinds = map[string]realKind{
	"l3":   {"L3 agent", "l3-routers", "router_id", "routers", "l3-agents"},
	"dhcp": {"DHCP agent", "dhcp-networks", "network_id", "networks", "dhcp-agents"},
	"bgp":  {"BGP dynamic routing agent", "bgp-drinstances", "bgp_speaker_id", "bgp-speakers", "bgp-dragents"},
}

type realAgent struct {
	ID          string
	Host        string
	Up          bool   `json:"admin_state_up"`
	State       string `json:"ha_state"`
	Type        string `json:"agent_type"`
	Description string
}

// call asks Neutron.
func (s *realSite) call(ctx context.Context, method string, body, answer any, path ...string) error {
	options := &gophercloud.RequestOpts{JSONResponse: answer, OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent}}
	if body != nil {
		options.JSONBody = body
	}
	response, err := s.neutron.Request(ctx, method, s.neutron.ServiceURL(path...), options)
	if err == nil && answer == nil {
		return response.Body.Close()
	}
	return err
}

func (s *realSite) must(t *testing.T, method string, body, answer any, path ...string) {
	t.Helper()
	if err := s.call(t.Context(), method, body, answer, path...); err != nil {
		t.Fatal(err)
	}
}

// undoing asks Neutron for something when the test has ended.
func (s *realSite) undoing(t *testing.T, method string, body any, path ...string) {
	t.Helper()
	t.Cleanup(func() { _ = s.call(context.Background(), method, body, nil, path...) })
}

func (s *realSite) agents(t *testing.T, path ...string) []realAgent {
	t.Helper()
	var found struct{ Agents []realAgent }
	s.must(t, http.MethodGet, nil, &found, path...)
	return found.Agents
}

func (s *realSite) agent(t *testing.T, short, host string) realAgent {
	t.Helper()
	for _, a := range s.agents(t, "agents") {
		if a.Type == realKinds[short].agent && a.Host == host {
			return a
		}
	}
	t.Fatalf("there is no %s on %s", realKinds[short].agent, host)
	return realAgent{}
}

func (s *realSite) enabled(t *testing.T, short, host string) (up bool, description string) {
	t.Helper()
	a := s.agent(t, short, host)
	return a.Up, a.Description
}

func (s *realSite) holders(t *testing.T, short, id string) (hosts []string) {
	t.Helper()
	for _, a := range s.agents(t, realKinds[short].one, id, realKinds[short].holders) {
		host := a.Host
		if a.State != "" {
			host += "(" + a.State + ")"
		}
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return hosts
}

type object = map[string]any

// madeThing is an answer that names what was made.
type madeThing struct {
	Network, Subnet, Router struct{ ID string }
	Speaker                 struct{ ID string } `json:"bgp_speaker"`
}

func (s *realSite) give(t *testing.T, short, name string, hosts ...string) string {
	t.Helper()
	for _, host := range []string{"compute-1", "compute-2", "net-1"} {
		a := s.agent(t, short, host)
		reset := object{"agent": object{"admin_state_up": true, "description": ""}}
		s.must(t, http.MethodPut, reset, nil, "agents", a.ID)
		s.undoing(t, http.MethodPut, reset, "agents", a.ID)
	}
	var id string
	switch short {
	case "l3":
		id = s.router(t, name, len(hosts) > 1)
	case "dhcp":
		id, _ = s.network(t, name)
	default:
		var made madeThing
		s.must(t, http.MethodPost, object{"bgp_speaker": object{"name": name, "ip_version": 4, "local_as": "64512"}}, &made, "bgp-speakers")
		id = made.Speaker.ID
		s.undoing(t, http.MethodDelete, nil, "bgp-speakers", id)
	}
	s.scheduled(t, short, id)
	s.put(t, short, id, hosts)
	return id
}

func (s *realSite) network(t *testing.T, name string) (id, subnet string) {
	t.Helper()
	var made madeThing
	s.must(t, http.MethodPost, object{"network": object{"name": name}}, &made, "networks")
	s.undoing(t, http.MethodDelete, nil, "networks", made.Network.ID)
	s.must(t, http.MethodPost, object{"subnet": object{"network_id": made.Network.ID, "cidr": "10.8.0.0/24", "ip_version": 4}}, &made, "subnets")
	return made.Network.ID, made.Subnet.ID
}

// router makes one with an interface: without it has no agent.
func (s *realSite) router(t *testing.T, name string, ha bool) string {
	t.Helper()
	_, subnet := s.network(t, name)
	var made madeThing
	s.must(t, http.MethodPost, object{"router": object{"name": name, "ha": ha}}, &made, "routers")
	s.undoing(t, http.MethodDelete, nil, "routers", made.Router.ID)
	s.must(t, http.MethodPut, object{"subnet_id": subnet}, nil, "routers", made.Router.ID, "add_router_interface")
	s.undoing(t, http.MethodPut, object{"subnet_id": subnet}, "routers", made.Router.ID, "remove_router_interface")
	return made.Router.ID
}

// scheduled waits until Neutron has given something to an agent by itself.
func (s *realSite) scheduled(t *testing.T, short, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(s.holders(t, short, id)) == 0 {
		if ctx.Err() != nil {
			t.Fatalf("no agent gets %s %s", short, id)
		}
		s.pass(ctx)
	}
}

// put has the agents of these hosts have something, and no others.
func (s *realSite) put(t *testing.T, short, id string, hosts []string) {
	t.Helper()
	kind := realKinds[short]
	have := map[string]bool{}
	for _, a := range s.agents(t, kind.one, id, kind.holders) {
		if have[a.Host] = slices.Contains(hosts, a.Host); !have[a.Host] {
			s.must(t, http.MethodDelete, nil, nil, "agents", a.ID, kind.under, id)
		}
	}
	for _, host := range hosts {
		if !have[host] {
			s.must(t, http.MethodPost, object{kind.body: id}, nil, "agents", s.agent(t, short, host).ID, kind.under)
		}
	}
}
