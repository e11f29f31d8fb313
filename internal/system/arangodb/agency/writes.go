package agency

import "slices"

// NeededForWrites are the shards that could take no writes while this server is away, sorted by name. Those of databases that
// are not planned any more do not count, and neither do those that are planned on this server alone: there the owner has
// chosen one copy.
func (s *State) NeededForWrites(server string) []string {
	var needed []string
	for i := range s.Shards {
		shard := &s.Shards[i]
		if s.dropped(shard.Database) || !slices.ContainsFunc(shard.Plan, is(server)) {
			continue
		}
		if !s.writableWithout(shard, server) {
			needed = append(needed, shard.Name())
		}
	}
	return needed
}

// dropped: an answer that names no database at all is not one of a cluster without databases.
func (s *State) dropped(database string) bool {
	return len(s.Databases) > 0 && !slices.Contains(s.Databases, database)
}

// writableWithout: the others must be good, since one that has failed stands in sync until the next write. A write concern as
// high as the number of copies is taken for one less, since otherwise no server could ever be away.
func (s *State) writableWithout(shard *Shard, server string) bool {
	holds, others := false, 0
	for _, planned := range shard.Plan {
		switch other := bare(planned); {
		case !slices.Contains(shard.Current, other):
		case other == server:
			holds = true
		case s.Servers[other].Status == Good:
			others++
		}
	}
	if len(shard.Plan) == 1 {
		return holds
	}
	return others >= min(shard.WriteConcern, max(shard.Copies, len(shard.Plan))-1)
}
