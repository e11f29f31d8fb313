package openstack

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/openstack/compute"
	"usher.sh/usher/internal/system/openstack/network"
)

// need is what has to be asked for so that the facts about a member in a role are known.
type need uint8

const (
	needServers need = 1 << iota
	needRouters
	needNetworks
	needSpeakers
	needLayer2
	needOVN
	needHost
	needAll = 1<<iota - 1

	// needUsers is what uses the network of a host.
	needUsers = needServers | needRouters | needNetworks | needSpeakers
	ofNova    = needServers | needLayer2 | needOVN
	ofNeutron = needAll &^ needServers
)

// needs are those of the built-in roles. A role of a policy's own may use any fact.
var needs = map[string]need{
	"nova-compute": needServers, "neutron-l3-agent": needRouters, "neutron-dhcp-agent": needNetworks, "neutron-bgp-agent": needSpeakers,
	"neutron-l2-agent": needLayer2, "ovn-agent": needOVN, "ovn-bgp-agent": needHost,
}

func needOf(role string) need {
	if n, builtIn := needs[role]; builtIn {
		return n
	}
	return needAll
}

// view is what was asked for about the region as a whole.
type view struct {
	nova        *nova
	hypervisors []compute.Hypervisor
	neutron     *neutron
	agents      []network.Agent
}

// view asks Nova, Neutron or both.
func (r *region) view(ctx context.Context, all need) (v *view, err error) {
	v = &view{}
	if all&ofNova != 0 {
		if v.nova, err = r.session.compute(ctx); err == nil {
			v.hypervisors, err = v.nova.hypervisors(ctx)
		}
	}
	if err == nil && all&ofNeutron != 0 {
		if v.neutron, err = r.session.network(ctx); err == nil {
			v.agents, err = v.neutron.agents(ctx)
		}
	}
	return v, err
}

// Observe implements system.System. A host may be a member in several roles; what was asked for it is known under its name, whichever role asks. Servers are
// listed one by one of hosts that get no new ones: others may have other ones a moment later, and there may be hundreds of them.
func (r *region) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	wanted := map[string]need{}
	var all need
	for i := range members {
		wanted[members[i].ID] |= needOf(members[i].Role)
		all |= wanted[members[i].ID]
	}
	if len(members) == 0 {
		all = needServers
	}
	v, err := r.view(ctx, all)
	if err != nil {
		return nil, err
	}
	hosts := slices.Sorted(maps.Keys(wanted))
	found := make([]expression.Facts, len(hosts))
	err = each(len(hosts), func(i int) error {
		var err error
		found[i], err = r.hostFacts(ctx, v, hosts[i], wanted[hosts[i]])
		return err
	})
	if err != nil {
		return nil, err
	}
	evidence := &eviction.Evidence{Members: map[string]expression.Facts{}}
	evidence.System, evidence.Summary = v.system()
	for i, host := range hosts {
		evidence.Members[host] = found[i]
	}
	return evidence, nil
}

// hostFacts are the facts about a host that are needed.
func (r *region) hostFacts(ctx context.Context, v *view, host string, wanted need) (expression.Facts, error) {
	facts := expression.Facts{}
	ask := wanted
	if wanted&(needLayer2|needOVN) != 0 {
		ask |= needUsers
	}
	var used users
	fresh := wanted == needAll // a role of a policy's own decides by what it likes
	if ask&needServers != 0 {
		p, e, err := r.serverPlans(ctx, v, host)
		if err != nil {
			return nil, err
		}
		used.addServers(v, host, &p)
		if wanted&needServers != 0 {
			r.serverFacts(facts, &p, &e)
		}
	}
	plans, err := r.agentPlans(ctx, v, host, wanted, fresh)
	if err == nil && !fresh && wanted&(needLayer2|needOVN) != 0 && used.none() && plans.users(v, host).none() {
		plans, err = r.agentPlans(ctx, v, host, wanted, true) // that nothing uses the network is not said of what was seen before
	}
	if err != nil {
		return nil, err
	}
	for _, p := range plans {
		used.addThings(v, host, p.kind, p.plan)
		if wanted&p.need != 0 {
			agentFacts(facts, p.factNames, p.plan)
		}
	}
	r.networkFacts(facts, v, host, wanted, &used)
	return facts, nil
}

