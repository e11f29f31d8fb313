package openstacksim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// agentTypes are Neutron's, by the short names that AddAgents takes.
var agentTypes = map[string]string{
	"l3": "L3 agent", "dhcp": "DHCP agent", "bgp": "BGP dynamic routing agent", "ovs": "Open vSwitch agent", "ovn": "OVN Controller agent",
}

// Agent is one of Neutron's.
type Agent struct {
	ID, Type, Host string
	Zone, Mode     string
	Alive, Up      bool
	Description    string
	// Mute: it does not answer, and Neutron has not noticed yet. One that is not Alive does not either.
	Mute bool
	dead time.Duration // since when it is not alive
}

// serves reports whether what is given to the agent is served.
func (a *Agent) serves() bool { return a.Alive && a.Up && !a.Mute }

// Thing is a router, a network or a BGP speaker.
type Thing struct {
	ID, Name    string
	Type        string // of its agents
	Zones       []string
	HA          bool
	Distributed bool
	// Holders are the ids of its agents, Active that of the one that is active of a router with HA; "": none is.
	Holders []string
	Active  string
	// Reserved: a port of it is kept for the next agent.
	Reserved bool
	failover time.Duration
}

// AddAgents adds agents, each argument as HOST=TYPE,TYPE.
func (c *Cloud) AddAgents(hosts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, host := range hosts {
		name, types, _ := strings.Cut(host, "=")
		for short := range strings.SplitSeq(types, ",") {
			c.register(agentTypes[short], name)
		}
	}
}

func (c *Cloud) register(kind, host string) {
	c.made++
	c.agents = append(c.agents, &Agent{ID: fmt.Sprintf("agent-%s-%s-%d", strings.ReplaceAll(kind, " ", "-"), host, c.made), Type: kind, Host: host, Zone: "nova", Alive: true, Up: true})
}

// ChangeAgent changes the agent of a host, by its short type.
func (c *Cloud) ChangeAgent(short, host string, change func(*Agent)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.agents {
		if a.Type == agentTypes[short] && a.Host == host {
			change(a)
		}
	}
}

// Agent is a copy of the agent of a host, by its short type.
func (c *Cloud) Agent(short, host string) (found Agent) {
	c.ChangeAgent(short, host, func(a *Agent) { found = *a })
	return found
}

// Make makes a router, network or speaker for agents of a short type and puts it on those of hosts. Of a router with HA the first is active.
func (c *Cloud) Make(short, name string, hosts ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	t := &Thing{ID: fmt.Sprintf("%08d-0000-4000-8000-00000000%s", c.made, fmt.Sprintf("%04d", c.made)), Name: name, Type: agentTypes[short], HA: len(hosts) > 1 && short == "l3"}
	for _, host := range hosts {
		for _, a := range c.agents {
			if a.Type == t.Type && a.Host == host {
				t.Holders = append(t.Holders, a.ID)
			}
		}
	}
	if t.HA {
		t.Active = t.Holders[0]
	}
	c.things = append(c.things, t)
	return t.ID
}

// ChangeThing changes one, by its id.
func (c *Cloud) ChangeThing(id string, change func(*Thing)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.thing(id); t != nil {
		change(t)
	}
}

// Remove deletes one.
func (c *Cloud) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.things = slices.DeleteFunc(c.things, func(t *Thing) bool { return t.ID == id })
}

// Hosts are the hosts of the agents that have a thing, with the state of a router with HA as HOST(active).
func (c *Cloud) Hosts(id string) (hosts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.thing(id)
	if t == nil {
		return nil
	}
	for _, holder := range t.Holders {
		if a := c.agent(holder); a != nil {
			host := a.Host
			if t.HA {
				host += "(" + t.state(holder) + ")"
			}
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// Served reports whether an agent that lives and is enabled serves a thing, of a router with HA the active one.
func (c *Cloud) Served(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.thing(id)
	return slices.ContainsFunc(t.Holders, func(holder string) bool {
		a := c.agent(holder)
		return a != nil && a.serves() && (!t.HA || t.Active == holder)
	})
}

// HasAgent reports whether an agent that lives has a thing.
func (c *Cloud) HasAgent(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.thing(id)
	return slices.ContainsFunc(t.Holders, func(holder string) bool { a := c.agent(holder); return a != nil && a.Alive })
}

func (t *Thing) state(holder string) string {
	if t.Active == holder {
		return "active"
	}
	return "standby"
}

func (c *Cloud) thing(id string) *Thing {
	for _, t := range c.things {
		if t.ID == id {
			return t
		}
	}
	return nil
}

func (c *Cloud) agent(id string) *Agent {
	for _, a := range c.agents {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// The times that Neutron takes: for a standby router to become active, to give the networks of a dead DHCP agent to another, and a speaker that has none one.
const (
	failoverTime = 2 * time.Second
	rescheduling = 20 * time.Second
)

// stepNetwork lets a moment pass in Neutron.
func (c *Cloud) stepNetwork(tick time.Duration) {
	for _, a := range c.agents {
		if a.dead += tick; a.Alive {
			a.dead = 0
		}
	}
	for _, t := range c.things {
		c.failOver(t, tick)
		c.reschedule(t)
	}
	for _, gone := range c.deleted {
		c.register(gone.Type, gone.Host) // it was alive, and reports again
	}
	c.deleted = nil
}

// failOver has a standby become active where the active one does not live, or is gone.
func (c *Cloud) failOver(t *Thing, tick time.Duration) {
	if active := c.agent(t.Active); !t.HA || active != nil && active.serves() && slices.Contains(t.Holders, active.ID) {
		t.failover = 0
		return
	}
	at := slices.IndexFunc(t.Holders, func(id string) bool { a := c.agent(id); return a != nil && a.serves() })
	if t.failover += tick; at >= 0 && t.failover >= failoverTime {
		t.Active = t.Holders[at]
	}
}

// reschedule gives networks of dead agents, and speakers without one, to living agents. Routers stay.
func (c *Cloud) reschedule(t *Thing) {
	var to *Agent
	for _, a := range c.agents {
		if a.Type == t.Type && a.serves() && !slices.Contains(t.Holders, a.ID) && (t.Type != agentTypes["bgp"] || !c.speaks(a)) {
			to = a
		}
	}
	switch {
	case to == nil:
	case t.Type == agentTypes["bgp"] && len(t.Holders) == 0:
		t.Holders = []string{to.ID}
	case t.Type == agentTypes["dhcp"]:
		for i, id := range t.Holders {
			if a := c.agent(id); a != nil && !a.Alive && a.Up && a.dead >= rescheduling {
				t.Holders[i] = to.ID
				return
			}
		}
	}
}

// Thing is a copy of one.
func (c *Cloud) Thing(id string) (found Thing) {
	c.ChangeThing(id, func(t *Thing) { found = *t; found.Holders = slices.Clone(t.Holders) })
	return found
}

// Things are the ids of all routers, networks and speakers.
func (c *Cloud) Things() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.things {
		ids = append(ids, t.ID)
	}
	return ids
}
