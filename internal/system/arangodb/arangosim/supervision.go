package arangosim

import (
	"slices"
	"time"
)

// For so many ticks a server has been away when the supervision calls it bad, and when it lets others take over.
const (
	ticksBad    = 2
	ticksFailed = 4
)

func (c *Cluster) stamp() string { return c.now.Format(time.RFC3339) }

func (c *Cluster) setHealth(p *process, status string) {
	c.tree.set("Supervision/Health/"+p.id, map[string]any{
		"Status": status, "SyncStatus": "SERVING", "Endpoint": "tcp://" + p.host, "Host": p.host, "Timestamp": c.stamp(),
		"ShortName": c.tree.text("Target/MapUniqueToShortID/" + p.id + "/ShortName"), "Version": "3.11.14", "Engine": "rocksdb",
		"LastAckedTime": c.stamp(),
	})
}

// supervise is one round of the leading agent's supervision.
func (c *Cluster) supervise() {
	if c.tree.get("Supervision/Maintenance") != nil {
		return
	}
	for _, p := range c.processes {
		if p.kind != agent {
			c.judge(p)
		}
	}
	for _, at := range c.places() {
		c.failOver(at)
		c.enforce(at)
	}
	c.failOverSingle()
	c.work()
	c.collect()
}

func (c *Cluster) judge(p *process) {
	status := "GOOD"
	switch {
	case p.down >= ticksFailed:
		status = "FAILED"
	case p.down >= ticksBad:
		status = "BAD"
	}
	if c.health(p.id) == status {
		return
	}
	c.setHealth(p, status)
	c.tree.set("Target/FailedServers/"+p.id, nil)
	if status == "FAILED" && p.kind == dbserver {
		c.tree.set("Target/FailedServers/"+p.id, []any{})
	}
	c.written()
}

func (c *Cluster) health(id string) string {
	return c.tree.text("Supervision/Health/" + id + "/Status")
}

// failOver makes a follower in sync the leader of a shard whose leader has failed.
func (c *Cluster) failOver(at place) {
	plan, current := c.tree.strings(at.plan()), c.tree.strings(at.current())
	if len(plan) == 0 || c.health(bare(plan[0])) != "FAILED" {
		return
	}
	for _, server := range bares(plan[1:]) {
		if slices.Contains(current, server) && c.health(server) == "GOOD" {
			c.plan(at, first(server, bares(plan)))
			return
		}
	}
}

// enforce repairs a plan that no job is at work on: a leader that was asked to resign for nothing leads again, what has too
// many copies or too few gets one less or one more, and another server takes the place of a follower that has failed.
func (c *Cluster) enforce(at place) {
	plan, current := c.tree.strings(at.plan()), c.tree.strings(at.current())
	copies, counted := c.copies(at)
	switch {
	case len(plan) == 0 || c.tree.text("Supervision/Shards/"+at.shard) != "":
	case bare(plan[0]) != plan[0]:
		c.plan(at, bares(plan))
	case !counted || len(current) == 0 || current[0] != plan[0] || c.health(plan[0]) != "GOOD":
	case len(plan) > copies:
		c.plan(at, slices.Delete(plan, c.dispensable(plan, current), c.dispensable(plan, current)+1))
	case len(plan) < copies:
		if other := c.target(at, ""); other != "" {
			c.plan(at, append(plan, other))
		}
	default:
		c.relieve(at, plan)
	}
}

// relieve plans another server in the place of the first follower that has failed.
func (c *Cluster) relieve(at place, plan []string) {
	for i, server := range plan[1:] {
		if other := c.target(at, ""); c.health(server) == "FAILED" && other != "" {
			c.plan(at, append(slices.Delete(plan, i+1, i+2), other))
			return
		}
	}
}

// dispensable is the index of the follower that is missed least: one out of sync, else the last.
func (c *Cluster) dispensable(plan, current []string) int {
	for i, server := range plan[1:] {
		if !slices.Contains(current, server) {
			return i + 1
		}
	}
	return len(plan) - 1
}

// copies is the replication factor; false: a satellite, which is everywhere.
func (c *Cluster) copies(at place) (int, bool) {
	switch factor := c.tree.get("Plan/Collections/" + at.db + "/" + at.collection + "/replicationFactor").(type) {
	case int:
		return factor, true
	case float64:
		return int(factor), true
	}
	return 0, false
}

// first moves a server to the head of a list.
func first(server string, servers []string) []string {
	rest := slices.DeleteFunc(slices.Clone(servers), func(other string) bool { return other == server })
	return append([]string{server}, rest...)
}

func (c *Cluster) plan(at place, servers []string) {
	c.tree.set(at.plan(), anys(servers))
	c.written()
}

// failOverSingle makes the good server that has most of the data the leader of an active failover deployment.
func (c *Cluster) failOverSingle() {
	const path = "Plan/AsyncReplication/Leader"
	leader := c.tree.text(path)
	if leader == "" || c.health(leader) != "FAILED" {
		return
	}
	good := slices.DeleteFunc(c.of(single), func(p *process) bool { return c.health(p.id) != "GOOD" })
	if len(good) == 0 {
		return
	}
	c.tree.set(path, slices.MaxFunc(good, func(a, b *process) int { return a.disk[""] - b.disk[""] }).id)
	c.written()
}
