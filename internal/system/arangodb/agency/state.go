package agency

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Paths are what Parse needs of the agency, for one transaction of one read.
var Paths = []string{
	"/arango/Plan/Collections", "/arango/Plan/DBServers", "/arango/Plan/Coordinators",
	"/arango/Plan/Singles", "/arango/Plan/AsyncReplication", "/arango/Plan/Databases",
	"/arango/Current/Collections", "/arango/Current/ServersRegistered", "/arango/Current/MaintenanceDBServers",
	"/arango/Supervision/Health", "/arango/Supervision/Maintenance", "/arango/Supervision/DBServers",
	"/arango/Target/CleanedServers", "/arango/Target/ToBeCleanedServers", "/arango/Target/FailedServers",
	"/arango/Target/MapUniqueToShortID",
	"/arango/Target/ToDo", "/arango/Target/Pending", "/arango/Target/Finished", "/arango/Target/Failed",
}

// State is what one read of the agency says.
type State struct {
	// DBServers, Coordinators and Singles are the ids that are planned, sorted.
	DBServers, Coordinators, Singles []string
	// Cleaned, ToBeCleaned and Failed are ids of servers that get no shards.
	Cleaned, ToBeCleaned, Failed []string
	// InMaintenance and Held are ids of servers that take over no shard for now: their owner has said so, or a job is at work
	// on them.
	InMaintenance, Held []string
	// Databases are the names of those that are planned.
	Databases []string
	// Servers is what is known of each server, by id.
	Servers map[string]Server
	// Shards are all of Plan and Current, sorted by name.
	Shards []Shard
	// PlanKnown and CurrentKnown report whether the answer had any collections there. No cluster is without: its own are
	// in every one.
	PlanKnown, CurrentKnown bool
	// MaxReplication is the highest replication factor of a collection, satellites left out.
	MaxReplication int
	// Maintenance is set while the supervision does nothing: no failover, and no job makes progress.
	Maintenance bool
	// FailoverLeader leads an active failover deployment, "" if no server does or it is none.
	FailoverLeader string
	// Jobs are the supervision's, oldest first.
	Jobs []Job
}

// Server is what the agency knows of a server.
type Server struct {
	Status    string // the supervision's verdict: GOOD, BAD, FAILED; "" if it has none
	Endpoint  string // as servers speak to it: ssl://HOST:PORT
	ShortName string
}

// What the supervision finds of a server that answers it, and of one that has not for so long that others have taken over.
const (
	Good = "GOOD"
	Lost = "FAILED"
)

// root mirrors the tree as the agency answers it.
type root struct {
	Arango *struct {
		Plan struct {
			Collections      object[object[collection]]
			DBServers        object[json.RawMessage]
			Coordinators     object[json.RawMessage]
			Singles          object[json.RawMessage]
			AsyncReplication object[json.RawMessage]
			Databases        object[json.RawMessage]
		}
		Current struct {
			Collections          object[object[object[current]]]
			ServersRegistered    object[json.RawMessage]
			MaintenanceDBServers object[json.RawMessage]
		}
		Supervision struct {
			Health      object[health]
			Maintenance json.RawMessage
			DBServers   object[json.RawMessage]
		}
		Target struct {
			CleanedServers, ToBeCleanedServers list
			FailedServers                      object[json.RawMessage]
			MapUniqueToShortID                 object[shortName]
			ToDo, Pending, Finished, Failed    object[Job]
		}
	} `json:"arango"`
}

type collection struct {
	Name              string       `json:"name"`
	ReplicationFactor factor       `json:"replicationFactor"`
	WriteConcern      int          `json:"writeConcern"`
	MinReplication    int          `json:"minReplicationFactor"` // what versions before 3.6 call writeConcern
	Like              string       `json:"distributeShardsLike"`
	Shards            object[list] `json:"shards"`
}

type current struct {
	Servers    list  `json:"servers"`
	Candidates *list `json:"failoverCandidates"`
}

type health struct {
	Status, Endpoint, ShortName string
}

type shortName struct {
	ShortName string
}

// Parse reads the answer to one transaction: [{"arango": {…}}].
func Parse(data []byte) (*State, error) {
	var answers []root
	if err := json.Unmarshal(data, &answers); err != nil {
		return nil, fmt.Errorf("understanding the agency: %w", err)
	}
	if len(answers) != 1 || answers[0].Arango == nil {
		return nil, errors.New("understanding the agency: the answer has no tree /arango")
	}
	return answers[0].state()
}

func (r *root) state() (*State, error) {
	plan, target := &r.Arango.Plan, &r.Arango.Target
	s := &State{
		DBServers: ids(plan.DBServers), Coordinators: ids(plan.Coordinators), Singles: ids(plan.Singles),
		Cleaned: sorted(target.CleanedServers), ToBeCleaned: sorted(target.ToBeCleanedServers), Failed: ids(target.FailedServers),
		InMaintenance: ids(r.Arango.Current.MaintenanceDBServers), Held: ids(r.Arango.Supervision.DBServers), Databases: ids(plan.Databases),
		Servers:     map[string]Server{},
		PlanKnown:   len(plan.Collections) > 0,
		Maintenance: present(r.Arango.Supervision.Maintenance),
	}
	s.CurrentKnown = len(r.Arango.Current.Collections) > 0
	s.addServers(r)
	s.addShards(r)
	s.addJobs(r)
	return s, s.readLeader(plan.AsyncReplication["Leader"])
}

func (s *State) readLeader(raw json.RawMessage) error {
	if !present(raw) {
		return nil
	}
	if err := json.Unmarshal(raw, &s.FailoverLeader); err != nil {
		return fmt.Errorf("understanding Plan/AsyncReplication/Leader: %w", err)
	}
	return nil
}

func (s *State) addServers(r *root) {
	for id, name := range r.Arango.Target.MapUniqueToShortID {
		s.Servers[id] = Server{ShortName: name.ShortName}
	}
	for id, raw := range r.Arango.Current.ServersRegistered {
		// A counter named Version stands beside the servers.
		var registered struct {
			Endpoint string `json:"endpoint"`
		}
		if json.Unmarshal(raw, &registered) == nil && registered.Endpoint != "" {
			s.Servers[id] = Server{ShortName: s.Servers[id].ShortName, Endpoint: registered.Endpoint}
		}
	}
	for id, h := range r.Arango.Supervision.Health {
		known := s.Servers[id]
		known.Status = h.Status
		if h.Endpoint != "" {
			known.Endpoint = h.Endpoint
		}
		if h.ShortName != "" {
			known.ShortName = h.ShortName
		}
		s.Servers[id] = known
	}
}

func (s *State) addJobs(r *root) {
	target := &r.Arango.Target
	states := map[JobState]object[Job]{ToDo: target.ToDo, Pending: target.Pending, Finished: target.Finished, Failed: target.Failed}
	for state, jobs := range states {
		for id, job := range jobs {
			job.ID, job.State = id, state
			s.Jobs = append(s.Jobs, job)
		}
	}
	slices.SortFunc(s.Jobs, older)
}

// present reports whether a key has a value.
func present(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null"
}

func ids(o object[json.RawMessage]) []string { return slices.Sorted(maps.Keys(o)) }

func sorted(l list) []string { return slices.Sorted(slices.Values(l)) }

// bare strips the underscore that marks a leader that has been asked to resign: until another one stands in its place it
// is still responsible.
func bare(server string) string { return strings.TrimPrefix(server, "_") }

// timeOf reads one of the agency's times; zero where it is not one.
func timeOf(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
