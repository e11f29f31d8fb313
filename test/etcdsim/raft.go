package etcdsim

import "slices"

// Tick moves the cluster on: members notice what they have lost, then a leader is elected where a quorum can, then
// entries are carried to the followers and committed.
func (c *Cluster) Tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepFormer()
	orphaned := c.notice()
	if !orphaned {
		c.elect()
	}
	c.replicate()
}

// Settle ticks until nothing changes any more, or n times.
func (c *Cluster) Settle(n int) {
	for range n {
		c.Tick()
	}
}

// notice lets members forget a leader that they do not reach, and a leader step down that does not reach a quorum. It
// reports whether some did: an election takes until the next Tick.
func (c *Cluster) notice() bool {
	lost := false
	for _, m := range c.members {
		if !m.up || m.leader == 0 {
			continue
		}
		leader := c.byID(m.leader)
		gone := leader == nil || !leader.up || leader.leader != leader.id || !reach(m, leader)
		if gone && m.votes(m.id) || m.leader == m.id && !c.quorum(m, m.config) {
			m.leader, lost = 0, true
		}
	}
	return lost
}

// elect gives every island that has no leader the voter with the most advanced log, if that one reaches a quorum of the
// configuration that it has applied itself: the one of a member that was away may be older and smaller.
func (c *Cluster) elect() {
	for _, m := range c.members {
		if !m.up || m.leader != 0 {
			continue
		}
		if best := c.candidate(m); best != nil && c.quorum(best, best.config) && c.leaderOf(m) == nil {
			c.crown(best, best.term+1)
		}
	}
}

// leaderOf is the leader in m's island that leads a quorum.
func (c *Cluster) leaderOf(m *member) *member {
	for _, o := range c.members {
		if o.up && o.leader == o.id && reach(m, o) && c.quorum(o, o.config) {
			return o
		}
	}
	return nil
}

// candidate is the voter of m's island that a quorum would vote for.
func (c *Cluster) candidate(m *member) *member {
	var best *member
	for _, o := range c.members {
		if o.up && reach(m, o) && o.votes(o.id) && (best == nil || o.ahead(best)) {
			best = o
		}
	}
	return best
}

// crown makes m the leader of all members that it reaches. The new leader writes an empty entry, without which nothing of an
// earlier term would be committed.
func (c *Cluster) crown(m *member, term uint64) {
	for _, o := range c.members {
		if o.up && reach(m, o) {
			term = max(term, o.term+1)
		}
	}
	m.term, m.leader = term, m.id
	m.log = append(m.log, entry{term: term})
	c.follow(m)
}

func (c *Cluster) follow(leader *member) {
	for _, o := range c.members {
		if o.up && reach(leader, o) && o.term <= leader.term && leader.knows(o.id) {
			o.term, o.leader = leader.term, leader.id
		}
	}
}

// replicate carries every leader's log to those it reaches, commits what a quorum holds, and acknowledges it.
func (c *Cluster) replicate() {
	for _, leader := range slices.Clone(c.members) { // some leave when a removal is committed
		if !leader.up || leader.leader != leader.id || !c.quorum(leader, leader.config) {
			continue
		}
		c.follow(leader)
		for _, o := range c.members {
			if o != leader && o.up && o.leader == leader.id && reach(leader, o) {
				o.take(leader.log)
			}
		}
		c.commit(leader)
	}
}

func (c *Cluster) commit(leader *member) {
	var held []int
	for _, v := range leader.config {
		if m := c.byID(v.id); !v.learner && m != nil && !m.wiped {
			held = append(held, common(m.log, leader.log))
		} else if !v.learner {
			held = append(held, 0)
		}
	}
	slices.Sort(held)
	committed := held[len(held)-len(held)/2-1]
	if committed == 0 || leader.log[committed-1].term != leader.term {
		return
	}
	for _, e := range leader.log[:committed] {
		c.acknowledge(e.value)
	}
	for _, m := range c.members {
		if m.up && m.leader == leader.id && reach(leader, m) {
			c.apply(m, min(committed, common(m.log, leader.log)))
			m.started = true
		}
	}
	c.members = slices.DeleteFunc(c.members, func(m *member) bool { return m.leaving && !leader.knows(m.id) })
}

// apply brings m's state up to that many entries.
func (c *Cluster) apply(m *member, entries int) {
	for _, e := range m.log[min(int(m.applied), entries):entries] {
		if e.config > 0 {
			m.config = c.configs[e.config]
		}
	}
	m.applied = uint64(entries)
}

func (c *Cluster) acknowledge(value string) {
	for i := range c.writes {
		if c.writes[i].value == value {
			c.writes[i].acknowledged = true
		}
	}
}

// take makes m's log like the leader's, as far as it is quick enough.
func (m *member) take(log []entry) {
	same := common(m.log, log)
	end := len(log)
	if m.slow > 0 {
		end = min(end, same+m.slow)
	}
	m.log = append(slices.Clone(m.log[:same]), log[same:end]...)
}

// common is how many entries two logs begin with alike.
func common(a, b []entry) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// ahead compares logs as voters do.
func (m *member) ahead(o *member) bool {
	if m.lastTerm() != o.lastTerm() {
		return m.lastTerm() > o.lastTerm()
	}
	return len(m.log) > len(o.log)
}

func (m *member) lastTerm() uint64 {
	if len(m.log) == 0 {
		return 0
	}
	return m.log[len(m.log)-1].term
}

func (m *member) knows(id uint64) bool {
	return slices.ContainsFunc(m.config, func(v voter) bool { return v.id == id })
}

func (m *member) votes(id uint64) bool { return slices.Contains(m.config, voter{id: id}) }

func reach(a, b *member) bool { return a.island == b.island }

// quorum reports whether m reaches a quorum of that configuration, itself included.
func (c *Cluster) quorum(m *member, config []voter) bool {
	all, reached := 0, 0
	for _, v := range config {
		if v.learner {
			continue
		}
		all++
		if o := c.byID(v.id); o != nil && o.up && reach(m, o) {
			reached++
		}
	}
	return reached >= all/2+1
}
