package histories

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/test/openstacksim"
)

// openStackSite is a region of hosts that have nova-compute, an agent with routers or networks, and a layer 2 agent each, whose pods share a machine.
type openStackSite struct {
	world          *world
	plan           []planned
	cloud, staging *openstacksim.Cloud
	hosts          []string
	// short is the type of agents that have something: l3 or dhcp.
	short string
	// load: the pods stay, and what they carry leaves.
	load bool
	// ordered: the policy says that a layer 2 agent leaves after the others.
	ordered bool
	// up are the pods whose processes run on a machine that may be cut off.
	up     map[string]bool
	things []string
	// closed are hosts that an operator has disabled, with the reason.
	closed map[string]string
	// closing is when the last was.
	closing time.Time
	// orphans are things whose agent was forgotten.
	orphans map[string]bool
	tenants *rand.Rand
	evacuations
}

const (
	novaRole   = "nova-compute"
	layer2Role = "neutron-l2-agent"
	// bootTime is how long a machine takes from when its kubelet reports until its other processes run.
	bootTime = 15 * time.Second
	// mostServers bounds what tenants boot.
	mostServers = 12
)

// things of agents, by their short types: their role, and the pods' name.
var agentRoles = map[string]string{"l3": "neutron-l3-agent", "dhcp": "neutron-dhcp-agent"}

func newOpenStack(w *world) site {
	s := &openStackSite{
		world: w, short: []string{"l3", "l3", "dhcp"}[w.dice.IntN(3)], load: w.dice.IntN(2) == 0, ordered: w.dice.IntN(3) > 0, up: map[string]bool{}, closed: map[string]string{}, orphans: map[string]bool{},
		tenants: rand.New(rand.NewPCG(w.seed, 3)), evacuations: evacuations{looked: map[string]time.Time{}, foreign: map[string]time.Time{}},
	}
	var agents []string
	for n := range 3 + w.dice.IntN(2) {
		s.hosts = append(s.hosts, fmt.Sprintf("n-nova-%d", n))
		agents = append(agents, fmt.Sprintf("n-nova-%d=ovs,%s", n, s.short))
		s.plan = append(s.plan,
			planned{fmt.Sprintf("nova-%d", n), novaRole, false}, planned{fmt.Sprintf("%s-%d", s.short, n), agentRoles[s.short], false},
			planned{fmt.Sprintf("layer2-%d", n), layer2Role, false})
	}
	for _, p := range s.plan {
		s.up[p.pod] = true
	}
	s.cloud, s.staging = openstacksim.Named(epoch, s.hosts...), openstacksim.Named(epoch, s.hosts...)
	s.cloud.AddAgents(agents...)
	s.staging.AddAgents(agents...)
	s.cloud.AtOnce = 1 + w.dice.IntN(2)
	s.cloud.Evacuation = time.Duration(4+w.dice.IntN(40)) * time.Second
	for n := range 3 + w.dice.IntN(4) {
		s.boot(fmt.Sprintf("server-%d", n), s.hosts[w.dice.IntN(len(s.hosts))])
	}
	for n := range 2 + w.dice.IntN(3) {
		at := w.dice.IntN(len(s.hosts))
		on := []string{s.hosts[at]}
		if w.dice.IntN(3) == 0 {
			on = append(on, s.hosts[(at+1)%len(s.hosts)])
		}
		s.things = append(s.things, s.cloud.Make(s.short, fmt.Sprintf("thing-%d", n), on...))
	}
	return s
}

func (s *openStackSite) boot(name, host string) {
	s.cloud.Boot(name, host, []string{"active", "active", "active", "stopped", "paused"}[s.tenants.IntN(5)])
}

// openStack returns the site where it is a region of OpenStack, nil where it is not.
func (w *world) openStack() *openStackSite {
	s, _ := w.site.(*openStackSite)
	return s
}

func (s *openStackSite) members() []planned { return s.plan }

// beside is the member whose machine another one is on too, "" where it has its own.
func (*openStackSite) beside(pod string) string {
	if role, n, _ := strings.Cut(pod, "-"); role != "nova" {
		return "nova-" + n
	}
	return ""
}

// host is that of a pod.
func (*openStackSite) host(pod string) string {
	_, n, _ := strings.Cut(pod, "-")
	return "n-nova-" + n
}

// onHost is the machine of a host.
func (s *openStackSite) onHost(host string) *machine {
	return s.world.machines[strings.TrimPrefix(host, "n-")]
}

func (s *openStackSite) spec(staging bool) v1alpha1.EvictionPolicySpec {
	secret := "clouds"
	if staging {
		secret = stagingSecret
	}
	members := selectors(s.plan)
	for i := range members {
		members[i].ID = "pod.node"
		if members[i].Role == layer2Role && s.ordered {
			members[i].LeavesAfter = []string{novaRole, agentRoles[s.short]}
		}
		if s.load {
			members[i].Leaves = v1alpha1.LeavesLoad
			if s.world.seed%2 == 0 {
				members[i].EmptyOn = v1alpha1.EmptyOnCordon
			}
		}
	}
	return v1alpha1.EvictionPolicySpec{
		System: v1alpha1.System{OpenStack: &v1alpha1.OpenStack{
			Clouds: v1alpha1.SecretKey{Name: secret, Key: "token"}, MigrationsAtOnce: 1,
			Servers: v1alpha1.ServersByState{
				Active: v1alpha1.ServerLiveMigrate, Paused: v1alpha1.ServerLiveMigrate, Stopped: v1alpha1.ServerColdMigrate,
				Suspended: v1alpha1.ServerBlock, Error: v1alpha1.ServerBlock, Resized: v1alpha1.ServerBlock,
			},
		}},
		Members: members,
	}
}

