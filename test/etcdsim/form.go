package etcdsim

import "slices"

// Form starts a process with an empty disk that is given others to form a cluster with, of which it is one. It reports whether it is part of the cluster: the first
// says who forms that, and one that is given others would begin another.
func (c *Cluster) Form(name string, peers []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.configs) == 1 {
		var config []voter
		for _, peer := range slices.Sorted(slices.Values(peers)) {
			m := c.create(peer)
			m.named = true
			config = append(config, voter{id: m.id})
		}
		c.configs = append(c.configs, config)
	}
	m := c.byName(name)
	if m == nil || !slices.Equal(c.formers(), slices.Sorted(slices.Values(peers))) {
		return false
	}
	m.config, m.log, m.up = c.configs[1], []entry{{config: 1}}, true
	return true
}

// formers are the names of those that form the cluster, as far as they are still there.
func (c *Cluster) formers() []string {
	var names []string
	for _, v := range c.configs[1] {
		if m := c.byID(v.id); m != nil {
			names = append(names, m.name)
		} else {
			names = append(names, c.gone[v.id])
		}
	}
	return names
}

// Formed reports whether a quorum has ever agreed on something.
func (c *Cluster) Formed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.gone) > 0 || slices.ContainsFunc(c.members, func(m *member) bool { return m.started })
}

// Listed reports whether the newest configuration has a member of a name.
func (c *Cluster) Listed(name string) bool { return c.inTruth(name, func(voter) bool { return true }) }

// Votes reports whether a member has a vote in the newest configuration.
func (c *Cluster) Votes(name string) bool {
	return c.inTruth(name, func(v voter) bool { return !v.learner })
}

func (c *Cluster) inTruth(name string, is func(voter) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.byName(name)
	return m != nil && !m.leaving && slices.ContainsFunc(c.truth(), func(v voter) bool { return v.id == m.id && is(v) })
}

// Serves reports whether a member answers what a quorum has agreed on, as /readyz asks: a learner does not.
func (c *Cluster) Serves(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.byName(name)
	return m != nil && m.up && m.started && m.votes(m.id) && c.linearizable(m) == nil
}

// Runs reports whether a member's process runs.
func (c *Cluster) Runs(name string) bool {
	runs := false
	c.with(name, func(m *member) { runs = m.up })
	return runs
}
