package agency

import (
	"cmp"
	"slices"
)

// families are the shards that change their leader together, by their kinship.
func (s *State) families() map[kinship][]*Shard {
	all := map[kinship][]*Shard{}
	for i := range s.Shards {
		shard := &s.Shards[i]
		if shard.kin != (kinship{}) {
			all[shard.kin] = append(all[shard.kin], shard)
		}
	}
	return all
}

// alone says why no other server could take the shard over at once, "" if one could. It asks for what the supervision asks
// for before it makes a follower the leader, and for a follower that is in sync by the leader's own word.
func (s *State) alone(shard *Shard, kin []*Shard, server string) string {
	if !shard.Reported {
		return "its state is not reported yet"
	}
	why := "no other server is planned for it"
	for _, planned := range shard.Plan {
		other := bare(planned)
		if other == server {
			continue
		}
		why = cmp.Or(shard.obstacle(other), obstacleInKin(shard, kin, other), s.obstacle(other))
		if why == "" {
			return ""
		}
	}
	return why
}

// obstacle says what keeps a server that is planned for the shard from leading it, "" if nothing does. One that has resigned
// stands in Current with an underscore and does not count: it takes no writes.
func (s *Shard) obstacle(other string) string {
	switch {
	case !slices.Contains(s.Current, other):
		return other + " is not in sync"
	case s.Candidates != nil && !slices.Contains(s.Candidates, other):
		return other + " is in sync and may not take over yet"
	}
	return ""
}

// obstacleInKin: a leader must lead all that is distributed alike. What no server has reported on yet keeps no server back
// from the rest.
func obstacleInKin(shard *Shard, kin []*Shard, other string) string {
	for _, sibling := range kin {
		if sibling == shard || !sibling.Reported || len(sibling.Plan) == 0 {
			continue
		}
		if !slices.ContainsFunc(sibling.Plan, is(other)) || sibling.obstacle(other) != "" {
			return other + " could not lead " + sibling.Name() + ", which is distributed alike"
		}
	}
	return ""
}

// obstacle says what keeps a server from leading anything more, "" if nothing does.
func (s *State) obstacle(other string) string {
	switch status := s.Servers[other].Status; {
	case status != Good:
		return other + " is " + cmp.Or(status, "of unknown health")
	case slices.Contains(s.InMaintenance, other):
		return other + " is in maintenance"
	case slices.Contains(s.Held, other):
		return other + " is held by a job of the supervision"
	}
	return ""
}
