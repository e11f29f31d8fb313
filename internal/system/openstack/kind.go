package openstack

import (
	"embed"
	"io/fs"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
)

//go:embed roles/*.yaml
var roleFiles embed.FS

// Name is the field of spec.system.
const Name = "openstack"

// The steps: MoveServers empties a compute host and EvacuateServers one that is dead, the others empty the agents of a host.
const (
	MoveServers     = "MoveServers"
	EvacuateServers = "EvacuateServers"
	MoveRouters     = "MoveRouters"
	MoveNetworks    = "MoveNetworks"
	MoveSpeakers    = "MoveSpeakers"
)

// Kind is OpenStack.
func Kind() system.Kind {
	roles, err := fs.Sub(roleFiles, "roles")
	if err != nil {
		roles = roleFiles // cannot be: the name is a valid path
	}
	return system.Kind{
		Name:     Name,
		Declared: func(spec *v1alpha1.System) bool { return spec.OpenStack != nil },
		Hosts:    true,
		Same:     same,
		Schema:   Schema,
		Steps: map[string]string{
			MoveServers: "disables the nova-compute service of a host and has its servers moved to other hosts, by their states, as many at once as the policy says; " +
				"undone, the service is enabled if Usher has disabled it, and what waits in Nova's queue is called off: what runs ends by itself, and what has moved stays",
			EvacuateServers: "marks the nova-compute service of a host that is off as down, disables it, and has its servers rebuilt on other hosts, each once; " +
				"undone, once the host's agents report and its nova-compute has cleaned up, the service counts again and is enabled if Usher has disabled it; what was evacuated stays",
			MoveRouters: "moves the routers of a host's L3 agent to living L3 agents, and disables it once it has none: a plain one is taken off it and given to another at once, " +
				"one with HA is given to another first, and of those that are active here one at a time fails over; " + takenBack,
			MoveNetworks: "gives the networks of a host's DHCP agent to other living ones, takes them off it, and disables it once it has none; " + takenBack,
			MoveSpeakers: "gives the BGP speakers of a host's agent to other living ones, takes them off it, and disables it once it has none; " + takenBack,
		},
		ForLost:     []string{EvacuateServers},
		Roles:       roles,
		References:  references,
		ReportFacts: reportFacts,
		Reports:     reports,
		Open:        Open,
	}
}

// takenBack is what undoing a step of an agent does.
const takenBack = "undone, the agent is enabled if Usher has disabled it, and has its own description again; what has moved stays"

// reportFacts say whether a host does its work: that of Nova where it has servers, else those of its agents.
var reportFacts = []string{"up", "l3Alive", "dhcpAlive", "bgpAlive", "l2Alive", "ovnAlive"}

func reports(facts expression.Facts) (does, known bool) {
	if up, ok := facts[reportFacts[0]].(bool); ok {
		return up, true
	}
	does = true
	for _, name := range reportFacts[1:] {
		if alive, ok := facts[name].(bool); ok {
			does, known = does && alive, true
		}
	}
	return does && known, known
}

func references(spec *v1alpha1.System) system.References {
	refers := system.References{Secrets: []v1alpha1.SecretKey{spec.OpenStack.Clouds}}
	if ca := spec.OpenStack.CA; ca != nil {
		refers.Secrets = append(refers.Secrets, *ca)
	}
	return refers
}

// same goes by what names a region. Another Secret may be the same one with another password.
func same(before, after *v1alpha1.System) bool {
	return after.OpenStack != nil && before.OpenStack.Cloud == after.OpenStack.Cloud && before.OpenStack.Region == after.OpenStack.Region
}
