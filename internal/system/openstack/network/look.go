package network

import (
	"cmp"
	"slices"
	"time"

	"usher.sh/usher/internal/text"
)

// Kind is a kind of agent, with what it has.
type Kind struct {
	// Agent is the type of the agent, as Neutron has it.
	Agent string
	// Thing is what it has one or several of, for people.
	Thing string
	// Flag has the command line mean such agents; "": it has commands of its own for them.
	Flag string
}

// The kinds of agent that have something of their own.
var (
	Routers  = Kind{Agent: "L3 agent", Thing: "router", Flag: "--l3"}
	Networks = Kind{Agent: "DHCP agent", Thing: "network", Flag: "--dhcp"}
	Speakers = Kind{Agent: "BGP dynamic routing agent", Thing: "speaker"}
)

// Look is what Neutron says of the agents of one kind, and what is known beside that.
type Look struct {
	Now  time.Time
	Host string
	Kind Kind
	// Owner is the policy: a mark in its name is its own.
	Owner string
	// Agents are all of the region.
	Agents []Agent
	// Things are on the host's agent.
	Things []Thing
	// Listed: Load was asked for, and Holders of those that are Wanted. Without it nothing is asked for.
	Listed bool
	// Load is how many things each other agent has that may get some, by its id.
	Load map[string]int
	// Holders are the agents that have a thing, by its id. One that is not in it is not known, or does not exist any more.
	Holders map[string][]Holder
	// Left are things of the job that are not on the host's agent, as far as they are known.
	Left []Thing
	// Job is what is written down of the work.
	Job Job
	// Asked is what was asked by this process.
	Asked map[Pair]Ask
	// AtOnce is how many things are asked for in one look.
	AtOnce int

	x *index
}

// Agent is one of Neutron's.
type Agent struct {
	ID, Type, Host string
	// Alive: it reports to Neutron. Up: it is not disabled.
	Alive, Up   bool
	Description string
	// Zone is its availability zone, Mode the agent_mode of an L3 agent; "": it says none.
	Zone, Mode string
}

// Thing is a router, a network or a BGP speaker.
type Thing struct {
	ID, Name string
	// Zones are those in which it may be; none: in all.
	Zones []string
	// HA: several agents have it, and one of them is active. Distributed: each host has its part of it.
	HA, Distributed bool
}

func (t *Thing) String() string {
	if t.Name == "" {
		return text.Name(t.ID)
	}
	return text.Name(t.Name) + " (" + text.Name(t.ID) + ")"
}

// Holder is an agent that has a thing.
type Holder struct {
	Agent string // id
	// State is active, standby or another word where the thing is a router with HA; "": it is none.
	State string
}

// The states of a router with HA that are decided by.
const (
	Active  = "active"
	Standby = "standby"
)

// Job is what is written down of the work, and known to every process after that.
type Job struct {
	// Moved is how many things were seen to have left, at least.
	Moved int
	// Moving are the ids of things that may be without an agent, or without an active one, while they are moved. None is touched before it is written down.
	Moving []string
}

// Pair is a thing and an agent that was asked to have it, or to let it go.
type Pair struct{ Thing, Agent string }

// Ask is a request, as this process knows it.
type Ask struct {
	Time time.Time
	// Host is the one for whose sake it was sent.
	Host string
	// Open: there is no answer yet, or it was cut off. Refused is what Neutron said; "": it has done it, or that is not known.
	Open    bool
	Refused string
}

const (
	// Again is how long after a refusal the same is asked for again.
	Again = 5 * time.Minute
	// silence is how long an agent gets nothing that has left a request unanswered. Neutron knows by then that it is not alive, if it is not.
	silence = 2 * time.Minute
	// distributedOnly and its like are modes of L3 agents that have but their host's parts of distributed routers.
	distributedOnly       = "dvr"
	distributedNoExternal = "dvr_no_external"
	distributedCentral    = "dvr_snat"
)

// within reports whether something was less than so long ago. What lies far in the future was noted by a clock that is set wrong.
func (l *Look) within(since time.Time, span time.Duration) bool {
	age := l.Now.Sub(since)
	return age < span && age > -span
}

// agent finds one by its id.
func (l *Look) agent(id string) *Agent { return l.x.agents[id] }

// Serves reports whether an agent is alive, enabled, and not being emptied.
func (a *Agent) Serves() bool { return a.Alive && a.Up && !marked(a.Description) }

// open reports whether an agent may get things: it serves, and is on another host.
func (l *Look) open(a *Agent) bool {
	return a.Type == l.Kind.Agent && a.Host != l.Host && a.Serves()
}

// Open are the ids of all agents that may get things.
func (l *Look) Open() (ids []string) {
	for i := range l.Agents {
		if l.open(&l.Agents[i]) {
			ids = append(ids, l.Agents[i].ID)
		}
	}
	return ids
}

// takes reports whether an agent may have a thing, as far as its zone and mode tell.
func (a *Agent) takes(t *Thing) bool {
	if len(t.Zones) > 0 && a.Zone != "" && !slices.Contains(t.Zones, a.Zone) {
		return false
	}
	return a.Mode != distributedOnly && a.Mode != distributedNoExternal && (!t.Distributed || a.Mode == distributedCentral)
}

// candidates are the agents that may get a thing that they do not have, those that have the fewest first.
func (l *Look) candidates(t *Thing) (ids []string) {
	for _, a := range l.x.open {
		if a.takes(t) && !l.holds(t.ID, a.ID) && !l.refused(Pair{t.ID, a.ID}) && !l.x.silent[a.ID] {
			ids = append(ids, a.ID)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(l.Load[a], l.Load[b]), cmp.Compare(a, b)) })
	return ids
}

func (l *Look) holds(thing, agent string) bool {
	return slices.ContainsFunc(l.Holders[thing], func(h Holder) bool { return h.Agent == agent })
}

func (l *Look) refused(p Pair) bool {
	ask, asked := l.Asked[p]
	return asked && ask.Refused != "" && l.within(ask.Time, Again)
}

// served are the agents beside the host's that have a thing and may be left with it.
func (l *Look) served(thing string) []Holder { return l.x.served[thing] }

// added reports whether an agent has a thing because this process has asked for it, in the place of the host's. What was asked for another host takes that one's
// place: of two that let a thing go each has another agent have it first.
func (l *Look) added(thing string) bool {
	return slices.ContainsFunc(l.served(thing), func(h Holder) bool {
		ask, asked := l.Asked[Pair{thing, h.Agent}]
		return asked && ask.Refused == "" && ask.Host == l.Host
	})
}
