package arangosim

import (
	"maps"
	"slices"
	"time"
)

// For so many ticks a server has been away when the supervision calls it bad, and when it lets others take over: by default
// --agency.supervision-ok-threshold and --agency.supervision-grace-period, in seconds.
const (
	ticksBad    = 5
	ticksFailed = 10
)

func (c *Cluster) stamp() string { return c.now.Format(time.RFC3339) }

// setHealth writes the supervision's verdict on a server, and keeps what it knows of it already.
func (c *Cluster) setHealth(p *process, status string) {
	health := map[string]any{
		"SyncStatus": "SERVING", "Endpoint": p.endpoint(), "Host": p.host,
		"ShortName": c.tree.text("Target/MapUniqueToShortID/" + p.id + "/ShortName"), "Version": c.version, "Engine": c.engine,
	}
	known, _ := c.tree.get("Supervision/Health/" + p.id).(map[string]any)
	maps.Copy(health, known)
	maps.Copy(health, map[string]any{"Status": status, "Timestamp": c.stamp(), "LastAckedTime": c.stamp()})
	c.tree.set("Supervision/Health/"+p.id, health)
}

// supervise is one round of the leading agent's supervision.
func (c *Cluster) supervise() {
	if c.tree.get("Supervision/Maintenance") != nil {
		return
	}
	for _, p := range c.processes {
		switch {
		case p.kind == agent:
		case c.planned(p):
			c.judge(p)
		case c.tree.get("Supervision/Health/"+p.id) != nil: // it has been taken out of the plan
			c.tree.set("Supervision/Health/"+p.id, nil)
			c.written()
		}
	}
	for _, at := range c.places() {
		c.failOver(at)
		c.enforce(at)
	}
	c.failOverSingle()
	c.failOverFoxx()
	c.work()
	c.collect()
}

// planned reports whether a server is on the list of its kind.
func (c *Cluster) planned(p *process) bool { return c.tree.get("Plan/"+lists[p.kind]+"/"+p.id) != nil }

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

// failOver makes a follower that could lead all of a family the leader of what a server has led that has failed.
func (c *Cluster) failOver(at place) {
	plan := c.tree.strings(at.plan())
	if c.like(at) != "" || len(plan) == 0 || c.health(bare(plan[0])) != "FAILED" {
		return
	}
	heirs := c.heirs(at, bare(plan[0]))
	if len(heirs) == 0 {
		return
	}
	c.replan(c.family(at), func(plan []string) []string { return first(heirs[0], bares(plan)) })
}

// enforce repairs the plan of a family that no job is at work on: a leader that was asked to resign for nothing leads again,
// what has too many copies or too few gets one less or one more, and another server takes the place of a follower that has
// failed.
func (c *Cluster) enforce(at place) {
	if c.like(at) != "" {
		return
	}
	plan, all := c.tree.strings(at.plan()), c.family(at)
	copies, counted := c.copies(at)
	switch {
	case len(plan) == 0 || slices.ContainsFunc(all, func(at place) bool { return c.tree.text("Supervision/Shards/"+at.shard) != "" }):
	case bare(plan[0]) != plan[0]:
		c.replan(all, bares)
	case !counted || c.health(plan[0]) != "GOOD" || slices.ContainsFunc(all, c.unled):
	case len(plan) > copies:
		server := c.dispensable(all, plan)
		c.replan(all, func(plan []string) []string { return without(server, plan) })
	case len(plan) < copies:
		if other := c.target(at, ""); other != "" {
			c.replan(all, func(plan []string) []string { return append(plan, other) })
		}
	default:
		c.relieve(all, plan)
	}
}

// unled reports whether another server leads a shard than the one that is planned to.
func (c *Cluster) unled(at place) bool {
	plan, current := c.tree.strings(at.plan()), c.tree.strings(at.current())
	return len(current) == 0 || len(plan) == 0 || current[0] != plan[0]
}

// relieve plans another server in the place of the first follower that has failed.
func (c *Cluster) relieve(all []place, plan []string) {
	for _, server := range plan[1:] {
		if other := c.target(all[0], ""); c.health(server) == "FAILED" && other != "" {
			c.replan(all, func(plan []string) []string { return append(without(server, plan), other) })
			return
		}
	}
}

// dispensable is the follower that is missed least: one out of sync, else the last.
func (c *Cluster) dispensable(all []place, plan []string) string {
	for _, server := range plan[1:] {
		if slices.ContainsFunc(all, func(at place) bool { return !slices.Contains(c.tree.strings(at.current()), server) }) {
			return server
		}
	}
	return plan[len(plan)-1]
}

// replan changes the plan of each shard.
func (c *Cluster) replan(all []place, change func([]string) []string) {
	for _, at := range all {
		c.plan(at, change(c.tree.strings(at.plan())))
	}
}

// copies is the replication factor; false: a satellite, which is everywhere.
func (c *Cluster) copies(at place) (int, bool) {
	return number(c.tree.get("Plan/Collections/" + at.db + "/" + at.collection + "/replicationFactor"))
}

// number is one that was set, or read from a dump.
func number(value any) (int, bool) {
	switch n := value.(type) {
	case int:
		return n, true
	case float64:
		return int(n), true
	}
	return 0, false
}

// first moves a server to the head of a list.
func first(server string, servers []string) []string {
	return append([]string{server}, without(server, servers)...)
}

func without(server string, servers []string) []string {
	return slices.DeleteFunc(slices.Clone(servers), func(other string) bool { return other == server })
}

func (c *Cluster) plan(at place, servers []string) {
	c.tree.set(at.plan(), anys(servers))
	c.written()
}

// failOverFoxx has another good coordinator run the queues of Foxx where the one that does is not.
func (c *Cluster) failOverFoxx() {
	const path = "Current/Foxxmaster"
	master := c.tree.text(path)
	if master == "" || c.health(master) == "GOOD" {
		return
	}
	for _, p := range c.of(coordinator) {
		if c.health(p.id) == "GOOD" {
			c.tree.set(path, p.id)
			c.written()
			return
		}
	}
}

// failOverSingle makes the good server that has most of the data the leader of an active failover deployment.
func (c *Cluster) failOverSingle() {
	leader := c.tree.text(failoverLeader)
	if leader == "" || c.health(leader) != "FAILED" {
		return
	}
	good := slices.DeleteFunc(c.of(single), func(p *process) bool { return c.health(p.id) != "GOOD" })
	if len(good) == 0 {
		return
	}
	c.tree.set(failoverLeader, slices.MaxFunc(good, func(a, b *process) int { return a.disk[""] - b.disk[""] }).id)
	c.written()
}
