package histories

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/test/httpfault"
	"usher.sh/usher/test/openstacksim"
)

// strike lets something go wrong with OpenStack, or has another client do something there.
func (s *openStackSite) strike(dice *rand.Rand) string {
	all := s.cloud.Servers()
	server, host := all[dice.IntN(len(all))], s.hosts[dice.IntN(len(s.hosts))]
	switch dice.IntN(9) {
	case 0, 1:
		return s.misbehave(dice)
	case 2:
		s.cloud.Change(server.ID, func(server *openstacksim.Server) { server.Nowhere = true })
		return "no host is valid for " + server.Name
	case 3:
		return s.migrate(&server)
	case 4:
		return s.forget(host)
	case 5:
		s.cloud.ChangeAgent(s.short, host, func(a *openstacksim.Agent) { a.Mute = true })
		return "the agent of " + host + " answers no more"
	case 6, 7:
		return s.evacuate(dice)
	default:
		return s.close(host)
	}
}

// misbehave has answers go wrong, but for those by which a replica logs in: others wait for them under a lock.
func (s *openStackSite) misbehave(dice *rand.Rand) string {
	f := httpfault.Fault{Times: 1 + dice.IntN(4), Path: []string{"/os-hypervisors", "/servers", "/os-", "/agents"}[dice.IntN(4)]}
	switch dice.IntN(7) {
	case 0:
		f.Refuse = true
	case 1:
		f.Silent = true
	case 2:
		f.Lost = true
	case 3:
		f.Cut = 10 + dice.IntN(100)
	case 4:
		s.cloud.ExpireTokens()
		return "tokens have expired"
	case 5:
		f.Method, f.Lost = http.MethodPost, true
	default:
		f.Status, f.Body = []int{500, 503}[dice.IntN(2)], "{}"
	}
	s.cloud.Inject(f)
	return fmt.Sprintf("answers go wrong: %+v", f)
}

// migrate has another account move a server.
func (s *openStackSite) migrate(server *openstacksim.Server) string {
	if server.State != "active" || server.Task != "" || !s.cloud.Host(server.Host).Up {
		return "nothing"
	}
	s.cloud.Migrate(server.ID, "live-migration", "another")
	return "another client moves " + server.Name
}

// forget has Neutron forget an agent. What it had is without one, unless another has it too.
func (s *openStackSite) forget(host string) string {
	agent := s.cloud.Agent(s.short, host)
	if agent.ID == "" {
		return "nothing"
	}
	s.cloud.DeleteAgent(s.short, host)
	for _, id := range s.things {
		s.orphans[id] = s.orphans[id] || len(s.cloud.Thing(id).Holders) == 0
	}
	return "the agent of " + host + " is forgotten"
}

// evacuate has another client evacuate a server of a host that is off.
func (s *openStackSite) evacuate(dice *rand.Rand) string {
	all := slices.DeleteFunc(s.cloud.Servers(), func(server openstacksim.Server) bool {
		return !s.onHost(server.Host).off || s.evacuating(server.ID) || s.mayRun(&server)
	})
	if len(all) == 0 {
		return "nothing"
	}
	server := all[dice.IntN(len(all))]
	before := len(s.cloud.Migrations())
	if s.cloud.Evacuate(server.ID); len(s.cloud.Migrations()) == before {
		return "nothing"
	}
	s.foreign[server.ID] = time.Now()
	return "another client evacuates " + server.Name
}

// close has an operator disable a host for good, one at most.
func (s *openStackSite) close(host string) string {
	if h := s.cloud.Host(host); len(s.closed) > 0 || !h.Enabled || h.Forced {
		return "nothing"
	}
	s.closed[host], s.closing = "its disk is slow", time.Now()
	s.cloud.ChangeHost(host, func(h *openstacksim.Host) { h.Enabled, h.Reason = false, s.closed[host] })
	return "an operator disables " + host
}

// fail has a migration or an evacuation fail.
func (s *openStackSite) fail(dice *rand.Rand) string {
	all := slices.DeleteFunc(s.cloud.Migrations(), func(m openstacksim.Migration) bool {
		return !slices.Contains([]string{"queued", "running", "evacuating"}, m.Status)
	})
	if len(all) == 0 {
		return ""
	}
	m := all[dice.IntN(len(all))]
	s.cloud.Break(m.ID)
	return fmt.Sprintf("%s %d of %s fails", m.Kind, m.ID, m.Server)
}

// takeMarksOff has an operator do what the steps of a policy say of hosts that another policy, which is gone, has left marked as down.
func (s *openStackSite) takeMarksOff(policy *v1alpha1.EvictionPolicy) (taken bool) {
	const gone = "policy " + namespace + "/" + secondPolicy
	for _, p := range s.plan {
		host, step := s.host(p.pod), s.stepOf(policy, p)
		h := s.cloud.Host(host)
		if p.role != novaRole || step == nil || !s.onHost(host).off || !h.Forced || !strings.HasPrefix(h.Reason, "Usher ("+gone+")") {
			continue
		}
		if !strings.Contains(step.Message, "host "+host+" is evacuated for "+gone+" already") || !strings.Contains(step.Message, "openstack compute service set --up "+host+" nova-compute") {
			continue
		}
		s.world.note("operator: openstack compute service set --up %s nova-compute", host)
		s.cloud.ChangeHost(host, func(h *openstacksim.Host) { h.Forced = false })
		taken = true
	}
	return taken
}

// heal ends what is wrong, and has an operator give what has lost its agent to another.
func (s *openStackSite) heal() {
	s.cloud.Heal()
	for _, server := range s.cloud.Servers() {
		s.cloud.Change(server.ID, func(server *openstacksim.Server) { server.Nowhere = false })
	}
	var open []string
	for _, host := range s.hosts {
		s.cloud.ChangeAgent(s.short, host, func(a *openstacksim.Agent) { a.Mute = false })
		if a := s.cloud.Agent(s.short, host); a.Alive && a.Up {
			open = append(open, a.ID)
		}
	}
	for _, id := range s.things {
		if len(s.cloud.Thing(id).Holders) > 0 {
			delete(s.orphans, id)
		}
		if s.orphans[id] && len(open) > 0 {
			s.cloud.ChangeThing(id, func(t *openstacksim.Thing) { t.Holders = []string{open[0]} })
			delete(s.orphans, id)
		}
	}
}