// agentPlans are those of the agents of a host that are asked about.
type agentPlans []agentPlan

type agentPlan struct {
	factNames
	plan *network.Plan
}

func (r *region) agentPlans(ctx context.Context, v *view, host string, wanted need, fresh bool) (all agentPlans, err error) {
	for _, names := range factsOf {
		own, users := wanted&names.need != 0, wanted&(needLayer2|needOVN) != 0
		if !own && !users {
			continue
		}
		p, err := r.agentPlan(ctx, v, host, names.kind, fresh || !own)
		if err != nil {
			return nil, err
		}
		all = append(all, agentPlan{names, p})
	}
	return all, nil
}

func (p agentPlans) users(v *view, host string) *users {
	var used users
	for _, one := range p {
		used.addThings(v, host, one.kind, one.plan)
	}
	return &used
}

func (*region) networkFacts(facts expression.Facts, v *view, host string, wanted need, used *users) {
	if wanted&needLayer2 != 0 {
		v.presence(facts, "l2", host, layer2Agents)
	}
	if wanted&needOVN != 0 {
		v.presence(facts, "ovn", host, ovnAgents)
	}
	if wanted&(needLayer2|needOVN) != 0 {
		facts["usersProblem"], facts["networkUsers"] = used.problem, list(used.all)
	}
	if wanted&needHost != 0 {
		facts["ovnBgpProblem"] = v.hostProblem(host)
	}
}

// servers is a look at a host that has servers.
func (r *region) servers(ctx context.Context, v *view, host string) (*compute.Look, error) {
	all := v.hypervisors
	if slices.ContainsFunc(all, func(h compute.Hypervisor) bool { return h.Host == host && !h.Up }) {
		all = slices.Clone(all)
		if err := v.nova.addForced(ctx, all, host); err != nil {
			return nil, err
		}
	}
	closed := slices.ContainsFunc(all, func(h compute.Hypervisor) bool { return h.Host == host && !h.Enabled })
	return r.look(ctx, v.nova, host, all, closed)
}

// serverPlans are the plans of a host that has servers.
func (r *region) serverPlans(ctx context.Context, v *view, host string) (p compute.Plan, e compute.Evacuation, err error) {
	l, err := r.servers(ctx, v, host)
	switch {
	case ofOne(err):
		return compute.Plan{Problem: err.Error()}, compute.Evacuation{}, nil
	case err != nil:
		return p, e, err
	}
	return l.Plan(), l.Evacuate(0), nil
}

// ofOne reports whether an error is about what was asked for, and about no other host: one server or router that cannot be read has Nova or Neutron answer with a
// fault for its host. Who may not ask at all, and what does not answer, is about all.
func ofOne(err error) bool {
	status := statusOf(err)
	return status >= http.StatusBadRequest && status != http.StatusUnauthorized && status != http.StatusForbidden
}

// agentPlan is the plan of a host's agent, as far as it is known without asking about other agents. That Neutron does not know the call is a problem of
// this agent, and of no other.
func (r *region) agentPlan(ctx context.Context, v *view, host string, kind network.Kind, fresh bool) (*network.Plan, error) {
	l := r.agentLook(host, kind, v.agents)
	err := r.list(ctx, v.neutron, l, fresh)
	if errors.Is(err, errNoExtension) || errors.Is(err, errAgentGone) || ofOne(err) {
		return &network.Plan{Problem: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	p := l.Plan()
	return &p, nil
}

// factNames are how the facts about an agent of a kind are called.
type factNames struct {
	kind         network.Kind
	need         need
	prefix, list string
}

var factsOf = []factNames{
	{network.Routers, needRouters, "l3", "routers"}, {network.Networks, needNetworks, "dhcp", "networks"}, {network.Speakers, needSpeakers, "bgp", "speakers"},
}
