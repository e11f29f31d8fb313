package arangosim

import (
	"slices"
)

func movePlace(job map[string]any) place {
	return place{text(job, "database"), text(job, "collection"), text(job, "shard")}
}

// startMove begins a move of a shard, and of those that go with it, unless another one has one of them.
func (c *Cluster) startMove(id string, job map[string]any) {
	all := c.family(movePlace(job))
	if c.health(text(job, "toServer")) == "FAILED" {
		c.failMove(id, "ToDo", "the receiving server has failed")
		return
	}
	if slices.ContainsFunc(all, func(at place) bool { return c.tree.text("Supervision/Shards/"+at.shard) != "" }) {
		return
	}
	for _, at := range all {
		c.tree.set("Supervision/Shards/"+at.shard, id)
	}
	c.shift(id, "ToDo", "Pending", map[string]any{"timeStarted": c.stamp()})
}

// stage is how far a shard has come in a move.
type stage int

const (
	gone     stage = iota
	unknown        // the receiver is not planned
	copying        // it is planned and not in sync
	led            // it is in sync, and the giver leads
	handing        // the giver was asked to resign, and has not
	resigned       // the giver has resigned, and no server leads
	taking         // the lead is being handed over
	leaving        // the giver holds a copy that it is to give up
	dropping       // its copy is being dropped
	moved
)

// move makes the next step of a move, for those of the shards that are behind the others.
func (c *Cluster) move(id string, job map[string]any) {
	all, from, to := c.family(movePlace(job)), text(job, "fromServer"), text(job, "toServer")
	if c.health(to) == "FAILED" {
		c.abort(id, "Pending")
		return
	}
	stages := make([]stage, len(all))
	for i, at := range all {
		stages[i] = c.stage(at, from, to, job["remainsFollower"] == true)
	}
	switch least := slices.Min(stages); least {
	case gone:
		c.failMove(id, "Pending", "the shard is gone")
	case moved:
		c.release(id, all)
		c.shift(id, "Pending", "Finished", map[string]any{"timeFinished": c.stamp()})
	default:
		for i, at := range all {
			if stages[i] == least {
				c.advance(at, from, to, least)
			}
		}
	}
}

// stage reads from the tree where a shard stands.
func (c *Cluster) stage(at place, from, to string, stays bool) stage {
	plan, current := c.tree.strings(at.plan()), c.tree.strings(at.current())
	switch {
	case len(plan) == 0:
		return gone
	case !slices.Contains(bares(plan), to):
		return unknown
	case !slices.Contains(bares(current), to) && slices.Contains(bares(plan), from):
		return copying
	case plan[0] == from:
		return led
	case plan[0] == "_"+from && len(current) > 0 && current[0] == "_"+from:
		return resigned
	case bare(plan[0]) == from:
		return handing
	case len(current) == 0 || current[0] != plan[0]:
		return taking
	case !stays && slices.Contains(plan, from):
		return leaving
	case !stays && slices.Contains(bares(current), from):
		return dropping
	}
	return moved
}

// advance changes the plan where it is the plan's turn, and not the servers'.
func (c *Cluster) advance(at place, from, to string, now stage) {
	plan := c.tree.strings(at.plan())
	switch now {
	case unknown:
		c.plan(at, append(plan, to))
	case led:
		c.plan(at, append([]string{"_" + from}, plan[1:]...))
	case resigned:
		c.plan(at, first(to, bares(plan)))
	case leaving:
		c.plan(at, without(from, plan))
	case gone, copying, handing, taking, dropping, moved:
	}
}

// abort ends a move and takes the receiver out of the plan again, unless it leads by now.
func (c *Cluster) abort(id, state string) {
	job := c.job(state, id)
	from, to := text(job, "fromServer"), text(job, "toServer")
	for _, at := range c.family(movePlace(job)) {
		plan := bares(c.tree.strings(at.plan()))
		if state == "Pending" && job["remainsFollower"] != true && len(plan) > 0 && plan[0] != to && slices.Contains(plan, from) {
			c.plan(at, without(to, plan))
		}
	}
	c.failMove(id, state, "the move was aborted")
}

func (c *Cluster) failMove(id, state, reason string) {
	c.release(id, c.family(movePlace(c.job(state, id))))
	c.shift(id, state, "Failed", map[string]any{"timeFinished": c.stamp(), "reason": reason})
	if c.forgetful {
		c.forget(id)
	}
}

// release gives up the shards that a move holds.
func (c *Cluster) release(id string, all []place) {
	for _, at := range all {
		if c.tree.text("Supervision/Shards/"+at.shard) == id {
			c.tree.set("Supervision/Shards/"+at.shard, nil)
		}
	}
}

// FailMoves lets every move of a shard fail that is under way, as when a receiver's disk is full, and reports whether there
// was one. A clean-out fails with its moves, unless they are forgotten (SetForgetful).
func (c *Cluster) FailMoves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := false
	for _, id := range c.tree.keys("Target/Pending") {
		if text(c.job("Pending", id), "type") == "moveShard" {
			c.abort(id, "Pending")
			failed = true
		}
	}
	return failed
}
