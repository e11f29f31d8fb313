package openstack

import (
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system/openstack/compute"
	"usher.sh/usher/internal/system/openstack/network"
	"usher.sh/usher/internal/text"
)

func counts(all []compute.Hypervisor) (up, open int) {
	for i := range all {
		if all[i].Up {
			up++
			if all[i].Enabled {
				open++
			}
		}
	}
	return up, open
}

// system are the facts about the region, and a line for people.
func (v *view) system() (facts expression.Facts, summary string) {
	facts = expression.Facts{}
	var said []string
	if v.nova != nil {
		up, open := counts(v.hypervisors)
		facts["region"], facts["microversion"] = v.nova.region, v.nova.client.Microversion
		facts["hosts"], facts["hostsUp"], facts["hostsOpen"] = int64(len(v.hypervisors)), int64(up), int64(open)
		said = append(said, fmt.Sprintf("%s: %d up, %d of them enabled", text.Count(len(v.hypervisors), "compute host"), up, open))
	}
	if v.neutron != nil {
		alive := 0
		for i := range v.agents {
			if v.agents[i].Alive {
				alive++
			}
		}
		facts["region"], facts["agents"], facts["agentsAlive"] = v.neutron.region, int64(len(v.agents)), int64(alive)
		said = append(said, fmt.Sprintf("%s: %d alive", text.Count(len(v.agents), "network agent"), alive))
	}
	region, _ := facts["region"].(string)
	return facts, fmt.Sprintf("region %s, %s", text.Name(region), strings.Join(said, "; "))
}

func (r *region) serverFacts(facts expression.Facts, p *compute.Plan, e *compute.Evacuation) {
	facts["problem"] = p.Problem
	if p.Problem != "" {
		return
	}
	h := p.Hypervisor
	facts["up"], facts["disabled"], facts["disabledReason"], facts["disabledByUsher"] = h.Up, !h.Enabled, h.Reason, !h.Enabled && r.isUshers(h.Reason)
	facts["forcedDown"] = h.Forced
	facts["others"], facts["servers"], facts["left"], facts["work"], facts["empty"] = int64(p.Others), list(p.Servers), int64(p.Left), int64(p.Work), p.Empty
	if h.Enabled {
		return
	}
	for name, all := range map[string][]string{
		"stay": p.Stay, "moving": p.Moving, "busy": p.Busy, "stuck": p.Stuck, "failed": p.Failed, "incoming": p.Incoming, "unconfirmed": p.Unconfirmed,
	} {
		facts[name] = list(all)
	}
	if h.Forced {
		facts["left"], facts["stay"], facts["moving"], facts["failed"], facts["stuck"] = int64(e.Left), list(e.Stay), list(e.Moving), list(e.Failed), list(e.Stuck)
	}
}

// list is never nil, which would be a fact of another type.
func list(names []string) []string { return append([]string{}, names...) }

// agentFacts are those about an agent that has something of its own.
func agentFacts(facts expression.Facts, names factNames, p *network.Plan) {
	facts[names.prefix+"Problem"] = p.Problem
	if p.Problem != "" || p.Agent == nil {
		return
	}
	facts[names.prefix+"Alive"], facts[names.prefix+"AdminUp"] = p.Agent.Alive, p.Agent.Up
	facts[names.prefix+"Begun"], facts[names.prefix+"Empty"] = p.Begun, p.Empty
	facts[names.prefix+"Others"], facts[names.prefix+"Left"], facts[names.prefix+"Work"] = int64(p.Others), int64(len(p.Things)), int64(p.Work)
	facts[names.list], facts[names.prefix+"Stuck"], facts[names.prefix+"Failed"] = list(p.Things), list(p.Stuck), list(p.Failed)
}

// The types of agent that have nothing of their own. ML2's are those with which Neutron wires ports; OVN's are in its list under the name of the chassis.
var (
	layer2Agents = []string{"Open vSwitch agent", "Linux bridge agent", "Macvtap agent", "NIC Switch agent"}
	ovnAgents    = []string{"OVN Controller agent", "OVN Controller Gateway agent", "OVN Neutron agent"}
)

// presence are the facts about agents of some types on a host that have nothing of their own: it has at least one.
func (v *view) presence(facts expression.Facts, prefix, host string, types []string) {
	found, alive := false, true
	for i := range v.agents {
		if a := &v.agents[i]; a.Host == host && slices.Contains(types, a.Type) {
			found, alive = true, alive && a.Alive
		}
	}
	facts[prefix+"Problem"] = ""
	if !found {
		facts[prefix+"Problem"] = fmt.Sprintf("Neutron has none of these on a host %s in this region: %s", text.Name(host), strings.Join(types, ", "))
		return
	}
	facts[prefix+"Alive"] = alive
}

// hostProblem says why nothing can be said of a host of which no type of agent is asked for; "": Neutron knows it. An OVN BGP agent reports to no API.
func (v *view) hostProblem(host string) string {
	if slices.ContainsFunc(v.agents, func(a network.Agent) bool { return a.Host == host }) {
		return ""
	}
	return fmt.Sprintf("Neutron has no agent on a host %s in this region", text.Name(host))
}
