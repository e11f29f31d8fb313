package network

import (
	"slices"

	"usher.sh/usher/internal/text"
)

// follow looks after what was written down and is not on the agent any more: it counts as moved once a living agent serves it, and is given to one where none
// has it.
func (l *Look) follow(p *Plan) {
	for _, id := range l.Job.Moving {
		holders, known := l.Holders[id]
		switch {
		case slices.ContainsFunc(l.Things, func(t Thing) bool { return t.ID == id }):
			continue // it has not left
		case l.Listed && !known:
			continue // it is gone
		case l.Listed && l.settled(id, holders):
			p.Job.Moved++
			continue
		}
		p.Job.Moving = append(p.Job.Moving, id)
		call, why := l.rescue(p.Agent, id, holders)
		p.Waits = append(p.Waits, l.Kind.Thing+" "+text.Name(id)+" "+why)
		if call != nil {
			p.Next = append(p.Next, *call)
			l.count(call)
		}
	}
}

// settled reports whether a living agent serves a thing that has left, of a router with HA the active one.
func (l *Look) settled(id string, holders []Holder) bool {
	return slices.ContainsFunc(holders, func(h Holder) bool {
		a := l.agent(h.Agent)
		ask := l.Asked[Pair{id, h.Agent}]
		unanswered := ask.Open && l.within(ask.Time, silence)
		return a != nil && a.Alive && a.Up && (h.State == "" || h.State == Active) && !unanswered
	})
}

// rescue says what a thing that has left waits for, and how it gets an agent where none that lives has it.
func (l *Look) rescue(own *Agent, id string, holders []Holder) (*Call, string) {
	for _, h := range holders {
		if a := l.agent(h.Agent); a != nil && a.Alive && a.Up {
			if h.State != "" {
				return nil, "has no active agent yet"
			}
			return nil, "waits for the answer of the agent on " + text.Name(a.Host)
		}
	}
	t := Thing{ID: id}
	if i := slices.IndexFunc(l.Left, func(t Thing) bool { return t.ID == id }); i >= 0 {
		t = l.Left[i]
	}
	call := Call{Thing: id, Name: l.Kind.Thing + " " + t.String(), To: l.candidates(&t)}
	if own != nil && own.Alive && own.Up {
		call.To = append(call.To, own.ID)
	}
	if len(call.To) == 0 {
		return nil, "has no living agent, and there is none that could have it"
	}
	if len(holders) > 0 && holders[0].State == "" {
		call.From = holders[0].Agent
	}
	return &call, "has no living agent"
}
