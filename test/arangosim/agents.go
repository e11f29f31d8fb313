package arangosim

import "slices"

// agencyWorks reports whether there is a leader that a majority follows.
func (c *Cluster) agencyWorks() bool { return c.leader() != nil }

// leader is the agent that leads a majority, nil if none does.
func (c *Cluster) leader() *process {
	for _, p := range c.of(agent) {
		if p.leader == p.id && p.up && !p.isolated && len(c.together()) >= c.quorum() {
			return p
		}
	}
	return nil
}

func (c *Cluster) quorum() int { return len(c.of(agent))/2 + 1 }

// together are the agents that reach each other.
func (c *Cluster) together() []*process {
	return slices.DeleteFunc(c.of(agent), func(p *process) bool { return !p.up || p.isolated })
}

// maxPing is after how many ticks without contact an agent reports no leader any more.
const maxPing = 5

// live lets a process end that was asked to, and starts it again when its time has come.
func (c *Cluster) live(p *process) {
	switch {
	case p.ending:
		p.ending, p.up, p.back = false, false, c.config.Restart
	case !p.up && p.back == 1:
		p.start()
	case !p.up && p.back > 1:
		p.back--
	}
}

func (p *process) start() { p.up, p.leader, p.ending, p.back = true, "", false, 0 }

func (p *process) end() { p.up, p.ending, p.back = false, false, 0 }

// elect makes the agent with the longest log the leader where a majority is together and has none, and the others follow
// it. An agent that no other reaches keeps its leader for a while.
func (c *Cluster) elect() {
	for _, p := range c.of(agent) {
		if p.sinceContact > maxPing {
			p.leader = ""
		}
	}
	together := c.together()
	if len(together) < c.quorum() {
		for _, p := range together {
			p.leader = ""
		}
		return
	}
	leader := c.leader()
	if leader == nil {
		leader = slices.MaxFunc(together, func(a, b *process) int { return a.log - b.log })
		c.crown(leader)
	}
	for _, p := range together {
		p.leader, p.term = leader.id, leader.term
	}
	leader.leader = leader.id
	c.store(leader)
}

// crown begins a leader's term, with an entry of its own.
func (c *Cluster) crown(leader *process) {
	for _, p := range c.of(agent) {
		leader.term = max(leader.term, p.term)
	}
	leader.term++
	leader.log++
}

// store puts the leader's newest entry on a majority, which commits it.
func (c *Cluster) store(leader *process) {
	stored := 1
	for _, p := range c.together() {
		if p != leader && stored < c.quorum() && !p.stalled {
			p.log = leader.log
			stored++
		}
	}
	if stored >= c.quorum() {
		leader.commit = leader.log
	}
}

// replicate brings the others up to the leader.
func (c *Cluster) replicate() {
	leader := c.leader()
	if leader == nil {
		return
	}
	for _, p := range c.together() {
		if !p.stalled {
			p.log, p.commit = leader.log, leader.commit
		}
	}
	c.store(leader)
}

// committed is the newest entry that was ever on a majority.
func (c *Cluster) committed() int {
	newest := 0
	for _, p := range c.of(agent) {
		newest = max(newest, p.commit)
	}
	return newest
}

// written notes that the tree has changed.
func (c *Cluster) written() {
	if leader := c.leader(); leader != nil {
		leader.log++
		c.store(leader)
	}
}

// agentConfig is what an agent says of itself.
func (c *Cluster) agentConfig(p *process) map[string]any {
	pool, active, acked := map[string]any{}, []any{}, map[string]any{}
	for _, other := range c.of(agent) {
		pool[other.id] = other.endpoint()
		active = append(active, other.id)
		acked[other.id] = map[string]any{"lastAckedTime": 0.25 + float64(other.sinceContact), "lastAckedIndex": other.log}
	}
	answer := map[string]any{
		"term": p.term, "leaderId": p.leader, "commitIndex": p.commit, "engine": c.engine, "version": c.version,
		"configuration": map[string]any{
			"id": p.id, "pool": pool, "active": active, "agency size": len(pool), "pool size": len(pool),
			"endpoint": p.endpoint(), "min ping": 1, "max ping": maxPing, "timeoutMult": 1, "supervision": true,
		},
	}
	if p.leader == p.id {
		answer["lastAcked"] = acked
	}
	return answer
}
