package arangosim

import (
	"fmt"
	"maps"
	"slices"
)

// WouldLose tells whether data or the agency's majority would be lost if this server went now: a dbserver or a single server
// with its disk, which may be bound to its node, an agent without. why is a sentence. It looks at disks and processes, and
// at nothing that the deployment says of itself.
func (c *Cluster) WouldLose(id string) (lose bool, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	if p == nil {
		return false, ""
	}
	if p.kind == agent {
		return c.wouldLoseQuorum(p)
	}
	return c.wouldLoseData(p)
}

// WouldLoseWithDisk is WouldLose where an agent's disk goes as well.
func (c *Cluster) WouldLoseWithDisk(id string) (lose bool, why string) {
	if lose, why := c.WouldLose(id); lose {
		return lose, why
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	if p == nil || p.kind != agent {
		return false, ""
	}
	holding := slices.DeleteFunc(c.of(agent), func(other *process) bool { return other == p || other.log < c.committed() })
	if len(holding) < c.quorum() {
		return true, fmt.Sprintf("without the disk of %s, %d agents have every committed entry, and %d make a majority", id, len(holding), c.quorum())
	}
	return false, ""
}

func (c *Cluster) wouldLoseQuorum(p *process) (bool, string) {
	left := len(slices.DeleteFunc(c.together(), func(other *process) bool { return other == p }))
	if left < c.quorum() {
		return true, fmt.Sprintf("without %s, %d agents are together, and %d make a majority", p.id, left, c.quorum())
	}
	return false, ""
}

func (c *Cluster) wouldLoseData(p *process) (bool, string) {
	for _, shard := range slices.Sorted(maps.Keys(c.acked)) {
		if p.disk[shard] == c.acked[shard] && !c.heldWithout(shard, p) {
			return true, fmt.Sprintf("only %s has the last acknowledged write to shard %q", p.id, shard)
		}
	}
	return false, ""
}

func (c *Cluster) heldWithout(shard string, without *process) bool {
	return slices.ContainsFunc(c.processes, func(p *process) bool { return p != without && p.disk[shard] >= c.acked[shard] })
}

// Lost are the shards of which no disk has every acknowledged write any more, sorted.
func (c *Cluster) Lost() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lost []string
	for _, shard := range slices.Sorted(maps.Keys(c.acked)) {
		if c.gone[shard] || !c.heldWithout(shard, nil) {
			lost = append(lost, shard)
		}
	}
	return lost
}

// Quorum tells whether a majority of the agents is together.
func (c *Cluster) Quorum() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of(agent)) == 0 || len(c.together()) >= c.quorum()
}
