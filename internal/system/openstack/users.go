package openstack

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/system/openstack/compute"
	"usher.sh/usher/internal/system/openstack/network"
	"usher.sh/usher/internal/text"
)

// users is what uses the network of a host.
type users struct {
	all     []string
	problem string
}

// none reports whether nothing is known that uses the network, and nothing is wrong.
func (u *users) none() bool { return len(u.all) == 0 && u.problem == "" }

func (u *users) add(count int, what string) {
	if count > 0 {
		u.all = append(u.all, fmt.Sprintf("%s: %d", what, count))
	}
}

// addServers adds servers that have to leave, or are on their way. A host without nova-compute has none.
func (u *users) addServers(v *view, host string, p *compute.Plan) {
	if p.Problem == "" {
		u.add(p.Left, "servers")
		u.add(len(p.Incoming)+len(p.Unconfirmed), "servers on their way")
		return
	}
	for i := range v.hypervisors {
		u.unsaid(host, v.hypervisors[i].Host, "Nova has a compute host", p.Problem)
	}
}

// addThings adds what an agent has. A host without such an agent has none.
func (u *users) addThings(v *view, host string, kind network.Kind, p *network.Plan) {
	u.add(len(p.Things), kind.Thing+"s")
	for i := range v.agents {
		if a := &v.agents[i]; p.Agent == nil && a.Type == kind.Agent {
			u.unsaid(host, a.Host, "Neutron has this type of agent, "+kind.Agent+", on host", p.Problem)
		}
	}
}

// unsaid notes that nothing can be said of what a host has there, where there is one. Nova, Neutron and their database do not tell names apart by case, and one
// that is short from one that is whole is for who set the host up to tell.
func (u *users) unsaid(host, there, what, problem string) {
	switch {
	case there == host:
		u.problem = problem
	case alike(host, there):
		u.problem = fmt.Sprintf("%s %s, which may be the same machine under another name: have host be the same in nova.conf and in the configuration of Neutron's agents",
			what, text.Name(there))
	}
}

// alike reports whether two names may be those of one host: they differ by case, or by a domain that one of them has.
func alike(a, b string) bool {
	shortA, _, domainA := strings.Cut(a, ".")
	shortB, _, domainB := strings.Cut(b, ".")
	return strings.EqualFold(a, b) || domainA != domainB && strings.EqualFold(shortA, shortB)
}
