package compute

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Plan is what a host has and what is next. Its lists are for people, an entry for each server or migration.
type Plan struct {
	// Problem is why nothing can be said of the host; "": nothing is wrong.
	Problem string
	// Hypervisor is the host's, nil with a Problem.
	Hypervisor *Hypervisor
	// Others is how many other hosts may take servers.
	Others int

	Servers     []string // all that are on it
	Left        int      // how many of them have to leave
	Stay        []string // the policy lets them stay
	Moving      []string // they are leaving, whoever asked for that
	Busy        []string // Nova does something else with them
	Failed      []string // the last try to move them has failed, and the next is to come
	Stuck       []string // they are not moved, with what a person can do
	Incoming    []string // migrations that lead to it
	Unconfirmed []string // servers that have left and may come back, with what a person can do
	// Empty: it gets no servers, has none that has to leave, and none is on its way from it or to it.
	Empty bool
	// Work is how many things are left that Usher asks for, or has asked for.
	Work int
	// Next is what to ask for now.
	Next []Call
}

// Call is a request to Nova about a server.
type Call struct {
	Do     Action
	Server string // id
	// Name is for people.
	Name string
	// Migration is the one that is called off.
	Migration int64
	// After is the last migration of the server that is known.
	After int64
}

// Action is what is asked for.
type Action string

// The actions.
const (
	LiveMigrate Action = "live-migrate"
	ColdMigrate Action = "cold-migrate"
	Confirm     Action = "confirm"
	Abort       Action = "abort"
)

// queued is how many moves at least are given to Nova to wait, so that it has some until the next look however short they are.
const queued = 2

// Plan decides.
func (l *Look) Plan() Plan {
	l.reindex(0)
	p := Plan{Others: l.others()}
	if p.Hypervisor, p.Problem = l.hypervisor(); p.Problem != "" {
		return p
	}
	if !l.Listed {
		for i := range p.Hypervisor.Servers {
			p.Servers = append(p.Servers, p.Hypervisor.Servers[i].String())
		}
		p.Left, p.Work = len(p.Servers), 1 // that it gets no new ones
		return p
	}
	var moves []Call
	under := 0
	servers := slices.Clone(l.Servers)
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	for i := range servers {
		call, moving := l.place(&p, &servers[i])
		if call != nil {
			moves = append(moves, *call)
		}
		if moving {
			under++
		}
	}
	l.addUnlisted(&p)
	if p.Others == 0 {
		moves = nil // each would fail
	}
	confirms := l.addMigrations(&p)
	p.Work = len(confirms) + len(moves) + under
	p.Empty = !p.Hypervisor.Enabled && p.Left+len(p.Moving)+len(p.Incoming)+len(p.Unconfirmed)+len(confirms) == 0
	if p.Hypervisor.Up {
		p.Next = confirms
		if free := l.AtOnce + max(l.AtOnce, queued) - len(p.Moving); free > 0 {
			p.Next = append(p.Next, moves[:min(free, len(moves))]...)
		}
	}
	return p
}

// Own is the host's hypervisor, nil where it has none. Of several, of which some may be left of former names, each has the host's one service: what was begun for
// that is taken back whatever has become of them.
func (l *Look) Own() *Hypervisor {
	at := slices.IndexFunc(l.Hypervisors, func(h Hypervisor) bool { return h.Host == l.Host })
	if at < 0 {
		return nil
	}
	return &l.Hypervisors[at]
}

// hypervisor finds the host's own, where it can be emptied.
func (l *Look) hypervisor() (*Hypervisor, string) {
	var found *Hypervisor
	for i := range l.Hypervisors {
		switch h := &l.Hypervisors[i]; {
		case h.Host != l.Host:
		case found != nil:
			return nil, fmt.Sprintf("host %s has several hypervisors, and Usher empties only hosts that have one", text.Name(l.Host))
		default:
			found = h
		}
	}
	if found == nil {
		return nil, fmt.Sprintf("OpenStack has no compute host %s in this region", text.Name(l.Host))
	}
	return found, ""
}

func (l *Look) others() (n int) {
	for i := range l.Hypervisors {
		if h := &l.Hypervisors[i]; h.Host != l.Host && h.Up && h.Enabled {
			n++
		}
	}
	return n
}

// place puts a server into the lists. It returns what is to be asked for it, if anything is, and whether it is on its way.
func (l *Look) place(p *Plan, s *Server) (call *Call, moving bool) {
	p.Servers = append(p.Servers, s.String()+" "+text.Name(s.State))
	mode, last := l.mode(s), l.x.last[s.ID]
	if mode == v1alpha1.ServerStay && s.Task == "" && !l.broke(s, last) {
		p.Stay = append(p.Stay, s.String()+" "+s.State)
		return nil, false
	}
	p.Left++
	if last != nil && last.InProgress() {
		p.Moving = append(p.Moving, s.String()+" "+last.words())
		return nil, last.User == l.User
	}
	action := actions[mode]
	why, pending := l.held(s, last)
	switch {
	case pending:
		p.Moving = append(p.Moving, s.String()+" "+why)
		return nil, true
	case s.migrates(): // and its migration does not show yet
		p.Moving = append(p.Moving, s.String()+": "+text.Name(s.Task))
	case s.Task != "":
		p.Busy = append(p.Busy, s.String()+": "+text.Name(s.Task))
	case action == "":
		p.Stuck = append(p.Stuck, s.String()+" "+keeps(s, mode))
	case why != "":
		p.Failed = append(p.Failed, s.String()+" "+why)
	default:
		return &Call{Do: action, Server: s.ID, Name: s.String(), After: number(last)}, false
	}
	return nil, false
}

