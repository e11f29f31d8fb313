package compute

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/text"
)

// Undo is how what was begun for a host is taken back.
type Undo struct {
	// Service is the one to enable; "": none.
	Service string
	// Next is what to ask for now.
	Next []Call
	// Runs is what is left to end by itself.
	Runs []string
	// Left is what stays as it is, and what a person can do about it.
	Left string
}

// Done reports whether nothing is left to ask or to wait for.
func (u *Undo) Done() bool { return u.Service == "" && len(u.Next) == 0 && len(u.Runs) == 0 }

// Undo takes back what was begun after a migration: what waits in Nova is called off, what runs ends by itself, since its server is safe in
// either place, and what has moved stays. The service is enabled if Usher has disabled it.
func (l *Look) Undo(after int64, isUshers func(reason string) bool) Undo {
	l.reindex(after)
	own := l.Own()
	if own == nil {
		return Undo{} // a service that was deleted is not disabled any more
	}
	var u Undo
	var left []string
	if !own.Enabled && isUshers(own.Reason) {
		u.Service = own.Service
	}
	for i := range l.Migrations {
		m := &l.Migrations[i]
		if m.Source != l.Host || m.User != l.User || m.ID <= after {
			continue
		}
		call := Call{Server: m.Server, Name: "server " + text.Name(m.Server), Migration: m.ID, After: m.ID}
		switch {
		case m.Status == statusQueued || m.Status == statusPreparing:
			call.Do = Abort
			u.Next = append(u.Next, call)
		case m.InProgress():
			u.Runs = append(u.Runs, call.Name+" "+m.words())
		case m.Kind == KindCold && m.Status == Finished && l.x.last[m.Server].ID == m.ID:
			call.Do = Confirm
			u.Next = append(u.Next, call)
		case m.Status == statusCompleted || m.Status == statusConfirmed:
			left = append(left, text.Name(m.Server)+" (on "+text.Name(m.Destination)+")")
		}
	}
	if len(left) > 0 {
		u.Left = fmt.Sprintf("servers that have left %s stay where they are: %s; one is brought back by hand: openstack --os-compute-api-version 2.56 server migrate --host %s SERVER, with --live-migration if it runs",
			text.Name(l.Host), text.List(left, 5), text.ShellWord(l.Host))
	}
	if !own.Enabled && u.Service == "" && own.Reason != "" {
		u.Left = strings.Trim(u.Left+fmt.Sprintf("; its service stays disabled, for another reason than this policy's (%s): openstack compute service set --enable %s nova-compute",
			text.Cut(text.Line(own.Reason), 160), text.ShellWord(l.Host)), "; ")
	}
	return u
}
