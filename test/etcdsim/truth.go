package etcdsim

import (
	"fmt"
	"slices"
)

// WouldLose reports whether the cluster would stand still if this member's process ended now and its disk stayed: too few
// voters would reach each other. A member without a vote, or unknown, is no loss. Those that are away count as gone,
// although they may still run. why is a sentence.
func (c *Cluster) WouldLose(name string, away ...string) (lose bool, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.byName(name)
	config := c.truth()
	if m == nil || !slices.Contains(config, voter{id: m.id}) {
		return false, ""
	}
	if most, quorum := c.together(config, append(slices.Clone(away), name)), quorumOf(config); most < quorum {
		return true, fmt.Sprintf("without %s, %d voters reach each other, and a quorum is %d", name, most, quorum)
	}
	return false, ""
}

// WouldLoseWithDisk reports whether the cluster would stand still, or an acknowledged write would be lost, if this member's
// disk were lost now.
func (c *Cluster) WouldLoseWithDisk(name string) (lose bool, why string) {
	if lose, why := c.WouldLose(name); lose {
		return lose, why
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.writes {
		if w.acknowledged && !c.heldWithout(w.value, name) {
			return true, fmt.Sprintf("%s holds the last copy of %s", name, w.value)
		}
	}
	return false, ""
}

// Deceives reports whether a quorum of voters is mistaken about the leader, which can then not be determined from their answers.
func (c *Cluster) Deceives() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	config := c.truth()
	mistaken := 0
	for _, v := range config {
		if m := c.byID(v.id); m != nil && !v.learner && c.faults[URL(m.name)] == Mistaken {
			mistaken++
		}
	}
	return mistaken >= quorumOf(config)
}

// Lost are acknowledged writes that no disk holds any more, or that the leader of a quorum does not.
func (c *Cluster) Lost() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader := c.reigning()
	var lost []string
	for _, w := range c.writes {
		if w.acknowledged && (!c.heldWithout(w.value, "") || leader != nil && !leader.holds(w.value)) {
			lost = append(lost, w.value)
		}
	}
	return lost
}

// Acknowledged reports whether the write of a value was acknowledged to its client.
func (c *Cluster) Acknowledged(value string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.writes, write{value: value, acknowledged: true})
}

// Serving reports whether a leader with a quorum is there.
func (c *Cluster) Serving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reigning() != nil
}

// Leader is the name of the leader with a quorum, "" if there is none.
func (c *Cluster) Leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.reigning(); m != nil {
		return m.name
	}
	return ""
}

// truth is the newest configuration on any disk.
func (c *Cluster) truth() []voter {
	if leader := c.reigning(); leader != nil {
		return leader.config
	}
	var best *member
	for _, m := range c.members {
		if !m.wiped && (best == nil || m.ahead(best)) {
			best = m
		}
	}
	if best == nil {
		return nil
	}
	return best.config
}

// together is how many voters at most run and reach each other, without some of them.
func (c *Cluster) together(config []voter, without []string) int {
	islands := map[int]int{}
	most := 0
	for _, v := range config {
		m := c.byID(v.id)
		if v.learner || m == nil || slices.Contains(without, m.name) || !m.up {
			continue
		}
		islands[m.island]++
		most = max(most, islands[m.island])
	}
	return most
}

func quorumOf(config []voter) int {
	n := 0
	for _, v := range config {
		if !v.learner {
			n++
		}
	}
	return n/2 + 1
}

func (c *Cluster) heldWithout(value, name string) bool {
	return slices.ContainsFunc(c.members, func(m *member) bool {
		return m.name != name && !m.wiped && m.holds(value)
	})
}

func (m *member) holds(value string) bool {
	return slices.ContainsFunc(m.log, func(e entry) bool { return e.value == value })
}
