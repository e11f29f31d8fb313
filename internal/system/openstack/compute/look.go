package compute

import (
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Look is what Nova says of one host, and what is known beside that.
type Look struct {
	Now  time.Time
	Host string
	// Hypervisors are all of the region.
	Hypervisors []Hypervisor
	// Listed: Servers and Migrations were asked for. They are of hosts that get no new servers only: others may have other ones a moment later.
	Listed bool
	// Servers are on the host.
	Servers []Server
	// Migrations have the host as source or destination.
	Migrations []Migration
	// User is the account in which Usher asks: a migration in its name is Usher's.
	User string
	// Asked is what was asked of servers by this process, by their ids.
	Asked map[string]Ask
	// Modes say what is done with servers by their states. AtOnce is how many of them leave at the same time.
	Modes  v1alpha1.ServersByState
	AtOnce int

	x *index
}

// Hypervisor is one of Nova's, with the service that runs it.
type Hypervisor struct {
	// Service is the id of the service, Host its host.
	Service, Host string
	// Up: the service reports to Nova. Enabled: it gets servers; Reason is why it does not.
	Up, Enabled bool
	Reason      string
	// Forced: the service is marked as down, whatever it reports. It is looked up for hosts that are not up only.
	Forced bool
	// Servers are on it, without their states.
	Servers []Server
}

// Server is one of Nova's.
type Server struct {
	ID, Name string
	// State is its vm_state: active, paused, stopped, suspended, error, resized and others. Task is what is being done with it; "": nothing.
	State, Task string
}

func (s *Server) String() string {
	if s.Name == "" {
		return text.Name(s.ID)
	}
	return text.Name(s.Name) + " (" + text.Name(s.ID) + ")"
}

// Migration is how a server leaves a host.
type Migration struct {
	// ID is greater than those of all migrations before. Usher knows no other order of them.
	ID     int64
	Server string // id
	// Kind is live-migration, migration (cold), resize or evacuation.
	Kind   string
	Status string
	// Destination is "" where the scheduler has found none, or has not looked yet.
	Source, Destination string
	// User is the account that has asked for it.
	User string
	// Changed is when Nova changed it last.
	Changed time.Time
}

// The kinds of migration that are looked at one by one, and the statuses.
const (
	KindCold = "migration"
	Finished = "finished"

	statusQueued    = "queued"
	statusPreparing = "preparing"
	statusCompleted = "completed"
	statusConfirmed = "confirmed"
)

// ended are the statuses of a migration that does nothing any more, failed those in which the server stayed. An evacuation is done while its
// server is elsewhere already.
var (
	failed = []string{"error", "failed", "cancelled"}
	ended  = append([]string{statusCompleted, statusConfirmed, "reverted", "done"}, failed...)
)

// InProgress reports whether something is still being done. A status that is not known here is in progress.
func (m *Migration) InProgress() bool {
	return m.Status != Finished && !slices.Contains(ended, m.Status)
}

func (m *Migration) failed() bool { return slices.Contains(failed, m.Status) }

// Ask is a request about a server, as this process knows it.
type Ask struct {
	// Time is when it was sent.
	Time time.Time
	// After is the last migration of the server that was known then.
	After int64
	// Refused is what Nova said; "": it has accepted the request, or it is not known whether the request arrived.
	Refused string
}

const (
	// Again is how long after a server could not be moved it is tried again.
	Again = 5 * time.Minute
	// unseen is how long a request that was accepted, or whose answer was lost, may take to show.
	unseen = time.Minute
)
