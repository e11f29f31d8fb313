package arangosim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// submit puts a job into the list of what is to do and returns its id.
func (c *Cluster) submit(kind, server string) string {
	c.jobs++
	id := strconv.Itoa(c.jobs)
	c.tree.set("Target/ToDo/"+id, map[string]any{"type": kind, "server": server, "jobId": id, "creator": "CRDN-a", "timeCreated": c.stamp()})
	c.written()
	return id
}

func (c *Cluster) job(state, id string) map[string]any {
	job, _ := c.tree.get("Target/" + state + "/" + id).(map[string]any)
	return job
}

// shift moves a job from one list to another.
func (c *Cluster) shift(id, from, to string, add map[string]any) {
	job := c.job(from, id)
	maps.Copy(job, add)
	c.tree.set("Target/"+from+"/"+id, nil)
	c.tree.set("Target/"+to+"/"+id, job)
	if to == "Finished" || to == "Failed" {
		c.ended[id] = 0
	}
	c.written()
}

// end ends a job and takes back what it held while it ran.
func (c *Cluster) end(id, from, to, reason string) {
	job := c.job(from, id)
	server := text(job, "server")
	if server != "" {
		c.tree.erase("Target/ToBeCleanedServers", server)
		if c.tree.text("Supervision/DBServers/"+server) == id {
			c.tree.set("Supervision/DBServers/"+server, nil)
		}
	}
	add := map[string]any{"timeFinished": c.stamp()}
	if reason != "" {
		add["reason"] = reason
	}
	c.shift(id, from, to, add)
}

func text(object map[string]any, key string) string {
	value, _ := object[key].(string)
	return value
}

// work gives every job a step.
func (c *Cluster) work() {
	for _, id := range c.tree.keys("Target/ToDo") {
		if job := c.job("ToDo", id); text(job, "type") == "moveShard" {
			c.startMove(id, job)
		} else {
			c.start(id, job)
		}
	}
	for _, id := range c.tree.keys("Target/Pending") {
		if job := c.job("Pending", id); text(job, "type") == "moveShard" {
			c.move(id, job)
		} else {
			c.check(id, job)
		}
	}
}

// start begins a clean-out or a resignation: it makes a move of each shard that is concerned.
func (c *Cluster) start(id string, job map[string]any) {
	kind, server := text(job, "type"), text(job, "server")
	if reason := c.infeasible(kind, server); reason != "" {
		c.end(id, "ToDo", "Failed", reason)
		return
	}
	if c.tree.text("Supervision/DBServers/"+server) != "" || c.health(server) != "GOOD" {
		return
	}
	moves := c.moves(kind, server)
	if moves == nil {
		c.end(id, "ToDo", "Failed", fmt.Sprintf("server %s cannot be cleaned out", server))
		return
	}
	for n, move := range moves {
		sub := fmt.Sprintf("%s-%d", id, n)
		maps.Copy(move, map[string]any{"type": "moveShard", "fromServer": server, "jobId": sub, "parentJob": id, "creator": id, "timeCreated": c.stamp()})
		c.tree.set("Target/ToDo/"+sub, move)
	}
	c.tree.push("Target/ToBeCleanedServers", server)
	c.tree.set("Supervision/DBServers/"+server, id)
	c.shift(id, "ToDo", "Pending", map[string]any{"timeStarted": c.stamp()})
}

// infeasible says why a job fails before it begins.
func (c *Cluster) infeasible(kind, server string) string {
	switch {
	case c.tree.get("Plan/DBServers/"+server) == nil:
		return "server " + server + " is not a dbserver"
	case slices.Contains(c.tree.strings("Target/CleanedServers"), server):
		return "server " + server + " has been cleaned out already"
	case c.tree.get("Target/FailedServers/"+server) != nil:
		return "server " + server + " has failed"
	}
	left := len(c.available(server))
	if left == 0 || kind == "cleanOutServer" && left < c.mostCopies() {
		return "server " + server + " cannot be cleaned out: too few servers would be left"
	}
	return ""
}

