package arangodb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/arangodb/agency"
)

// availability is what a server of an active failover deployment says of itself.
type availability string

const (
	silent    availability = "does not answer"
	leading   availability = "takes writes"
	following availability = "takes no writes"
)

// clusterView is everything that was seen at one time. What is below is a function of it alone.
type clusterView struct {
	single       bool // a single server: there is nothing else to see
	agents       agency.Agents
	via          map[string]string // the agents' URLs, by id
	silent       []string
	foreign      int           // addresses at which agents of another deployment answer
	state        *agency.State // nil if agents.Problem is set
	availability map[string]availability
}

// evidence makes facts of what was seen, about the members asked for.
func (s *clusterView) evidence(members []system.Member) *eviction.Evidence {
	found := &eviction.Evidence{System: s.systemFacts(), Members: map[string]expression.Facts{}, Summary: s.summary()}
	for _, member := range members {
		if facts, known := s.memberFacts(member.ID); known {
			found.Members[member.ID] = facts
		}
	}
	return found
}

func (s *clusterView) systemFacts() expression.Facts {
	facts := expression.Facts{"mode": s.mode(), "agencyProblem": s.agencyProblem()}
	if s.single {
		facts["agencyProblem"] = ""
		return facts
	}
	facts["agents"], facts["agentsAnswering"] = int64(s.agents.Size), int64(len(s.agents.Answered))
	facts["agencyQuorum"] = int64(s.agents.Quorum)
	if s.agents.Problem == "" {
		facts["agencyLeader"] = s.agents.Leader
	}
	if s.state == nil {
		return facts
	}
	facts["maintenance"] = s.state.Maintenance
	switch facts["mode"] {
	case modeFailover:
		facts["failoverLeader"], facts["failoverProblem"] = s.state.FailoverLeader, s.failoverProblem()
	case modeCluster:
		facts["dbservers"] = int64(len(s.state.DBServers))
		facts["cleanedOut"] = slices.Clone(s.state.Cleaned)
	}
	return facts
}

const (
	modeSingle   = "Single"
	modeCluster  = "Cluster"
	modeFailover = "ActiveFailover"
	modeUnknown  = "Unknown"
)

func (s *clusterView) mode() string {
	switch {
	case s.single:
		return modeSingle
	case s.state == nil:
		return modeUnknown
	case len(s.state.Singles) > 0 || s.state.FailoverLeader != "":
		return modeFailover
	}
	return modeCluster
}

// agencyProblem says why nothing can be built on the agency, with the word of those that do not answer.
func (s *clusterView) agencyProblem() string {
	if s.agents.Problem == "" || len(s.silent) == 0 {
		return s.agents.Problem
	}
	return s.agents.Problem + "; " + strings.Join(s.silent, "; ")
}

// failoverProblem says why the leader of an active failover deployment is not certain, "" if it is: the agency names one, that
// one takes writes, and no other does.
func (s *clusterView) failoverProblem() string {
	leader := s.state.FailoverLeader
	if leader == "" {
		return "the agency names no leader of the active failover deployment"
	}
	for _, id := range slices.Sorted(maps.Keys(s.availability)) {
		if id != leader && s.availability[id] == leading {
			return fmt.Sprintf("%s takes writes, and the agency says that %s leads", id, leader)
		}
	}
	if said := cmp.Or(s.availability[leader], silent); said != leading {
		return fmt.Sprintf("the agency says that %s leads, and it %s", leader, said)
	}
	return ""
}

func (s *clusterView) summary() string {
	if s.single {
		return "a single server"
	}
	parts := []string{fmt.Sprintf("%d of %d agents answer", len(s.agents.Answered), s.agents.Size)}
	if s.foreign > 0 {
		parts = append(parts, fmt.Sprintf("%d addresses lead to another agency and are left out", s.foreign))
	}
	if s.agents.Problem != "" {
		return strings.Join(append(parts, s.agencyProblem()), ", ")
	}
	parts = append(parts, "leader "+s.agents.Leader)
	if s.mode() == modeFailover {
		return strings.Join(append(parts, fmt.Sprintf("%d single servers", len(s.state.Singles)), "led by "+cmp.Or(s.state.FailoverLeader, "none")), ", ")
	}
	parts = append(parts, fmt.Sprintf("%d dbservers", len(s.state.DBServers)), fmt.Sprintf("%d shards", len(s.state.Shards)))
	if cleaned := len(s.state.Cleaned); cleaned > 0 {
		parts = append(parts, fmt.Sprintf("%d cleaned out", cleaned))
	}
	if s.state.Maintenance {
		parts = append(parts, "supervision in maintenance")
	}
	return strings.Join(parts, ", ")
}
