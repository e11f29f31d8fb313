package hypervisors

import (
	"net/http"
	"slices"
	"testing"
)

// thing is what an agent of Neutron has: a router, a network or a speaker.
type thing struct{ kind, id string }

// served is where Neutron has what agents of a type have.
type served struct{ agent, under, body, one, holders string }

var kinds = map[string]served{
	"router":  {"L3 agent", "l3-routers", "router_id", "routers", "l3-agents"},
	"network": {"DHCP agent", "dhcp-networks", "network_id", "networks", "dhcp-agents"},
	"speaker": {"BGP dynamic routing agent", "bgp-drinstances", "bgp_speaker_id", "bgp-speakers", "bgp-dragents"},
}

// agent is one of Neutron's.
type agent struct {
	ID          string
	Host        string
	Type        string `json:"agent_type"`
	Up          bool   `json:"admin_state_up"`
	Alive       bool
	Description string
	State       string `json:"ha_state"`
}

func (r *region) agents(t *testing.T, path ...string) []agent {
	t.Helper()
	var found struct{ Agents []agent }
	call(t, r.neutron, http.MethodGet, nil, &found, path...)
	return found.Agents
}

func (r *region) holders(t *testing.T, one thing) []agent {
	t.Helper()
	kind := kinds[one.kind]
	return r.agents(t, kind.one, one.id, kind.holders)
}

// isOn reports whether the agent of a host has something.
func (r *region) isOn(t *testing.T, one thing, host string) bool {
	t.Helper()
	return slices.ContainsFunc(r.holders(t, one), func(a agent) bool { return a.Host == host })
}

// things makes a router, one with HA on compute-1 and another host, a network and a speaker, which the agents of compute-1 have.
func (r *region) things(t *testing.T) []thing {
	t.Helper()
	var speaker struct {
		Made struct{ ID string } `json:"bgp_speaker"`
	}
	call(t, r.neutron, http.MethodPost, object{"bgp_speaker": object{"name": "speaker", "ip_version": 4, "local_as": "64512"}}, &speaker, "bgp-speakers")
	undoing(t, r.neutron, http.MethodDelete, nil, "bgp-speakers", speaker.Made.ID)
	network, _ := r.network(t, "network")
	all := []thing{{"router", r.router(t, "plain", false)}, {"router", r.router(t, "ha", true)}, {"network", network}, {"speaker", speaker.Made.ID}}
	for i, one := range all {
		hosts := []string{"compute-1"}
		if i == 1 {
			hosts = append(hosts, "compute-2")
		}
		until(t, "Neutron gives "+one.kind+" "+one.id+" to an agent", func() bool { return len(r.holders(t, one)) > 0 })
		r.put(t, one, hosts)
	}
	return all
}

func (r *region) network(t *testing.T, name string) (id, subnet string) {
	t.Helper()
	var made struct{ Network, Subnet struct{ ID string } }
	call(t, r.neutron, http.MethodPost, object{"network": object{"name": name}}, &made, "networks")
	undoing(t, r.neutron, http.MethodDelete, nil, "networks", made.Network.ID)
	call(t, r.neutron, http.MethodPost, object{"subnet": object{"network_id": made.Network.ID, "cidr": "10.8.0.0/24", "ip_version": 4}}, &made, "subnets")
	return made.Network.ID, made.Subnet.ID
}

// router makes one with an interface: without it has no agent.
func (r *region) router(t *testing.T, name string, ha bool) string {
	t.Helper()
	_, subnet := r.network(t, name)
	var made struct{ Router struct{ ID string } }
	call(t, r.neutron, http.MethodPost, object{"router": object{"name": name, "ha": ha}}, &made, "routers")
	undoing(t, r.neutron, http.MethodDelete, nil, "routers", made.Router.ID)
	call(t, r.neutron, http.MethodPut, object{"subnet_id": subnet}, nil, "routers", made.Router.ID, "add_router_interface")
	undoing(t, r.neutron, http.MethodPut, object{"subnet_id": subnet}, "routers", made.Router.ID, "remove_router_interface")
	return made.Router.ID
}

// put has the agents of these hosts have something, and no others.
func (r *region) put(t *testing.T, one thing, hosts []string) {
	t.Helper()
	kind, have := kinds[one.kind], map[string]bool{}
	for _, a := range r.holders(t, one) {
		if have[a.Host] = slices.Contains(hosts, a.Host); !have[a.Host] {
			call(t, r.neutron, http.MethodDelete, nil, nil, "agents", a.ID, kind.under, one.id)
		}
	}
	all := r.agents(t, "agents")
	for _, host := range hosts {
		if at := slices.IndexFunc(all, func(a agent) bool { return a.Type == kind.agent && a.Host == host }); !have[host] {
			call(t, r.neutron, http.MethodPost, object{kind.body: one.id}, nil, "agents", all[at].ID, kind.under)
		}
	}
}
