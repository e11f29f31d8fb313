package etcdsim

import (
	"slices"

	"usher.sh/usher/internal/system/etcd"
)

// Write sends a value to the leader of a quorum, if there is one, and reports whether there is. It is acknowledged once
// it is committed: see Acknowledged.
func (c *Cluster) Write(value string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader := c.reigning()
	if leader == nil || c.has(etcd.NoSpace) || c.has(etcd.Corrupt) {
		return false
	}
	c.writes = append(c.writes, write{value: value})
	leader.log = append(leader.log, entry{term: leader.term, value: value})
	return true
}

func (c *Cluster) has(alarm string) bool {
	return slices.ContainsFunc(c.alarms, func(a etcd.Alarm) bool { return a.Name == alarm })
}

// Kill ends a member's process. Its disk stays.
func (c *Cluster) Kill(name string) {
	c.with(name, func(m *member) { m.up, m.leader = false, 0 })
}

// Start starts a member's process with the disk that it has. One whose disk was wiped does not start.
func (c *Cluster) Start(name string) {
	c.with(name, func(m *member) { m.up = !m.wiped })
}

// Wipe ends a member's process and loses its disk.
func (c *Cluster) Wipe(name string) {
	c.with(name, func(m *member) { m.up, m.leader, m.wiped, m.log, m.applied = false, 0, true, nil, 0 })
}

// Slow makes a member take at most n entries in one Tick; 0: any number.
func (c *Cluster) Slow(name string, n int) {
	c.with(name, func(m *member) { m.slow = n })
}

// Island puts members where they reach only each other. Heal takes that back.
func (c *Cluster) Island(number int, names ...string) {
	for _, name := range names {
		c.with(name, func(m *member) { m.island = number })
	}
}

// Heal lets all members reach each other and Usher reach all of them.
func (c *Cluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		m.island, m.hidden = 0, false
	}
}

// Hide keeps Usher, and no other client or member, from reaching a member.
func (c *Cluster) Hide(name string) {
	c.with(name, func(m *member) { m.hidden = true })
}

// Add brings a member in, running with an empty disk, if a quorum can take it in.
func (c *Cluster) Add(name string, learner bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader := c.reigning()
	if leader == nil || c.changing(leader) || c.byName(name) != nil {
		return false
	}
	m := c.create(name)
	m.up, m.config = true, leader.config
	c.propose(leader, append(slices.Clone(leader.config), voter{id: m.id, learner: learner}))
	return true
}

// GiveVote gives a learner a vote, if a quorum agrees and it has caught up.
func (c *Cluster) GiveVote(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, m := c.reigning(), c.byName(name)
	if leader == nil || c.changing(leader) || m == nil || !m.up || common(m.log, leader.log) < len(leader.log)*9/10 {
		return false
	}
	i := slices.Index(leader.config, voter{id: m.id, learner: true})
	if i < 0 {
		return false
	}
	config := slices.Clone(leader.config)
	config[i].learner = false
	c.propose(leader, config)
	return true
}

// TakeOut takes a member out, if a quorum of the others agrees; its process ends.
func (c *Cluster) TakeOut(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, m := c.reigning(), c.byName(name)
	if leader == nil || c.changing(leader) || m == nil || m == leader || !leader.knows(m.id) {
		return false
	}
	config := slices.DeleteFunc(slices.Clone(leader.config), func(v voter) bool { return v.id == m.id })
	if !c.quorum(leader, config) {
		return false
	}
	c.propose(leader, config)
	c.gone[m.id] = m.name
	m.up, m.leader, m.leaving = false, 0, true
	return true
}

// changing reports whether a change of the configuration is proposed that has not taken effect: there is only one at a time.
func (c *Cluster) changing(leader *member) bool {
	return slices.ContainsFunc(leader.log[leader.applied:], func(e entry) bool { return e.config > 0 })
}

// propose makes a configuration take effect once it is committed.
func (c *Cluster) propose(leader *member, config []voter) {
	c.configs = append(c.configs, config)
	leader.log = append(leader.log, entry{term: leader.term, config: len(c.configs) - 1})
}

// Raise raises an alarm in a member's name.
func (c *Cluster) Raise(name, alarm string) {
	c.with(name, func(m *member) { c.alarms = append(c.alarms, etcd.Alarm{Member: m.id, Name: alarm}) })
}

// Disarm takes all alarms back.
func (c *Cluster) Disarm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarms = nil
}

// reigning is the leader that leads a quorum, nil if there is none.
func (c *Cluster) reigning() *member {
	var best *member
	for _, m := range c.members {
		if m.up && m.leader == m.id && c.quorum(m, m.config) && (best == nil || m.term > best.term) {
			best = m
		}
	}
	return best
}