// broke reports whether a server is in the state error since Usher has had it moved: it stays by no policy, which is about servers that were so before.
func (l *Look) broke(s *Server, last *Migration) bool {
	return s.State == "error" && last != nil && last.failed() && last.Source == l.Host && last.User == l.User
}

// migrates reports whether the server's task is a part of moving it.
func (s *Server) migrates() bool {
	return s.Task == taskMigrating || strings.HasPrefix(s.Task, "resize_")
}

var actions = map[v1alpha1.ServerMode]Action{
	v1alpha1.ServerLiveMigrate: LiveMigrate, v1alpha1.ServerColdMigrate: ColdMigrate, v1alpha1.ServerConfirm: Confirm,
}

func number(m *Migration) int64 {
	if m == nil {
		return 0
	}
	return m.ID
}

// held says why a server is not asked for now: a try has failed not long ago, or what was asked for is pending and does not show yet.
func (l *Look) held(s *Server, last *Migration) (why string, pending bool) {
	ask, asked := l.Asked[s.ID]
	seen := last != nil && last.ID > ask.After
	switch {
	case asked && !seen && ask.Refused == "" && l.within(ask.Time, unseen):
		return "was asked for, and does not show yet", true
	case asked && !seen && ask.Refused != "" && l.within(ask.Time, Again):
		return fmt.Sprintf("is not moved: %s; asked for again at %s", ask.Refused, clock(ask.Time.Add(Again))), false
	case last != nil && last.Source == l.Host && last.failed() && l.within(last.Changed, Again):
		return fmt.Sprintf("%s; asked for again at %s", last.why(), clock(last.Changed.Add(Again))), false
	case asked && last != nil && last.Source == l.Host && last.failed() && l.within(ask.Time, Again): // Nova's clock and this one disagree
		return fmt.Sprintf("%s; asked for again at %s", last.why(), clock(ask.Time.Add(Again))), false
	}
	return "", false
}

// within reports whether something was less than so long ago. What lies far in the future was written by a clock that is set wrong.
func (l *Look) within(since time.Time, span time.Duration) bool {
	age := l.Now.Sub(since)
	return age < span && age > -span
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05Z") }

// why says how a migration has failed. Nova takes a request for a server that has nowhere to go, and says so nowhere but here.
func (m *Migration) why() string {
	switch {
	case m.Status == "cancelled":
		return fmt.Sprintf("stayed: migration %d was called off", m.ID)
	case m.Destination == "":
		return fmt.Sprintf("stayed: Nova found no valid host for it (migration %d: %s)", m.ID, m.Status)
	}
	return fmt.Sprintf("stayed: migration %d to %s has the status %s", m.ID, text.Name(m.Destination), m.Status)
}

func (m *Migration) words() string {
	to := ""
	if m.Destination != "" {
		to = " to " + text.Name(m.Destination)
	}
	return fmt.Sprintf("%s%s: migration %d is %s", text.Name(m.Kind), to, m.ID, text.Name(m.Status))
}

// addUnlisted adds servers that only the hypervisor has: one has come or gone between the two listings, or the account may not see all.
func (l *Look) addUnlisted(p *Plan) {
	for i := range p.Hypervisor.Servers {
		if s := &p.Hypervisor.Servers[i]; !l.x.listed[s.ID] {
			p.Servers = append(p.Servers, s.String()+" by the hypervisor's list alone")
			p.Left++
		}
	}
}

// addMigrations adds what is on its way to the host, and what has left it and may come back. It returns the moves that Usher has to confirm.
func (l *Look) addMigrations(p *Plan) (confirms []Call) {
	for i := range l.Migrations {
		m := &l.Migrations[i]
		name := "server " + text.Name(m.Server)
		switch {
		case m.InProgress() && m.Source != l.Host:
			p.Incoming = append(p.Incoming, fmt.Sprintf("%s %s", name, m.words()))
		case m.InProgress() && !l.x.listed[m.Server]:
			p.Moving = append(p.Moving, fmt.Sprintf("%s %s", name, m.words()))
		case m.Status != Finished || m.Source != l.Host || l.x.last[m.Server].ID != m.ID:
		case m.Kind == KindCold && m.User == l.User:
			confirms = append(confirms, Call{Do: Confirm, Server: m.Server, Name: name, After: m.ID})
			p.Moving = append(p.Moving, fmt.Sprintf("%s is on %s, which is to be confirmed", name, text.Name(m.Destination)))
		default:
			p.Unconfirmed = append(p.Unconfirmed, fmt.Sprintf("%s has left for %s, and may come back: openstack server resize confirm %s, or revert, ends that",
				name, text.Name(m.Destination), text.ShellWord(m.Server)))
		}
	}
	return confirms
}
