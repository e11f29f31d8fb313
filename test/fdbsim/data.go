package fdbsim

import "slices"

// move moves at most one shard a little: to where there is one copy too few, or off what is excluded.
func (c *Cluster) move() {
	for _, s := range c.shards {
		live := c.live(s)
		if len(live) == 0 {
			continue // it is lost, or all that have it are down
		}
		if c.held(s) < c.copies {
			if to := c.target(s); to != nil {
				s.on[to.key()] = to.disk
				return
			}
		}
		if at := slices.IndexFunc(live, c.excluded); at >= 0 && c.keeps(s, live[at]) {
			delete(s.on, live[at].key())
			return
		}
	}
	if !c.forget() {
		c.rebalance()
	}
}

// forget drops copies that are gone for good, those that are too many since a process is back, and those of an excluded process that has ended, once they were made
// elsewhere: the list of exclusions in progress names it until then.
func (c *Cluster) forget() bool {
	for _, s := range c.shards {
		for _, p := range c.processes {
			disk, has := s.on[p.key()]
			if !has {
				continue
			}
			remade := !p.running && c.excluded(p) && !c.conceals(p) && c.keeps(s, p)
			if remade || disk != p.disk && c.held(s) >= c.copies || p.running && disk == p.disk && c.keeps(s, p) {
				delete(s.on, p.key())
				return true
			}
		}
	}
	return false
}

// rebalance moves a copy to a process that has few.
func (c *Cluster) rebalance() {
	for _, s := range c.shards {
		for _, from := range c.live(s) {
			delete(s.on, from.key())
			if to := c.target(s); to != nil && c.stored(from)-c.stored(to) >= 1 && to != from {
				s.on[to.key()] = to.disk
				return
			}
			s.on[from.key()] = from.disk
		}
	}
}

// live are the processes that run, are in the status and have a copy.
func (c *Cluster) live(s *shard) []*Process {
	var all []*Process
	for _, p := range c.processes {
		if disk, has := s.on[p.key()]; has && disk == p.disk && p.running {
			all = append(all, p)
		}
	}
	return all
}

// held is how many copies data distribution counts: those of processes that run and are not excluded, of those that ended moments ago, and of all in
// the zone under maintenance.
func (c *Cluster) held(s *shard) (n int) {
	for _, p := range c.processes {
		disk, has := s.on[p.key()]
		if !has || c.excluded(p) {
			continue
		}
		if p.running && disk == p.disk || c.conceals(p) {
			n++
		}
	}
	return n
}

// seen is the number of copies that the status tells: those on excluded processes count until they are moved.
func (c *Cluster) seen(s *shard) (n int) {
	for _, p := range c.processes {
		disk, has := s.on[p.key()]
		if has && (p.running && disk == p.disk || c.conceals(p)) {
			n++
		}
	}
	return n
}

// keeps reports whether a shard has all of its copies without a process.
func (c *Cluster) keeps(s *shard, without *Process) bool {
	n := 0
	for _, p := range c.live(s) {
		if p != without && !c.excluded(p) {
			n++
		}
	}
	return n >= c.copies
}

// target is the process that gets the next copy: of those in other zones than the copies that count, the one with the fewest.
func (c *Cluster) target(s *shard) *Process {
	var zones []string
	for _, p := range c.processes {
		if disk, has := s.on[p.key()]; has && !c.excluded(p) && p.running && disk == p.disk {
			zones = append(zones, p.Zone)
		}
	}
	var best *Process
	for _, p := range c.processes {
		if p.running && c.stores(p) && !c.excluded(p) && !slices.Contains(zones, p.Zone) && (best == nil || c.stored(p) < c.stored(best)) {
			best = p
		}
	}
	return best
}

// stored is how many shards a process has.
func (c *Cluster) stored(p *Process) (n int) {
	for _, s := range c.shards {
		if disk, has := s.on[p.key()]; has && disk == p.disk {
			n++
		}
	}
	return n
}

// draining reports whether a process is excluded and has data, of the database or of a generation of log servers.
func (c *Cluster) draining(p *Process) bool {
	return c.excluded(p) && (c.stored(p) > 0 || slices.Contains(c.logs, p.key()) || slices.Contains(c.old, p.key()))
}
