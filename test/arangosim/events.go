package arangosim

import (
	"fmt"
	"slices"
	"strings"
)

// Kill ends a server's process for good. Its disk stays.
func (c *Cluster) Kill(id string) {
	c.change(id, (*process).end)
}

// Restart starts a server's process again with the disk that it had.
func (c *Cluster) Restart(id string) {
	c.change(id, (*process).start)
}

// Wipe ends a server's process and loses its disk.
func (c *Cluster) Wipe(id string) {
	c.change(id, func(p *process) {
		p.end()
		p.disk = map[string]int{}
		p.log, p.commit, p.leader = 0, 0, ""
	})
}

// Renew starts a server that was wiped: at the same address there is another one now, whose id it returns. An agent keeps its id, which is
// given to it.
func (c *Cluster) Renew(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	if at := slices.IndexFunc(c.removed, func(p *process) bool { return p.id == id }); p == nil && at >= 0 {
		p = c.removed[at]
	}
	if p == nil {
		return ""
	}
	if p.kind == agent {
		p.start()
		return id
	}
	c.renewed++
	first, _, _ := strings.Cut(id, "-again")
	fresh := &process{id: fmt.Sprintf("%s-again%d", first, c.renewed), kind: p.kind, host: p.host, scheme: p.scheme}
	c.join(fresh)
	c.written()
	return fresh.id
}

// Isolate cuts an agent off from the other agents; clients reach it, and it believes what it believed for five ticks. The
// others notice at the next tick.
func (c *Cluster) Isolate(id string, isolated bool) {
	c.change(id, func(p *process) { p.isolated = isolated })
}

// Stall lets an agent answer and store nothing new.
func (c *Cluster) Stall(id string, stalled bool) {
	c.change(id, func(p *process) { p.stalled = stalled })
}

func (c *Cluster) change(id string, how func(*process)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.find(id); p != nil {
		how(p)
	}
}

// SetMaintenance turns the supervision's maintenance on or off.
func (c *Cluster) SetMaintenance(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree.set("Supervision/Maintenance", nil)
	if on {
		c.tree.set("Supervision/Maintenance", c.stamp())
	}
	c.written()
}

// SetForgetful lets the supervision forget moves of shards that fail, so that a clean-out ends with shards left behind.
func (c *Cluster) SetForgetful(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetful = on
}

// ForgetJobs drops all jobs that have ended.
func (c *Cluster) ForgetJobs() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.ended {
		c.forget(id)
	}
}

// LoseJobs drops all jobs, those that run as well, as a restored agency would.
func (c *Cluster) LoseJobs() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range []string{"ToDo", "Pending", "Finished", "Failed"} {
		c.tree.set("Target/"+state, map[string]any{})
	}
	c.tree.set("Supervision/DBServers", map[string]any{})
	c.tree.set("Supervision/Shards", map[string]any{})
	c.tree.set("Target/ToBeCleanedServers", []any{})
}

// Set puts a value into the agency's tree, for states that no request leads to. The path is below /arango; nil deletes.
func (c *Cluster) Set(path string, value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree.set(path, value)
	c.written()
}

// AgencyLeader is the agent that leads a majority, "" if none does.
func (c *Cluster) AgencyLeader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if leader := c.leader(); leader != nil {
		return leader.id
	}
	return ""
}

// Elect makes an agent the leader of a new term, as an election may end. It is for an agent that has every entry.
func (c *Cluster) Elect(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	if p == nil || p.kind != agent || !slices.Contains(c.together(), p) {
		return
	}
	for _, other := range c.together() {
		other.leader = id
	}
	c.crown(p)
	c.elect()
}

// Address is the URL of a server.
func (c *Cluster) Address(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.find(id); p != nil {
		return p.web() + "://" + p.host
	}
	return ""
}
