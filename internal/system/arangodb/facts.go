package arangodb

import (
	"slices"

	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system/arangodb/agency"
)

// memberFacts returns what is known of a member; false: the deployment does not know it, or could mean several by its id.
// While the agency cannot be asked that is unknown, and the member is there without facts, so that the rule that speaks of
// the agency says what is wrong.
func (s *clusterView) memberFacts(id string) (expression.Facts, bool) {
	if s.single {
		return expression.Facts{}, true
	}
	server, known := s.resolve(id)
	if !known {
		return expression.Facts{}, s.state == nil
	}
	facts := expression.Facts{"server": server}
	if _, agent := s.agents.Pool[server]; agent {
		s.addAgent(facts, server)
		return facts, true
	}
	if s.state != nil {
		s.addServer(facts, server)
	}
	return facts, true
}

func (s *clusterView) addAgent(facts expression.Facts, id string) {
	facts["agentAnswers"] = slices.Contains(s.agents.Answered, id)
	if s.agents.Problem != "" {
		return
	}
	facts["agencyLeader"] = id == s.agents.Leader
	followers := slices.DeleteFunc(slices.Clone(s.agents.Following), func(other string) bool { return other == s.agents.Leader })
	facts["followersWithout"] = int64(agency.Without(followers, id))
	facts["agentsWithout"] = int64(agency.Without(s.agents.Following, id))
	facts["copiesWithout"] = int64(agency.Without(s.agents.Holding, id))
}

func (s *clusterView) addServer(facts expression.Facts, id string) {
	if status := s.state.Servers[id].Status; status != "" {
		facts["health"] = status
	}
	switch {
	case slices.Contains(s.state.Singles, id) && s.mode() == modeFailover:
		facts["failoverLeader"] = id == s.state.FailoverLeader
		facts["takesWrites"] = string(s.availability[id])
	case slices.Contains(s.state.DBServers, id):
		s.addShards(facts, id)
		addJob(facts, "cleanOut", s.state.Job(agency.CleanOutServer, id))
		addJob(facts, "resign", s.state.Job(agency.ResignLeadership, id))
		left, needed := s.state.Room(id)
		facts["room"], facts["roomNeeded"] = int64(left), int64(needed)
	}
}

// addShards leaves out what an answer without collections cannot say: such an answer is not an empty cluster.
func (s *clusterView) addShards(facts expression.Facts, id string) {
	cleaned := slices.Contains(s.state.Cleaned, id)
	facts["cleaned"] = cleaned
	facts["toBeCleaned"] = slices.Contains(s.state.ToBeCleaned, id)
	if !s.state.PlanKnown || !s.state.CurrentKnown {
		return
	}
	use := s.state.Usage(id)
	facts["shards"], facts["shardsHeld"] = list(use.Planned), list(use.Current)
	facts["leads"], facts["onlyHere"] = list(use.Leads), list(use.Alone)
	facts["neededForWrites"] = list(s.state.NeededForWrites(id))
	unused := len(use.Planned) == 0 && len(use.Current) == 0
	facts["drained"] = cleaned && unused
	facts["empty"] = unused && (cleaned || s.state.Servers[id].Status == agency.Lost)
}

// list is never nil, which would be a fact of another type.
func list(names []string) []string { return append([]string{}, names...) }

func addJob(facts expression.Facts, name string, job agency.Job) {
	facts[name] = string(job.State)
	if job.State == agency.NoJob {
		return
	}
	facts[name+"Job"] = job.ID
	facts[name+"Reason"] = job.Reason
	if ended := job.Ended(); !ended.IsZero() {
		facts[name+"Ended"] = ended
	}
}

// resolve finds a server by what a policy calls it: its own id, its short name, or the first label of its host name, which
// is the pod's name in a StatefulSet. What could be several is none; of several that have all failed those count that have data, and where none has, it is
// any of them: each pod of a coordinator without a volume leaves one behind.
func (s *clusterView) resolve(id string) (string, bool) {
	found := s.candidates(id)
	if len(found) > 1 {
		if needed := slices.DeleteFunc(slices.Clone(found), s.spent); len(needed) > 0 {
			found = needed
		} else {
			found = found[len(found)-1:]
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

// candidates are the servers that an id may mean. One that has failed gives way to another at the same address: a disk was
// lost there, and the server that speaks now has a new id.
func (s *clusterView) candidates(id string) []string {
	all := s.servers()
	if _, exact := all[id]; exact {
		return []string{id}
	}
	var found []string
	for server, known := range all {
		if id != "" && (known.ShortName == id || firstLabel(known.Endpoint) == id) {
			found = append(found, server)
		}
	}
	slices.Sort(found)
	if present := slices.DeleteFunc(slices.Clone(found), func(server string) bool { return all[server].Status == agency.Lost }); len(present) > 0 || len(found) == 0 {
		return present
	}
	return found
}

// spent reports whether a server has failed and has nothing that could be lost: a coordinator, a dbserver without shards by plan or in fact, or a single
// server that does not lead.
func (s *clusterView) spent(server string) bool {
	switch {
	case s.state == nil || s.agents.Pool[server] != "" || s.state.Servers[server].Status != agency.Lost:
		return false
	case slices.Contains(s.state.DBServers, server):
		use := s.state.Usage(server)
		return s.state.PlanKnown && s.state.CurrentKnown && len(use.Planned)+len(use.Current) == 0
	}
	return server != s.state.FailoverLeader
}

// servers are all agents and all servers that are planned.
func (s *clusterView) servers() map[string]agency.Server {
	all := map[string]agency.Server{}
	if s.state != nil {
		for _, id := range slices.Concat(s.state.DBServers, s.state.Coordinators, s.state.Singles) {
			all[id] = s.state.Servers[id]
		}
	}
	for id, endpoint := range s.agents.Pool {
		all[id] = agency.Server{Endpoint: endpoint}
	}
	return all
}
