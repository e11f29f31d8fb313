package arangosim

import "slices"

func movePlace(job map[string]any) place {
	return place{text(job, "database"), text(job, "collection"), text(job, "shard")}
}

// startMove begins a move of a shard unless another one has the shard.
func (c *Cluster) startMove(id string, job map[string]any) {
	at := movePlace(job)
	if c.health(text(job, "toServer")) == "FAILED" {
		c.failMove(id, "ToDo", "the receiving server has failed")
		return
	}
	if c.tree.text("Supervision/Shards/"+at.shard) != "" {
		return
	}
	c.tree.set("Supervision/Shards/"+at.shard, id)
	c.shift(id, "ToDo", "Pending", map[string]any{"timeStarted": c.stamp()})
}

// move makes the next step of a move. What that is can be read from the tree: the receiver is planned, gets in sync, the
// leader resigns, the receiver leads, the giver leaves.
func (c *Cluster) move(id string, job map[string]any) {
	at, from, to := movePlace(job), text(job, "fromServer"), text(job, "toServer")
	plan, current := c.tree.strings(at.plan()), c.tree.strings(at.current())
	switch {
	case len(plan) == 0:
		c.failMove(id, "Pending", "the shard is gone")
	case c.health(to) == "FAILED":
		c.abort(id, "Pending")
	case !slices.Contains(bares(plan), to):
		c.plan(at, append(plan, to))
	case !slices.Contains(bares(current), to) && slices.Contains(bares(plan), from):
		// It is copying.
	case plan[0] == from:
		c.plan(at, append([]string{"_" + from}, plan[1:]...))
	case plan[0] == "_"+from && len(current) > 0 && current[0] == "_"+from:
		c.plan(at, first(to, bares(plan)))
	case bare(plan[0]) == from || len(current) == 0 || current[0] != plan[0]:
		// The lead is being handed over.
	case job["remainsFollower"] != true && slices.Contains(plan, from):
		c.plan(at, slices.DeleteFunc(plan, func(server string) bool { return server == from }))
	case job["remainsFollower"] != true && slices.Contains(bares(current), from):
		// Its copy is being dropped.
	default:
		c.tree.set("Supervision/Shards/"+at.shard, nil)
		c.shift(id, "Pending", "Finished", map[string]any{"timeFinished": c.stamp()})
	}
}

// abort ends a move and takes the receiver out of the plan again, unless it leads by now.
func (c *Cluster) abort(id, state string) {
	job := c.job(state, id)
	at, to := movePlace(job), text(job, "toServer")
	if plan := bares(c.tree.strings(at.plan())); state == "Pending" && job["remainsFollower"] != true && len(plan) > 0 && plan[0] != to && slices.Contains(plan, text(job, "fromServer")) {
		c.plan(at, slices.DeleteFunc(plan, func(server string) bool { return server == to }))
	}
	c.failMove(id, state, "the move was aborted")
}

func (c *Cluster) failMove(id, state, reason string) {
	if at := movePlace(c.job(state, id)); c.tree.text("Supervision/Shards/"+at.shard) == id {
		c.tree.set("Supervision/Shards/"+at.shard, nil)
	}
	c.shift(id, state, "Failed", map[string]any{"timeFinished": c.stamp(), "reason": reason})
	if c.forgetful {
		c.forget(id)
	}
}