// available are the dbservers other than this one that may hold shards.
func (c *Cluster) available(server string) []string {
	barred := slices.Concat(c.tree.strings("Target/CleanedServers"), c.tree.strings("Target/ToBeCleanedServers"), c.tree.keys("Target/FailedServers"), []string{server})
	return slices.DeleteFunc(c.tree.keys("Plan/DBServers"), func(id string) bool { return slices.Contains(barred, id) })
}

func (c *Cluster) mostCopies() int {
	most := 1
	for _, at := range c.places() {
		copies, _ := c.copies(at)
		most = max(most, copies)
	}
	return most
}

// moves plans the moves of a job; nil: there is no room.
func (c *Cluster) moves(kind, server string) []map[string]any {
	moves := []map[string]any{}
	for _, at := range c.places() {
		plan := c.tree.strings(at.plan())
		if !slices.Contains(bares(plan), server) || c.like(at) != "" {
			continue
		}
		leads := bare(plan[0]) == server
		to := ""
		if heirs := c.heirs(at, server); len(heirs) > 0 {
			to = heirs[0]
		}
		if kind == "cleanOutServer" {
			if to = c.target(at, server); to == "" {
				return nil
			}
		}
		// What a resigning server leads alone is passed over in silence.
		if kind == "resignLeadership" && (!leads || to == "") {
			continue
		}
		moves = append(moves, map[string]any{
			"database": at.db, "collection": at.collection, "shard": at.shard, "toServer": to, "isLeader": leads,
			"remainsFollower": kind == "resignLeadership",
		})
	}
	return moves
}

// follower is a good server in sync that could lead.
func (c *Cluster) follower(at place, server string) string {
	current := c.tree.strings(at.current())
	for _, other := range c.tree.strings(at.plan())[1:] {
		if other != server && slices.Contains(current, other) && c.health(other) == "GOOD" {
			return other
		}
	}
	return ""
}

// target is a good server without the shard; for a satellite, which is everywhere, one that has it.
func (c *Cluster) target(at place, server string) string {
	plan := bares(c.tree.strings(at.plan()))
	for _, other := range c.available(server) {
		if !slices.Contains(plan, other) && c.health(other) == "GOOD" {
			return other
		}
	}
	if c.tree.text("Plan/Collections/"+at.db+"/"+at.collection+"/replicationFactor") == "satellite" {
		return c.follower(at, server)
	}
	return ""
}

// check ends a job whose moves have ended.
func (c *Cluster) check(id string, job map[string]any) {
	server := text(job, "server")
	for _, sub := range c.tree.keys("Target/Failed") {
		if strings.HasPrefix(sub, id+"-") {
			c.end(id, "Pending", "Failed", "a move of a shard has failed")
			return
		}
	}
	for _, state := range []string{"ToDo", "Pending"} {
		for _, sub := range c.tree.keys("Target/" + state) {
			if strings.HasPrefix(sub, id+"-") {
				return
			}
		}
	}
	if text(job, "type") == "cleanOutServer" {
		c.tree.push("Target/CleanedServers", server)
	}
	c.end(id, "Pending", "Finished", "")
}

// collect forgets jobs that have ended long ago.
func (c *Cluster) collect() {
	for id := range c.ended {
		if c.ended[id]++; c.ended[id] > c.config.KeepJobs {
			c.forget(id)
		}
	}
}

func (c *Cluster) forget(id string) {
	c.tree.set("Target/Finished/"+id, nil)
	c.tree.set("Target/Failed/"+id, nil)
	delete(c.ended, id)
}

// cancel ends a clean-out and its moves; false: it is not running.
func (c *Cluster) cancel(id string) bool {
	for _, state := range []string{"ToDo", "Pending"} {
		if c.job(state, id) == nil {
			continue
		}
		for _, list := range []string{"ToDo", "Pending"} {
			for _, sub := range c.tree.keys("Target/" + list) {
				if strings.HasPrefix(sub, id+"-") {
					c.abort(sub, list)
				}
			}
		}
		c.end(id, state, "Failed", "the job was cancelled")
		return true
	}
	return false
}
