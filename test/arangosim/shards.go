package arangosim

import (
	"slices"
	"strings"
)

// place is where a shard stands in the tree.
type place struct{ db, collection, shard string }

func (p place) key() string { return shardKey(p.db, p.collection, p.shard) }
func (p place) plan() string {
	return "Plan/Collections/" + p.db + "/" + p.collection + "/shards/" + p.shard
}

func (p place) current() string {
	return "Current/Collections/" + p.db + "/" + p.collection + "/" + p.shard + "/servers"
}

func (p place) candidates() string {
	return strings.TrimSuffix(p.current(), "servers") + "failoverCandidates"
}

// places are all planned shards, in order.
func (c *Cluster) places() []place {
	var all []place
	for _, db := range c.tree.keys("Plan/Collections") {
		for _, collection := range c.tree.keys("Plan/Collections/" + db) {
			for _, shard := range c.tree.keys("Plan/Collections/" + db + "/" + collection + "/shards") {
				all = append(all, place{db, collection, shard})
			}
		}
	}
	return all
}

func bare(server string) string { return strings.TrimPrefix(server, "_") }

func bares(servers []string) []string {
	all := make([]string, len(servers))
	for i, server := range servers {
		all[i] = bare(server)
	}
	return all
}

// maintain lets dbservers do what the plan asks of them, one step for each shard.
func (c *Cluster) maintain() {
	for _, at := range c.places() {
		plan, current := c.tree.strings(at.plan()), c.tree.strings(at.current())
		if next := c.step(at.key(), plan, slices.Clone(current)); !slices.Equal(next, current) {
			c.report(at, next)
		}
		c.drop(at.key(), plan)
	}
}

// report lets a shard's leader say who has everything, and who may take over: the same, but for one that has resigned.
func (c *Cluster) report(at place, servers []string) {
	c.tree.set(at.current(), anys(servers))
	c.tree.set(at.candidates(), anys(bares(servers)))
	c.written()
}

// step returns who holds a shard after one step.
func (c *Cluster) step(key string, plan, current []string) []string {
	if len(plan) == 0 || !c.isUp(bare(plan[0])) {
		return current
	}
	if strings.HasPrefix(plan[0], "_") {
		if len(current) > 0 && current[0] == bare(plan[0]) {
			current[0] = plan[0]
		}
		return current
	}
	leader := plan[0]
	if len(current) == 0 {
		return []string{leader}
	}
	if current[0] != leader {
		return c.takeOver(key, leader, current)
	}
	current = slices.DeleteFunc(current, func(server string) bool { return !slices.Contains(plan, server) })
	for _, server := range plan[1:] {
		if !slices.Contains(current, server) && c.isUp(server) {
			c.find(server).disk[key] = c.find(leader).disk[key]
			return append(current, server)
		}
	}
	return current
}

// takeOver makes a server the leader that has everything; those as new as it stay in sync.
func (c *Cluster) takeOver(key, leader string, current []string) []string {
	if !slices.Contains(bares(current), leader) {
		return current
	}
	next := []string{leader}
	for _, server := range bares(current) {
		if server != leader && c.isUp(server) && c.find(server).disk[key] == c.find(leader).disk[key] {
			next = append(next, server)
		}
	}
	return next
}

// drop deletes the copies that servers have and neither Plan nor Current names.
func (c *Cluster) drop(key string, plan []string) {
	parts := strings.SplitN(key, "/", 3)
	counted := append(bares(plan), bares(c.tree.strings(place{parts[0], parts[1], parts[2]}.current()))...)
	for _, p := range c.of(dbserver) {
		if p.up && !slices.Contains(counted, p.id) {
			delete(p.disk, key)
		}
	}
}

func (c *Cluster) isUp(id string) bool {
	p := c.find(id)
	return p != nil && p.up
}

// Write writes to a shard, DATABASE/COLLECTION/SHARD, and reports whether that was acknowledged. "" is the data of an active
// failover deployment, whose followers get it at the next tick.
func (c *Cluster) Write(shard string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if shard == "" {
		return c.writeSingle()
	}
	parts := strings.SplitN(shard, "/", 3)
	if len(parts) < 3 {
		return false
	}
	at := place{parts[0], parts[1], parts[2]}
	plan, current := c.tree.strings(at.plan()), c.tree.strings(at.current())
	if len(plan) == 0 || len(current) == 0 || plan[0] != current[0] || !c.isUp(plan[0]) {
		return false
	}
	reached := slices.DeleteFunc(slices.Clone(current), func(server string) bool { return !c.isUp(server) })
	concern, _ := number(c.tree.get("Plan/Collections/" + at.db + "/" + at.collection + "/writeConcern"))
	if len(reached) < concern {
		return false
	}
	if len(reached) < len(current) {
		if !c.agencyWorks() {
			return false
		}
		c.report(at, reached)
	}
	c.acknowledge(shard, plan[0])
	for _, server := range reached {
		c.find(server).disk[shard] = c.acked[shard]
	}
	return true
}

func (c *Cluster) writeSingle() bool {
	leader := c.find(c.tree.text(failoverLeader))
	if leader == nil || !leader.up {
		return false
	}
	c.acknowledge("", leader.id)
	leader.disk[""] = c.acked[""]
	return true
}

// acknowledge counts a write, and remembers for ever where its leader went on without an earlier one.
func (c *Cluster) acknowledge(shard, leader string) {
	if c.find(leader).disk[shard] < c.acked[shard] {
		c.gone[shard] = true
	}
	c.acked[shard]++
}

// follow brings the followers of an active failover deployment up to their leader.
func (c *Cluster) follow() {
	leader := c.find(c.tree.text(failoverLeader))
	if leader == nil || !leader.up {
		return
	}
	for _, p := range c.of(single) {
		if p.up {
			p.disk[""] = leader.disk[""]
		}
	}
}
