package network

import "slices"

// index is what a decision looks up for each thing. It is made once for a decision: who answers for Neutron says how many agents and things there are, and a
// decision does not end before it has ended.
type index struct {
	agents map[string]*Agent
	// open are the agents that may get things, and of those free the zones of such as have left nothing unanswered.
	open  []*Agent
	zones zones
	free  zones
	// silent are the agents that have left a request unanswered not long ago.
	silent map[string]bool
	// asked are the things that agents were asked to have or to let go, and refused the first agent that has refused each.
	asked   map[string]bool
	refused map[string]Pair
	// served are the agents beside the host's that have a thing and may be left with it.
	served map[string][]Holder
}

// zones are those of agents that may have things: of all such, and of those that may have distributed ones.
type zones struct{ all, central map[string]bool }

func newZones() zones { return zones{all: map[string]bool{}, central: map[string]bool{}} }

func (z zones) add(a *Agent) {
	if a.takes(&Thing{}) {
		z.all[a.Zone] = true
	}
	if a.takes(&Thing{Distributed: true}) {
		z.central[a.Zone] = true
	}
}

// take reports whether one of the agents may have a thing, as far as its zone and mode tell.
func (z zones) take(t *Thing) bool {
	in := z.all
	if t.Distributed {
		in = z.central
	}
	return len(in) > 0 && (len(t.Zones) == 0 || in[""] || slices.ContainsFunc(t.Zones, func(zone string) bool { return in[zone] }))
}

// reindex is called before a decision.
func (l *Look) reindex() {
	l.x = &index{
		agents: map[string]*Agent{}, zones: newZones(), free: newZones(), silent: map[string]bool{},
		asked: map[string]bool{}, refused: map[string]Pair{}, served: map[string][]Holder{},
	}
	for pair, ask := range l.Asked {
		l.indexAsk(pair, ask)
	}
	for i := range l.Agents {
		l.indexAgent(&l.Agents[i])
	}
	for thing, holders := range l.Holders {
		for _, h := range holders {
			if a := l.agent(h.Agent); a != nil && l.open(a) {
				l.x.served[thing] = append(l.x.served[thing], h)
			}
		}
	}
}

func (l *Look) indexAsk(pair Pair, ask Ask) {
	l.x.asked[pair.Thing] = true
	if ask.Open && l.within(ask.Time, silence) {
		l.x.silent[pair.Agent] = true
	}
	if first, there := l.x.refused[pair.Thing]; l.refused(pair) && (!there || pair.Agent < first.Agent) {
		l.x.refused[pair.Thing] = pair
	}
}

func (l *Look) indexAgent(a *Agent) {
	if l.x.agents[a.ID] == nil {
		l.x.agents[a.ID] = a
	}
	if !l.open(a) {
		return
	}
	l.x.open = append(l.x.open, a)
	l.x.zones.add(a)
	if !l.x.silent[a.ID] {
		l.x.free.add(a)
	}
}

// hasCandidate reports whether a thing has candidates.
func (l *Look) hasCandidate(t *Thing) bool {
	if l.x.asked[t.ID] || len(l.Holders[t.ID]) > 0 {
		return len(l.candidates(t)) > 0
	}
	return l.x.free.take(t)
}
