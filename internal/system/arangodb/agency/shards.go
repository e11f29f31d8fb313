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
	// Candidates are those of Current that may take over, where the leader says so; nil: it does not, and all may.
	Candidates []string
	// WriteConcern is how many servers a write must reach, as its collection says; Copies is the replication factor, 0: not
	// said, or one on every server.
	WriteConcern, Copies int

	// kin are the shards at the same place in collections that are distributed alike: they change their leader together.
	kin kinship
}

// Name is DATABASE/COLLECTION/SHARD.
func (s *Shard) Name() string { return s.Database + "/" + s.Collection + "/" + s.ID }

// kinship is a database, the collection that others are distributed like, and a shard's place in it.
type kinship struct {
	database, like string
	place          int
}

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
			for place, shard := range c.inOrder() {
				shards[shardKey{db, id, shard}] = Shard{
					Database: db, Collection: cmp.Or(c.Name, id), ID: shard, Plan: c.Shards[shard],
					WriteConcern: cmp.Or(c.WriteConcern, c.MinReplication, 1), Copies: int(c.ReplicationFactor),
					kin: kinship{db, cmp.Or(c.Like, id), place},
				}
			}
		}
	}
}

// inOrder are a collection's shards by the number in their ids, which is how ArangoDB finds those of other collections that
// belong to them.
func (c *collection) inOrder() []string {
	return slices.SortedFunc(maps.Keys(c.Shards), func(a, b string) int {
		return cmp.Or(cmp.Compare(number(strings.TrimPrefix(a, "s")), number(strings.TrimPrefix(b, "s"))), strings.Compare(a, b))
	})
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
				if c.Candidates != nil {
					known.Candidates = *c.Candidates
				}
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
	kin := s.families()
	for i := range s.Shards {
		shard := &s.Shards[i]
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
		if !holds && !leading {
			continue
		}
		if why := s.alone(shard, kin[shard.kin], server); why != "" {
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

// Room returns how many servers could hold shards if this one may not, and how many the collections need at least.
func (s *State) Room(server string) (left, needed int) {
	for _, other := range s.DBServers {
		if other != server && !slices.Contains(s.Cleaned, other) && !slices.Contains(s.ToBeCleaned, other) && !slices.Contains(s.Failed, other) {
			left++
		}
	}
	return left, max(s.MaxReplication, 1)
}
