package network

import (
	"cmp"
	"fmt"
	"slices"

	"usher.sh/usher/internal/text"
)

// Plan is what an agent has and what is next. Its lists are for people, an entry for each thing.
type Plan struct {
	// Problem is why nothing can be said of the host's agent, or done with it; "": nothing is wrong.
	Problem string
	// Agent is the host's, nil where it has none, or several.
	Agent *Agent
	// Others is how many other agents may get things.
	Others int

	Things []string // all that it has
	Stuck  []string // no other agent may have them, with what a person can do
	Failed []string // they were refused, and the next try is to come
	Waits  []string // they have left, and wait for an agent that serves them
	// Begun: it is marked as one that is being emptied.
	Begun bool
	// Empty: it is marked and disabled, has nothing, and what has left it is served elsewhere.
	Empty bool
	// Work is how many things are left that Usher asks for.
	Work int

	// Set is how the agent is to be changed first; nil: not at all.
	Set *Setting
	// Next is what to ask for now.
	Next []Call
	// Job is what is to be written down before anything more is asked for.
	Job Job
}

// Call is what is asked for one thing: that an agent lets it go, that another gets it, or both in this order.
type Call struct {
	Thing string // id
	// Name is for people.
	Name string
	// From is the agent that lets it go; "": none.
	From string
	// To are the agents that are asked to have it, each when those before it were refused; none: none is asked.
	To []string
	// AddFirst: it is given to another before it is let go, and let go in a later look.
	AddFirst bool
}

// most is how many ids a job has room for.
const most = 6

// Plan decides.
func (l *Look) Plan() Plan {
	l.reindex()
	p := Plan{Others: len(l.Open()), Job: Job{Moved: l.Job.Moved}}
	p.Agent, p.Problem = l.own()
	l.follow(&p)
	if p.Agent == nil {
		return p
	}
	m, isMarked := parseMark(p.Agent.Description)
	p.Begun = isMarked && m.owner == l.Owner
	if isMarked && !p.Begun {
		p.Problem = fmt.Sprintf("the %s on %s is being emptied for policy %s already; where that one is gone, openstack network agent set --description WORDS %s takes its mark off",
			l.Kind.Agent, text.Name(l.Host), text.Line(m.owner), text.ShellWord(p.Agent.ID))
	}
	movable := l.place(&p)
	p.Work = len(movable) + len(p.Waits)
	if len(l.Things) == 0 || p.Begun {
		p.Work = max(p.Work, 1) // that it gets nothing, and that what was begun is ended
	}
	p.Empty = p.Begun && m.emptied && !p.Agent.Up && len(l.Things) == 0 && len(p.Waits) == 0
	if p.Empty {
		p.Work = 0
	}
	if p.Problem != "" || !l.Listed || p.Empty {
		return p
	}
	if l.change(&p, m); p.Set != nil || p.Problem != "" {
		p.Job = l.Job
		return p
	}
	l.move(&p, movable)
	return p
}

// own finds the host's agent.
func (l *Look) own() (*Agent, string) {
	var found *Agent
	for i := range l.Agents {
		switch a := &l.Agents[i]; {
		case a.Host != l.Host || a.Type != l.Kind.Agent:
		case found != nil:
			return nil, fmt.Sprintf("host %s has several agents of the type %s: openstack network agent delete ID removes the one that is not there any more", text.Name(l.Host), l.Kind.Agent)
		default:
			found = a
		}
	}
	if found == nil {
		return nil, fmt.Sprintf("Neutron has no %s on a host %s in this region", l.Kind.Agent, text.Name(l.Host))
	}
	return found, ""
}

// place puts what the agent has into the lists, and returns what can be asked for: first what another agent has already.
func (l *Look) place(p *Plan) (movable []*Thing) {
	for i := range l.Things {
		t := &l.Things[i]
		p.Things = append(p.Things, t.String())
		switch {
		case l.stuck(p.Agent, t) != "":
			p.Stuck = append(p.Stuck, t.String()+" "+l.stuck(p.Agent, t))
		case l.failed(p.Agent, t) != "":
			p.Failed = append(p.Failed, t.String()+" "+l.failed(p.Agent, t))
		default:
			movable = append(movable, t)
		}
	}
	slices.Sort(p.Things)
	slices.Sort(p.Stuck)
	slices.Sort(p.Failed)
	slices.SortFunc(movable, func(a, b *Thing) int {
		return cmp.Or(-cmp.Compare(len(l.served(a.ID)), len(l.served(b.ID))), cmp.Compare(a.ID, b.ID))
	})
	return movable
}

// stuck says why no other agent may have a thing, and what a person can do about it.
func (l *Look) stuck(own *Agent, t *Thing) string {
	if own.Mode == distributedOnly || own.Mode == distributedNoExternal {
		return "is distributed, and leaves with the servers of the host: have those moved"
	}
	if len(l.served(t.ID)) > 0 || l.x.zones.take(t) {
		return ""
	}
	switch {
	case len(l.x.open) == 0:
		return fmt.Sprintf("has nowhere to go: no other %s is alive, enabled and not being emptied", l.Kind.Agent)
	case len(t.Zones) > 0:
		return fmt.Sprintf("has nowhere to go: no other %s in its zones (%s) is alive, enabled and not being emptied", l.Kind.Agent, text.List(named(t.Zones), 5))
	}
	return fmt.Sprintf("has nowhere to go: no other %s that is alive, enabled and not being emptied has a mode that suits it", l.Kind.Agent)
}

