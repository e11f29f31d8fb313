package fdbsim

import "slices"

// Lost are the shards of which no disk is left.
func (c *Cluster) Lost() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shards {
		if c.disks(s) == 0 {
			n++
		}
	}
	return n
}

// Thin are the shards that have fewer copies than they are to have on processes that run.
func (c *Cluster) Thin() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shards {
		if len(c.live(s)) < c.copies {
			n++
		}
	}
	return n
}

// disks counts the copies of a shard that are on a disk, whether its process runs or not, without some processes.
func (c *Cluster) disks(s *shard, without ...string) (n int) {
	for _, p := range c.processes {
		if disk, has := s.on[p.key()]; has && disk == p.disk && !slices.Contains(without, p.ID) {
			n++
		}
	}
	return n
}

// WouldLose says what of the database has fewer copies than it is to have if a process is lost with its disk, beside others; "": nothing.
func (c *Cluster) WouldLose(id string, away ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	if p == nil || c.unformed {
		return ""
	}
	for _, s := range c.shards {
		if disk, has := s.on[p.key()]; has && disk == p.disk && c.disks(s, append(away, id)...) < c.copies {
			return "a shard has fewer copies"
		}
	}
	if slices.Contains(c.old, p.key()) || slices.Contains(c.logs, p.key()) {
		return "a generation of log servers has one fewer"
	}
	if slices.Contains(c.coordinators, p.Address) {
		return "a coordinator is lost"
	}
	return ""
}

// WouldStop says what of the database cannot be had while a process that runs is away with its disk, beside others; "": all can.
func (c *Cluster) WouldStop(id string, away ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	if p == nil || !p.running || c.unformed {
		return ""
	}
	without := append(away, id)
	stays := func(p *Process) bool { return p.running && !slices.Contains(without, p.ID) }
	for _, s := range c.shards {
		if _, has := s.on[p.key()]; has && !slices.ContainsFunc(c.live(s), stays) {
			return "no copy of a shard is up"
		}
	}
	up := 0
	for _, address := range c.coordinators {
		if p := c.find(address); p != nil && stays(p) {
			up++
		}
	}
	if slices.Contains(c.coordinators, p.Address) && up <= len(c.coordinators)/2 {
		return "no quorum of the coordinators is up"
	}
	return ""
}

// Excluded are the entries of the list of exclusions.
func (c *Cluster) Excluded() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.exclusions)
}

// Draining reports whether a process with an instance_id is excluded and has data.
func (c *Cluster) Draining(id string) bool { return c.DrainingProcesses(id) > 0 }

// DrainingProcesses is how many processes with an instance_id are excluded and have data.
func (c *Cluster) DrainingProcesses(id string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if p.ID == id && c.draining(p) {
			n++
		}
	}
	return n
}

// Coordinators are the addresses of the coordinators.
func (c *Cluster) Coordinators() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.coordinators)
}

// Commands are the commands that have changed something, or have tried to, in their order.
func (c *Cluster) Commands() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Size is how many processes there are.
func (c *Cluster) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.processes)
}

// Spare reports whether the cluster can do without one of its processes: the copies, the log servers and the coordinators have zones left.
func (c *Cluster) Spare() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	logs := 0
	for _, p := range c.processes {
		if p.Class != storageClass {
			logs++
		}
	}
	return len(c.processes) > max(c.copies, len(c.coordinators)) && logs > c.copies
}
