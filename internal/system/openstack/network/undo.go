package network

import (
	"fmt"
	"slices"
	"strings"

	"usher.sh/usher/internal/text"
)

// Undo is how what was begun for an agent is taken back.
type Undo struct {
	// Set is how the agent is to be changed; nil: not at all.
	Set *Setting
	// Next is what to ask for now.
	Next []Call
	// Waits is what is left to end by itself.
	Waits []string
	// Job is what is written down from now on.
	Job Job
	// Left is what stays as it is, and what a person can do about it.
	Left string
}

// Done reports whether nothing is left to ask or to wait for.
func (u *Undo) Done() bool { return u.Set == nil && len(u.Next) == 0 && len(u.Waits) == 0 }

// Waiting says what is waited for.
func (u *Undo) Waiting() string { return "waiting: " + text.List(u.Waits, 5) }

// Undo takes back what was begun: the agent is enabled if Usher has disabled it, and has its own description again; what is without an agent gets one, and
// what another was given in addition is taken from it again; what has moved stays.
func (l *Look) Undo() Undo {
	l.reindex()
	var p Plan
	own, _ := l.own()
	if own == nil {
		own = l.begun()
	}
	p.Agent, p.Job.Moved = own, l.Job.Moved
	l.follow(&p)
	u := Undo{Next: p.Next, Waits: p.Waits, Job: p.Job}
	var left []string
	if u.Job.Moved > 0 {
		left = append(left, l.stays(u.Job.Moved))
	}
	if own == nil {
		u.Left = strings.Join(left, "; ")
		return u
	}
	m, isMarked := parseMark(own.Description)
	others := isMarked && m.owner != l.Owner
	if isMarked && !others {
		up := true
		u.Set = &Setting{Agent: own.ID, Description: m.rest, Up: &up}
		if m.wasDown {
			u.Set.Up = nil
		}
	}
	if !own.Up && u.Set == nil && !others {
		left = append(left, fmt.Sprintf("its agent stays disabled, as it was before: openstack network agent set --enable %s", text.ShellWord(own.ID)))
	}
	u.Next = append(u.Next, l.surplus()...)
	u.Left = strings.Join(left, "; ")
	return u
}

// begun is the first of a host's agents that has this policy's mark, where it has several by now; nil: there is none.
func (l *Look) begun() *Agent {
	at := slices.IndexFunc(l.Agents, func(a Agent) bool {
		m, isMarked := parseMark(a.Description)
		return a.Host == l.Host && a.Type == l.Kind.Agent && isMarked && m.owner == l.Owner
	})
	if at < 0 {
		return nil
	}
	return &l.Agents[at]
}

// surplus is what other agents were given in addition for the host, whose own has it yet. What they were given for another host stays.
func (l *Look) surplus() (calls []Call) {
	for pair, ask := range l.Asked {
		i := slices.IndexFunc(l.Things, func(t Thing) bool { return t.ID == pair.Thing })
		a := l.agent(pair.Agent)
		if i < 0 || ask.Host != l.Host || ask.Refused != "" || a == nil || a.Host == l.Host || !l.holds(pair.Thing, pair.Agent) {
			continue
		}
		calls = append(calls, Call{Thing: pair.Thing, Name: l.Kind.Thing + " " + l.Things[i].String(), From: pair.Agent})
	}
	slices.SortFunc(calls, func(a, b Call) int { return strings.Compare(a.Thing+a.From, b.Thing+b.From) })
	return calls
}

// stays says how many things have left, and how one is brought back.
func (l *Look) stays(moved int) string {
	how := fmt.Sprintf("openstack network agent remove %s %s OTHER-AGENT ID, and add %s %s AGENT ID", l.Kind.Thing, l.Kind.Flag, l.Kind.Thing, l.Kind.Flag)
	if l.Kind.Flag == "" {
		how = fmt.Sprintf("openstack bgp dragent add %s AGENT ID, and remove %s OTHER-AGENT ID", l.Kind.Thing, l.Kind.Thing)
	}
	return fmt.Sprintf("what has left %s stays where it is (%s at least); one is brought back by hand: %s",
		text.Name(l.Host), text.Count(moved, l.Kind.Thing), how)
}
