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
		if !shard.writableWithout(server) {
			needed = append(needed, shard.Name())
		}
	}
	return needed
}

// dropped: an answer that names no database at all is not one of a cluster without databases.
func (s *State) dropped(database string) bool {
	return len(s.Databases) > 0 && !slices.Contains(s.Databases, database)
}

// writableWithout: a write concern as high as the number of copies is taken for one less, since otherwise no server could
// ever be away.
func (s *Shard) writableWithout(server string) bool {
	var inSync []string
	for _, planned := range s.Plan {
		if slices.Contains(s.Current, bare(planned)) {
			inSync = append(inSync, bare(planned))
		}
	}
	holds := slices.Contains(inSync, server)
	if len(s.Plan) == 1 {
		return holds
	}
	concern := min(s.WriteConcern, max(s.Copies, len(s.Plan))-1)
	if holds {
		return len(inSync) > concern
	}
	return len(inSync) >= concern
}