func (s *openStackSite) kind(r *replica, real system.Kind) system.Kind {
	open := real.Open
	real.Open = func(spec *v1alpha1.System, access system.Access) (system.System, error) {
		access.Secrets = map[v1alpha1.SecretKey][]byte{spec.OpenStack.Clouds: []byte(openstacksim.CloudsYAML)}
		cloud := s.cloud
		if spec.OpenStack.Clouds.Name == stagingSecret {
			cloud = s.staging
		}
		access.Transport = &openStackLine{replica: r, site: s, cloud: cloud}
		return open(spec, access)
	}
	return real
}

func (s *openStackSite) tick() {
	if !s.world.calm && s.tenants.IntN(30) == 0 {
		s.tenant()
	}
	if s.world.calm && len(s.orphans) > 0 {
		s.heal()
	}
	for _, cloud := range []*openstacksim.Cloud{s.cloud, s.staging} {
		cloud.Advance(time.Second)
		for _, p := range s.plan {
			s.sync(cloud, p)
		}
	}
}

// tenant boots a server, or does something with one.
func (s *openStackSite) tenant() {
	all := s.cloud.Servers()
	if s.tenants.IntN(2) == 0 && len(all) < mostServers {
		for _, at := range s.tenants.Perm(len(s.hosts)) {
			if h := s.cloud.Host(s.hosts[at]); h.Up && h.Enabled && !h.Forced {
				s.boot(fmt.Sprintf("server-%d", len(all)), h.Name)
				return
			}
		}
		return
	}
	server := all[s.tenants.IntN(len(all))]
	if slices.Contains([]string{"active", "stopped", "paused", "suspended"}, server.State) && server.Task == "" && s.cloud.Host(server.Host).Up {
		state := []string{"active", "active", "stopped", "paused", "suspended"}[s.tenants.IntN(5)]
		s.cloud.Change(server.ID, func(server *openstacksim.Server) { server.State = state })
	}
}

// sync has Nova or Neutron come to know whether a process reports to it.
func (s *openStackSite) sync(cloud *openstacksim.Cloud, p planned) {
	m, host := s.world.machines[p.pod], s.host(p.pod)
	alive := s.up[p.pod] && !m.lost && (m.back.IsZero() || time.Since(m.back) >= bootTime)
	if p.role == novaRole {
		switch h := cloud.Host(host); {
		case alive && !h.Up, alive && s.world.calm: // a service that has to clean up is started anew
			cloud.Start(host)
		case !alive && h.Up:
			cloud.Die(host)
		}
		return
	}
	short := s.short
	if p.role == layer2Role {
		short = "ovs"
	}
	if agent := cloud.Agent(short, host); agent.ID != "" {
		cloud.ChangeAgent(short, host, func(a *openstacksim.Agent) { a.Alive = alive })
	} else if alive {
		cloud.AddAgents(host + "=" + short)
	}
}

func (s *openStackSite) start(pod string, _ bool) { s.up[pod] = true }

func (s *openStackSite) stop(pod string) { delete(s.up, pod) }

// wouldLose is what is on a host, or on its way there: of a layer 2 agent all that needs the host's network.
func (s *openStackSite) wouldLose(pod string, _ []string) string {
	host, role := s.host(pod), s.world.roleOf(pod)
	if why := cmp.Or(s.server(host), s.incoming(host)); why != "" && role != agentRoles[s.short] {
		return why
	}
	if role == novaRole {
		return ""
	}
	return s.thing(host)
}

// thing says which thing the agent of a host has; "": none.
func (s *openStackSite) thing(host string) string {
	agent := s.cloud.Agent(s.short, host).ID
	for _, id := range s.things {
		if agent != "" && slices.Contains(s.cloud.Thing(id).Holders, agent) {
			return s.cloud.Thing(id).Name + " is on " + host
		}
	}
	return ""
}

// server says which server is on a host; "": none.
func (s *openStackSite) server(host string) string {
	for _, server := range s.cloud.Servers() {
		if server.Host == host {
			return server.Name + " is on " + host
		}
	}
	return ""
}

// incoming says which server is on its way to a host; "": none.
func (s *openStackSite) incoming(host string) string {
	for _, m := range s.cloud.Migrations() {
		if m.Destination == host && slices.Contains([]string{"queued", "running", "migrating", "evacuating"}, m.Status) {
			return m.Server + " is on its way to " + host
		}
	}
	return ""
}

func (*openStackSite) lag(string) time.Duration { return 0 }

func (*openStackSite) lost() []string { return nil }

func (*openStackSite) leads(string) bool { return false }

func (*openStackSite) unreplicated(string) bool { return false }

// leftovers are hosts and agents that are disabled or marked, and things that no living agent has.
func (s *openStackSite) leftovers() []string {
	var left []string
	for _, host := range s.hosts {
		h := s.cloud.Host(host)
		if reason, closed := s.closed[host]; h.Enabled == closed || h.Forced || h.Reason != reason {
			left = append(left, fmt.Sprintf("%s is enabled: %t, marked as down: %t, %q", host, h.Enabled, h.Forced, h.Reason))
		}
		if a := s.cloud.Agent(s.short, host); !a.Up || a.Description != "" {
			left = append(left, fmt.Sprintf("the %s of %s is enabled: %t, %q", a.Type, host, a.Up, a.Description))
		}
	}
	for _, id := range s.things {
		if !s.cloud.HasAgent(id) {
			left = append(left, s.cloud.Thing(id).Name+" has no agent that lives")
		}
	}
	return left
}