func named(names []string) (all []string) {
	for _, name := range names {
		all = append(all, text.Name(name))
	}
	return all
}

// failed says why a thing is not asked for now although it has somewhere to go.
func (l *Look) failed(own *Agent, t *Thing) string {
	if l.refused(Pair{t.ID, own.ID}) {
		return "is not let go: " + l.words(Pair{t.ID, own.ID})
	}
	if len(l.served(t.ID)) > 0 || l.hasCandidate(t) {
		return ""
	}
	if pair, refused := l.x.refused[t.ID]; refused {
		return "is not moved: " + l.words(pair)
	}
	return "waits: agents that could have it have not answered"
}

func (l *Look) words(p Pair) string {
	ask := l.Asked[p]
	return fmt.Sprintf("%s; asked for again at %s", ask.Refused, ask.Time.Add(Again).UTC().Format("15:04:05Z"))
}

// change says how the agent is to be marked and disabled before anything else is asked for. It is disabled only once it has nothing, since it serves nothing
// then any more, and what comes to it meanwhile is moved as well.
func (l *Look) change(p *Plan, m mark) {
	down := false
	var refusal string
	switch {
	case !p.Begun && p.Work > 0:
		p.Set, refusal = mark{owner: l.Owner, wasDown: !p.Agent.Up, rest: p.Agent.Description}.set(p.Agent, nil)
	case !p.Begun:
	case len(l.Things) > 0 && m.emptied:
		m.emptied = false
		p.Set, refusal = m.set(p.Agent, nil)
	case len(l.Things) == 0 && len(p.Waits) == 0:
		m.emptied = true
		p.Set, refusal = m.set(p.Agent, &down)
	}
	p.Problem = cmp.Or(p.Problem, refusal)
}

// move says what is asked for now, and what is written down to be asked for next.
func (l *Look) move(p *Plan, movable []*Thing) {
	if !p.Begun {
		return
	}
	for _, t := range movable {
		if slices.Contains(l.Job.Moving, t.ID) {
			p.Job.Moving = append(p.Job.Moving, t.ID)
		}
	}
	for _, t := range movable {
		if len(p.Next) >= l.AtOnce {
			break
		}
		if call := l.call(p, t); call != nil {
			p.Next = append(p.Next, *call)
			l.count(call)
		}
	}
}

// count has the agents that get things in this look not taken for those that have the fewest.
func (l *Look) count(c *Call) {
	if len(c.To) > 0 && l.Load != nil {
		l.Load[c.To[0]]++
	}
}

// call is what is asked for a thing that can be moved, nil where it has to be written down first, or waits for its turn.
func (l *Look) call(p *Plan, t *Thing) *Call {
	call := Call{Thing: t.ID, Name: l.Kind.Thing + " " + t.String(), From: p.Agent.ID}
	plain := l.Kind == Routers && !t.HA
	if t.HA && l.Holders[t.ID] == nil || plain && !l.reserve(p, t.ID) {
		return nil // its turn has not come
	}
	to := l.candidates(t)
	served := l.served(t.ID)
	switch {
	case plain:
		if call.To = to; p.Agent.Alive && p.Agent.Up {
			call.To = append(call.To, p.Agent.ID) // where all others refuse it, it stays
		}
		return &call
	case len(to) > 0 && !l.added(t.ID):
		call.From, call.To, call.AddFirst = "", to, true
		return &call
	case len(served) == 0:
		return nil
	case t.HA && !l.activeElsewhere(t.ID):
		if len(p.Waits) > 0 || !l.alone(p, t.ID) || !l.reserve(p, t.ID) {
			return nil
		}
	}
	return &call
}

// reserve reports whether a thing was written down, and so may be without an agent for a moment. It is written down otherwise, where there is room.
func (l *Look) reserve(p *Plan, id string) bool {
	if slices.Contains(p.Job.Moving, id) {
		return slices.Contains(l.Job.Moving, id)
	}
	if len(p.Job.Moving) < most {
		p.Job.Moving = append(p.Job.Moving, id)
	}
	return false
}

// alone reports whether no other router with HA is written down: one at a time fails over.
func (l *Look) alone(p *Plan, id string) bool {
	return !slices.ContainsFunc(l.Things, func(t Thing) bool { return t.HA && t.ID != id && slices.Contains(p.Job.Moving, t.ID) })
}

// activeElsewhere reports whether a router with HA is active on an agent that may be left with it. That the host's own is a standby does not say so: while it fails
// over none is active.
func (l *Look) activeElsewhere(thing string) bool {
	return slices.ContainsFunc(l.served(thing), func(h Holder) bool { return h.State == Active })
}

// Wanted are the ids of things whose holders have to be asked for: those that are written down, and of routers with HA as many as are asked for in one look.
func (l *Look) Wanted() []string {
	l.reindex()
	ids := slices.Clone(l.Job.Moving)
	if own, _ := l.own(); own != nil {
		var p Plan
		p.Agent = own
		for _, t := range l.place(&p) {
			if t.HA && !slices.Contains(ids, t.ID) && len(ids) < len(l.Job.Moving)+l.AtOnce {
				ids = append(ids, t.ID)
			}
		}
	}
	return ids
}
