package agency

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Shard is one shard of a collection.
type Shard struct {
	Database, Collection, ID string
	// Plan are the servers that shall hold it, the leader first.
	Plan []string
	// Current are the servers that hold all of it, the leader first, as the leader reports; Reported: it has.
	Current  []string
	Reported bool
}

// Name is DATABASE/COLLECTION/SHARD.
func (s Shard) Name() string { return s.Database + "/" + s.Collection + "/" + s.ID }

// shardKey is a shard's place in the tree: database, id of the collection, id.
type shardKey [3]string

func (s *State) addShards(r *root) {
	shards := map[shardKey]Shard{}
	s.addPlanned(r, shards)
	addCurrent(r, shards)
	s.Shards = slices.SortedFunc(maps.Values(shards), func(a, b Shard) int { return strings.Compare(a.Name(), b.Name()) })
}

func (s *State) addPlanned(r *root, shards map[shardKey]Shard) {
	for db, collections := range r.Arango.Plan.Collections {
		for id, c := range collections {
			s.MaxReplication = max(s.MaxReplication, int(c.ReplicationFactor))
			for shard, servers := range c.Shards {
				shards[shardKey{db, id, shard}] = Shard{Database: db, Collection: cmp.Or(c.Name, id), ID: shard, Plan: servers}
			}
		}
	}
}

func addCurrent(r *root, shards map[shardKey]Shard) {
	for db, collections := range r.Arango.Current.Collections {
		for id, reported := range collections {
			for shard, c := range reported {
				key := shardKey{db, id, shard}
				known, planned := shards[key]
				if !planned {
					known = Shard{Database: db, Collection: id, ID: shard}
				}
				known.Current, known.Reported = c.Servers, true
				shards[key] = known
			}
		}
	}
}

// Usage is what a server has to do with shards, each list sorted by name.
type Usage struct {
	Planned []string // those that Plan puts on it
	Current []string // those that Current says it holds
	Leads   []string // those that it leads by Plan or by Current
	// Alone are those which it leads or holds in sync and no other server could take over at once, each with the reason.
	Alone []string
}

// Usage returns what a server has to do with shards.
func (s *State) Usage(server string) Usage {
	var u Usage
	for _, shard := range s.Shards {
		holds := slices.ContainsFunc(shard.Current, is(server))
		leading := leads(shard.Plan, server) || leads(shard.Current, server)
		if slices.ContainsFunc(shard.Plan, is(server)) {
			u.Planned = append(u.Planned, shard.Name())
		}
		if holds {
			u.Current = append(u.Current, shard.Name())
		}
		if leading {
			u.Leads = append(u.Leads, shard.Name())
		}
		if why := s.alone(shard, server); why != "" && (holds || leading) {
			u.Alone = append(u.Alone, fmt.Sprintf("%s (%s)", shard.Name(), why))
		}
	}
	return u
}

func leads(servers []string, server string) bool {
	return len(servers) > 0 && bare(servers[0]) == server
}

func is(server string) func(string) bool {
	return func(other string) bool { return bare(other) == server }
}

// alone says why no other server could take the shard over at once, "" if one could: it is planned, in sync, and the
// supervision finds it good.
func (s *State) alone(shard Shard, server string) string {
	if !shard.Reported {
		return "its state is not reported yet"
	}
	why := "no other server is planned for it"
	for _, planned := range shard.Plan {
		other := bare(planned)
		if other == server {
			continue
		}
		// One that has resigned stands in Current with an underscore and does not count: it takes no writes.
		switch inSync, status := slices.Contains(shard.Current, other), s.Servers[other].Status; {
		case !inSync:
			why = other + " is not in sync"
		case status == Good:
			return ""
		default:
			why = fmt.Sprintf("%s is %s", other, cmp.Or(status, "of unknown health"))
		}
	}
	return why
}

// Room returns how many servers could hold shards if this one may not, and how many the collections need at least.
func (s *State) Room(server string) (left, needed int) {
	for _, other := range s.DBServers {
		if other != server && !slices.Contains(s.Cleaned, other) && !slices.Contains(s.ToBeCleaned, other) && !slices.Contains(s.Failed, other) {
			left++
		}
	}
	return left, max(s.MaxReplication, 1)
}
