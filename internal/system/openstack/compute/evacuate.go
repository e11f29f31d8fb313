package compute

import (
	"fmt"
	"slices"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Evacuate has Nova rebuild a server of a dead host on another one.
const Evacuate Action = "evacuate"

// KindEvacuation is that of a migration off a dead host.
const KindEvacuation = "evacuation"

// statusDone is that of an evacuation whose server runs elsewhere, until the host that it has left is back and has cleaned up: it is completed then.
const statusDone = "done"

// evacuationsAtOnce is how many servers are on their way off a dead host at the same time. Nova does not limit them.
const evacuationsAtOnce = 10

// Evacuation is what is done for a host that is proven off. Its lists are for people, an entry for each server.
type Evacuation struct {
	// Problem is why nothing can be said of the host; "": nothing is wrong.
	Problem string
	// Up: Nova hears of the host's service, which contradicts that it is off: nothing is asked for.
	Up bool
	// Force: its service is to be marked as down and disabled first. Nova puts nothing on it from then on, and takes evacuations off it.
	Force bool

	Left   int      // servers that have to be brought back elsewhere
	Stay   []string // the policy lets them stay
	Moving []string // they are being rebuilt elsewhere
	Failed []string // the last try has failed, and the next is to come
	Stuck  []string // they are not evacuated, with what a person can do
	// Next is what to ask for now.
	Next []Call
}

// Evacuate decides what is next for a host that is proven off, of which evacuations up to after were of an earlier loss. A server is asked for once, and again
// only after its evacuation was seen to fail: Nova takes a second request during the first, and rebuilds what has moved already.
func (l *Look) Evacuate(after int64) Evacuation {
	l.reindex(after)
	own, problem := l.hypervisor()
	if problem != "" {
		return Evacuation{Problem: problem}
	}
	e := Evacuation{Up: own.Up, Force: !own.Forced || own.Enabled}
	if e.Up {
		return e
	}
	var next []Call
	for i := range l.Servers {
		if call := l.evacuate(&e, &l.Servers[i]); call != nil {
			next = append(next, *call)
		}
	}
	if free := evacuationsAtOnce - len(e.Moving); free > 0 && !e.Force && l.others() > 0 {
		e.Next = next[:min(free, len(next))]
	}
	return e
}

// evacuate puts a server into the lists, and returns what is to be asked for it, nil for nothing.
func (l *Look) evacuate(e *Evacuation, s *Server) *Call {
	mode := l.mode(s)
	if mode == v1alpha1.ServerStay && !l.evacuationFailed(s.ID) {
		e.Stay = append(e.Stay, s.String()+" "+s.State)
		return nil
	}
	e.Left++
	last := l.x.evacuation[s.ID]
	why, pending := l.held(s, last)
	live := l.arriving(s, last)
	switch {
	case last != nil && last.InProgress() && l.isDown(last.Destination):
		e.Stuck = append(e.Stuck, s.String()+" "+last.neverArrives(s))
	case last != nil && last.evacuates():
		e.Moving = append(e.Moving, s.String()+" "+last.words())
	case pending:
		e.Moving = append(e.Moving, s.String()+" "+why)
	case live != nil:
		e.Stuck = append(e.Stuck, s.String()+" "+live.mayRun(s))
	case slices.Contains(brought, s.Task):
		e.Stuck = append(e.Stuck, s.String()+" "+wasBrought(s))
	case mode == v1alpha1.ServerBlock && last == nil && (s.State != "error" || !l.evacuationFailed(s.ID)) || !slices.Contains(evacuable, s.State):
		e.Stuck = append(e.Stuck, s.String()+" "+staysOnDead(s))
	case why != "":
		e.Failed = append(e.Failed, s.String()+" "+why)
	default:
		return &Call{Do: Evacuate, Server: s.ID, Name: s.String(), After: number(last)}
	}
	return nil
}

// evacuable are the states of servers that Nova evacuates, whatever is being done with them: on a dead host that hangs.
var evacuable = []string{"active", "stopped", "error"}

// evacuates reports whether an evacuation is under way, or done while its server's host is yet to change.
func (m *Migration) evacuates() bool { return m.InProgress() || m.Status == statusDone }

// isDown reports whether a host does not report to Nova. Of one that Nova does not have nothing is known.
func (l *Look) isDown(host string) bool {
	return slices.ContainsFunc(l.Hypervisors, func(h Hypervisor) bool { return h.Host == host && !h.Up })
}

// neverArrives says why an evacuation does not end, and what a person can do about it.
func (m *Migration) neverArrives(s *Server) string {
	to := text.Name(m.Destination)
	return fmt.Sprintf("is being rebuilt on %s (migration %d is %s), which does not report to Nova either: bring its nova-compute back, or see that %s is off, then openstack server evacuate %s",
		to, m.ID, text.Name(m.Status), to, text.ShellWord(s.ID))
}

// evacuationFailed reports whether the last evacuation of a server off the host has failed. That puts it into the state error, in which it may be for no other
// reason: it stays, and is blocked, by no policy.
func (l *Look) evacuationFailed(server string) bool {
	last := l.x.evacuated[server]
	return last != nil && last.failed()
}

// KindLive is that of a migration of a server that runs, StatusRunning that of one whose memory is on its way.
const (
	KindLive      = "live-migration"
	StatusRunning = "running"
)

// arriving is the live migration of a server that was under way when the host died, nil if there was none. That the host is off does not prove that the server
// does not run: between its start at the destination and Nova's change of its host, and task, there are seconds. One without the task has been left running by a
// nova-compute that has started anew since. Who evacuates it after that has looked.
func (l *Look) arriving(s *Server, evacuation *Migration) *Migration {
	if m := l.x.live[s.ID]; m != nil && s.Task == taskMigrating && m.ID > number(evacuation) {
		return m
	}
	return nil
}

// arrives reports whether something of a live migration may have arrived at its destination.
func (m *Migration) arrives() bool {
	return m.InProgress() && m.Destination != "" && !slices.Contains(waiting, m.Status)
}

// taskMigrating is the task of a server while it is live-migrated.
const taskMigrating = "migrating"

// waiting are the statuses of a live migration of which nothing has arrived anywhere.
var waiting = []string{"accepted", statusQueued, statusPreparing}

// mayRun says why a server that was being moved is not evacuated, and what a person can do about it.
func (m *Migration) mayRun(s *Server) string {
	return fmt.Sprintf("may run on %s already, to which migration %d was moving it: see on that host that it does not (virsh list --all), then openstack server set --state active %s",
		text.Name(m.Destination), m.ID, text.ShellWord(s.ID))
}

// brought are the tasks of a server that a cold migration, or a resize, had brought to the host when that died, and that had not started there. The host that it came
// from has its disk yet, and rebuilt from an image it would have an empty one.
var brought = []string{"resize_migrated", "resize_finish"}

// wasBrought says why such a server is not evacuated, and what a person can do about it.
func wasBrought(s *Server) string {
	return fmt.Sprintf("was being brought here by a cold migration or a resize (%s), and the host that it came from has its disk yet: bring this host back; where disks are on shared storage, openstack server set --state active %s has it evacuated",
		text.Name(s.Task), text.ShellWord(s.ID))
}

// staysOnDead says why a server stays on a dead host, and what a person can do about it.
func staysOnDead(s *Server) string {
	id := text.ShellWord(s.ID)
	switch s.State {
	case "active", "stopped", "error":
		return fmt.Sprintf("is %s, and servers.%s of the policy is Block: openstack server evacuate %s, or let the policy move such servers", s.State, s.State, id)
	case "suspended", "paused":
		return fmt.Sprintf("is %s, its memory is lost with the host, and Nova evacuates no such server: openstack server set --state active %s has it evacuated", s.State, id)
	case "soft-delete":
		return "is deleted: openstack server delete --force " + id
	}
	return fmt.Sprintf("is %s, and Nova evacuates no such server: openstack server set --state active %s has it evacuated", text.Name(s.State), id)
}

// Return is how a host that was evacuated is given back.
type Return struct {
	// Unforce: its service is no longer to be marked as down, which comes before it is enabled.
	Unforce bool
	// Runs is what is left to end by itself.
	Runs []string
	// Left is what stays as it is, and what a person can do about it.
	Left string
}

// Return gives a host back that was evacuated and is there again, by evacuations after one and by all that are under way. Nova takes it only once the host's own nova-compute has started and has cleaned up what is
// left there of servers that run elsewhere by now.
func (l *Look) Return(after int64) Return {
	own := l.Own()
	if own == nil {
		return Return{} // a service that was deleted is not marked as down any more
	}
	r := Return{Unforce: own.Forced}
	var left []string
	for i := range l.Migrations {
		m := &l.Migrations[i]
		if m.Source != l.Host || m.Kind != KindEvacuation || m.ID <= after && !m.evacuates() || m.failed() {
			continue
		}
		switch name := "server " + text.Name(m.Server); m.Status {
		case statusCompleted:
			left = append(left, text.Name(m.Server)+" (on "+text.Name(m.Destination)+")")
		case statusDone:
			r.Runs = append(r.Runs, fmt.Sprintf("%s has left for %s, and nova-compute on %s has to start and to clean up what is left of it there", name, text.Name(m.Destination), text.Name(l.Host)))
		default:
			r.Runs = append(r.Runs, name+" "+m.words())
		}
	}
	if len(left) > 0 {
		r.Left = fmt.Sprintf("servers that were evacuated off %s stay where they are: %s", text.Name(l.Host), text.List(left, 5))
	}
	return r
}
