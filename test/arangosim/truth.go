package arangosim

import (
	"fmt"
	"maps"
	"slices"
)

// WouldLose reports whether data or the agency's majority would be lost if this server went now: a dbserver or a single server
// with its disk, which may be bound to its node, an agent without. why is a sentence. It looks at disks and processes, and
// at nothing that the deployment says of itself. Those that are away count as gone, although they may still run,
// and so does an agent that was asked to shut down.
func (c *Cluster) WouldLose(id string, away ...string) (lose bool, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	if p == nil {
		return false, ""
	}
	if p.kind == agent {
		return c.wouldLoseQuorum(p, away)
	}
	return c.wouldLoseData(p, away)
}

// CleanOuts are the servers that are cleaned out or being so; true: by a job that waits or runs.
func (c *Cluster) CleanOuts() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]bool{}
	for _, server := range slices.Concat(c.tree.strings("Target/CleanedServers"), c.tree.strings("Target/ToBeCleanedServers")) {
		all[server] = false
	}
	for _, state := range []string{"ToDo", "Pending"} {
		for _, id := range c.tree.keys("Target/" + state) {
			if job := c.job(state, id); text(job, "type") == "cleanOutServer" {
				all[text(job, "server")] = true
			}
		}
	}
	return all
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

func (c *Cluster) wouldLoseQuorum(p *process, away []string) (bool, string) {
	gone := append(slices.Clone(away), p.id)
	left := len(slices.DeleteFunc(c.together(), func(other *process) bool { return other.ending || slices.Contains(gone, other.id) }))
	if left < c.quorum() {
		return true, fmt.Sprintf("without %s, %d agents are together, and %d make a majority", p.id, left, c.quorum())
	}
	return false, ""
}

func (c *Cluster) wouldLoseData(p *process, away []string) (bool, string) {
	gone := append(slices.Clone(away), p.id)
	for _, shard := range slices.Sorted(maps.Keys(c.acked)) {
		if p.disk[shard] == c.acked[shard] && !c.heldWithout(shard, gone...) {
			return true, fmt.Sprintf("only %s has the last acknowledged write to shard %q", p.id, shard)
		}
	}
	return false, ""
}

func (c *Cluster) heldWithout(shard string, without ...string) bool {
	return slices.ContainsFunc(c.processes, func(p *process) bool {
		return !slices.Contains(without, p.id) && p.disk[shard] >= c.acked[shard]
	})
}

// Unreplicated reports whether the last acknowledged write to an active failover deployment is on no server that is up but this one: if its
// process ends, another takes over without that, although the disk stays.
func (c *Cluster) Unreplicated(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	if p == nil || !p.up || p.disk[""] < c.acked[""] {
		return false
	}
	return slices.Contains(c.of(single), p) && !slices.ContainsFunc(c.of(single), func(other *process) bool {
		return other != p && other.up && other.disk[""] >= c.acked[""]
	})
}

// LeadsSingles reports whether a server leads the active failover deployment: until its process ends it acknowledges writes, of which the
// followers may not have the last.
func (c *Cluster) LeadsSingles(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return id != "" && c.tree.text(failoverLeader) == id
}

// Lost are the shards of which no disk has every acknowledged write any more, sorted.
func (c *Cluster) Lost() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lost []string
	for _, shard := range slices.Sorted(maps.Keys(c.acked)) {
		if c.gone[shard] || !c.heldWithout(shard) {
			lost = append(lost, shard)
		}
	}
	return lost
}

// Restarting are the agents that were asked to shut down and are not back, sorted.
func (c *Cluster) Restarting() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for _, p := range c.of(agent) {
		if p.ending || p.back > 0 {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// Quorum reports whether a majority of the agents is together.
func (c *Cluster) Quorum() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of(agent)) == 0 || len(c.together()) >= c.quorum()
}

// Mentions are the paths of the agency's tree at which a server's id stands, as a key or in a list, sorted: but for jobs, for the list of those that
// were removed, and for what removeServer leaves as it is: what dbservers have reported of databases, and which coordinator collects metrics.
func (c *Cluster) Mentions(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := mentions(map[string]any(c.tree), "", id)
	slices.Sort(found)
	return slices.Compact(found)
}

func mentions(value any, path, id string) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			at := path + "/" + key
			if slices.Contains(passedOver, at) {
				continue
			}
			if key == id {
				found = append(found, at)
			}
			found = append(found, mentions(inner, at, id)...)
		}
	case []any:
		for _, item := range value {
			found = append(found, mentions(item, path, id)...)
		}
	case string:
		if bare(value) == id {
			found = append(found, path)
		}
	}
	return found
}

// passedOver are what Mentions does not look at.
var passedOver = []string{
	"/Target/ToDo", "/Target/Pending", "/Target/Finished", "/Target/Failed", "/Target/ReturnLeadership", "/Target/RemovedServers", "/Current/Databases",
	"/Plan/Metrics",
}

// OutOfReach are the shards of which no server that is up has every acknowledged write, sorted.
func (c *Cluster) OutOfReach() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, shard := range slices.Sorted(maps.Keys(c.acked)) {
		if !slices.ContainsFunc(c.processes, func(p *process) bool { return p.up && p.disk[shard] >= c.acked[shard] }) {
			all = append(all, shard)
		}
	}
	return all
}

// Leaders are the ids of the dbservers that lead shards by plan, sorted, each once.
func (c *Cluster) Leaders() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, at := range c.places() {
		if plan := bares(c.tree.strings(at.plan())); len(plan) > 0 {
			all = append(all, plan[0])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Shards are the names of all that are planned, as DATABASE/COLLECTION/SHARD.
func (c *Cluster) Shards() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, at := range c.places() {
		all = append(all, at.key())
	}
	return all
}

// Held is how many shards a server has every acknowledged write of.
func (c *Cluster) Held(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, p := 0, c.find(id)
	for shard, newest := range c.acked {
		if p != nil && p.disk[shard] >= newest {
			held++
		}
	}
	return held
}

// Knows reports whether a server of this id is planned, or an agent.
func (c *Cluster) Knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	return p != nil && (p.kind == agent || c.planned(p))
}

// Runs reports whether the process of a server is up.
func (c *Cluster) Runs(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isUp(id)
}

// Thin are the shards that fewer servers hold in sync than their replication factor says, sorted; satellites are left out.
func (c *Cluster) Thin() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, at := range c.places() {
		if copies, counted := c.copies(at); counted && len(c.tree.strings(at.current())) < copies {
			all = append(all, at.key())
		}
	}
	return all
}
