package agency

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config is what one agent says of itself and of the agency.
type Config struct {
	ID     string
	Leader string // "" if it knows none
	// Term grows with every election.
	Term uint64
	// Commit is the newest entry that it knows to be on a majority.
	Commit uint64
	// Acked is what each agent has acknowledged last; only the leader's answer has it.
	Acked map[string]Ack
	// Patience is for how many seconds a follower without contact stays with its leader, at least.
	Patience float64
	Size     int               // how many agents the agency has
	Pool     map[string]string // endpoints by id
}

// Ack is an agent's last acknowledgement to its leader.
type Ack struct {
	Index uint64  `json:"lastAckedIndex"` // the newest entry on its disk
	Age   float64 `json:"lastAckedTime"`  // seconds since then
}

// ParseConfig reads the answer to GET /_api/agency/config.
func ParseConfig(data []byte) (Config, error) {
	var answer struct {
		LeaderID      string      `json:"leaderId"`
		Term          uint64      `json:"term"`
		CommitIndex   uint64      `json:"commitIndex"`
		LastAcked     object[Ack] `json:"lastAcked"`
		Configuration struct {
			ID         string         `json:"id"`
			Pool       object[string] `json:"pool"`
			Size       int            `json:"agency size"`
			MinPing    float64        `json:"min ping"`
			Multiplier float64        `json:"timeoutMult"`
		} `json:"configuration"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return Config{}, fmt.Errorf("understanding an agent's configuration: %w", err)
	}
	own := answer.Configuration
	if own.ID == "" || max(own.Size, len(own.Pool)) == 0 {
		return Config{}, errors.New("understanding an agent's configuration: its id or the number of agents is missing")
	}
	return Config{
		ID: own.ID, Leader: answer.LeaderID, Term: answer.Term, Commit: answer.CommitIndex, Acked: answer.LastAcked,
		Patience: cmp.Or(own.MinPing, 1) * cmp.Or(own.Multiplier, 1), Size: max(own.Size, len(own.Pool)), Pool: own.Pool,
	}, nil
}

// Agents is what several agents say together.
type Agents struct {
	// Problem says why nothing can be built on them, "" if they have one leader that answers and a majority that follows it.
	Problem string
	Leader  string
	// Term is the leader's: an agent that leads twice leads in two terms.
	Term uint64
	Size int
	// Quorum is how many of them make a majority.
	Quorum int
	// Pool is every agent that one of them named, with its endpoint.
	Pool map[string]string
	// Answered are those that answered, sorted; Following are those of them that name the leader and have spoken to it, as it
	// says, a moment ago; itself included.
	Answered, Following []string
	// Holding are those of Following that have every entry which the leader has.
	Holding []string
}

// Agree makes one view of what agents say. Those that do not answer are not in it.
func Agree(configs []Config) Agents {
	a := Agents{Pool: map[string]string{}}
	votes := map[string][]string{}
	for _, c := range configs {
		a.Size = max(a.Size, c.Size)
		maps.Copy(a.Pool, c.Pool)
		a.Answered = append(a.Answered, c.ID)
		if c.Leader != "" {
			votes[c.Leader] = append(votes[c.Leader], c.ID)
		}
	}
	a.Size = max(a.Size, len(a.Pool))
	a.Quorum = a.Size/2 + 1
	a.Answered = unique(a.Answered)
	a.elect(votes)
	if at := slices.IndexFunc(configs, func(c Config) bool { return c.ID == a.Leader }); at >= 0 {
		a.Term = configs[at].Term
	}
	a.Following = slices.DeleteFunc(a.Following, unacknowledged(configs, a.Leader))
	if a.Problem == "" {
		a.Problem = a.leaderProblem()
	}
	a.Holding = holding(configs, a)
	return a
}

func (a *Agents) elect(votes map[string][]string) {
	leaders := slices.Sorted(maps.Keys(votes))
	switch {
	case len(leaders) == 0:
		a.Problem = fmt.Sprintf("no agent reports a leader of the agency (%d of %d answer)", len(a.Answered), a.Size)
	case len(leaders) > 1:
		a.Problem = "the agents name different leaders: " + opinions(leaders, votes)
	default:
		a.Leader, a.Following = leaders[0], unique(votes[leaders[0]])
	}
}

// unacknowledged reports which agents' last acknowledgement to the leader is so old that they may follow another. Without the
// leader's answer, none: then the problem is the leader.
func unacknowledged(configs []Config, leader string) func(string) bool {
	at := slices.IndexFunc(configs, func(c Config) bool { return c.ID == leader })
	return func(id string) bool {
		if at < 0 || id == leader {
			return false
		}
		ack, known := configs[at].Acked[id]
		return !known || ack.Age > configs[at].Patience
	}
}

func (a *Agents) leaderProblem() string {
	switch {
	case !slices.Contains(a.Following, a.Leader):
		return fmt.Sprintf("the agency's leader %s does not answer (%s names it)", a.Leader, strings.Join(a.Following, ", "))
	case len(a.Following) < a.Quorum:
		return fmt.Sprintf("only %d of %d agents answer and follow the leader %s: %d are needed", len(a.Following), a.Size, a.Leader, a.Quorum)
	}
	return ""
}

func opinions(leaders []string, votes map[string][]string) string {
	said := make([]string, len(leaders))
	for i, leader := range leaders {
		said[i] = fmt.Sprintf("%s says %s", strings.Join(unique(votes[leader]), ", "), leader)
	}
	return strings.Join(said, "; ")
}

func holding(configs []Config, a Agents) []string {
	at := slices.IndexFunc(configs, func(c Config) bool { return c.ID == a.Leader })
	if at < 0 {
		return nil
	}
	leader := configs[at]
	// The end of its log, and not only what it knows to be on a majority: a new leader has entries of its predecessor of which
	// it does not know that yet.
	end := max(leader.Commit, leader.Acked[leader.ID].Index)
	if end == 0 {
		return nil // an agency with a leader has entries: this one does not say how many
	}
	var all []string
	for _, c := range configs {
		if slices.Contains(a.Following, c.ID) && max(c.Commit, leader.Acked[c.ID].Index) >= end {
			all = append(all, c.ID)
		}
	}
	return unique(all)
}

// Without counts those of a list that are not this agent.
func Without(agents []string, agent string) int {
	return len(slices.DeleteFunc(slices.Clone(agents), func(other string) bool { return other == agent }))
}

func unique(ids []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

// Apart separates the answers of one agency from those of others. Two answers belong together if one names the other's id in its
// pool, or if an answer that belongs to both does. The agency is the one to which more than half of the answers belong; where none
// has so many, all are kept, so that their disagreement shows.
func Apart(configs []Config) (ours, others []Config) {
	for _, config := range configs {
		kin := kindred(configs, config)
		stranger := func(c Config) bool { return !slices.Contains(kin, c.ID) }
		ours = slices.DeleteFunc(slices.Clone(configs), stranger)
		if 2*len(ours) > len(configs) {
			return ours, slices.DeleteFunc(slices.Clone(configs), func(c Config) bool { return !stranger(c) })
		}
	}
	return configs, nil
}

// kindred are the ids of the agents that answer for the same agency as this one, itself included.
func kindred(configs []Config, first Config) []string {
	ids, found := []string{first.ID}, []Config{first}
	for at := 0; at < len(found); at++ {
		for _, other := range configs {
			if !slices.Contains(ids, other.ID) && (names(found[at], other) || names(other, found[at])) {
				ids, found = append(ids, other.ID), append(found, other)
			}
		}
	}
	return ids
}

func names(c, other Config) bool {
	_, known := c.Pool[other.ID]
	return known
}
