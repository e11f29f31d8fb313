package arangosim

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
