package fdbsim

import (
	"slices"
	"strings"
	"time"
)

// Empty makes a cluster without processes and without a database. Processes join it by a cluster file that they are given.
func Empty(copies int) *Cluster {
	return &Cluster{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), copies: copies, generation: 2, unformed: true, joined: true}
}

// Join has a process run that has taken a cluster file. One of its ID that has ended goes on with its disk, also at another address. Before there is a database
// a process of another file has met others than those.
func (c *Cluster) Join(joins Process, file string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unformed && file != c.connection() {
		c.meet(file)
	}
	p := c.find(joins.ID)
	if p == nil {
		p = &Process{ID: joins.ID, first: joins.Address, Version: version, disk: 1}
		c.processes = append(c.processes, p)
	}
	if p.running {
		return
	}
	p.Zone, p.Class, p.Address, p.file, p.running, p.since = joins.Zone, joins.Class, joins.Address, file, true, c.now
	if !c.unformed && p.Class != storageClass {
		c.recover()
	}
}

// meet has the cluster be the one that a cluster file leads to.
func (c *Cluster) meet(file string) {
	name, list, _ := strings.Cut(strings.TrimSpace(file), "@")
	c.name, c.coordinators = name, strings.Split(list, ",")
	for _, p := range c.processes {
		if p.file != file && p.running {
			p.running, p.since, p.missed = false, c.now, c.now
		}
	}
}

// Formed reports whether there is a database.
func (c *Cluster) Formed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.unformed
}

// Serving reports whether there is a database and it takes transactions, or will once a recovery is over.
func (c *Cluster) Serving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.unformed && c.quorum() && len(c.logs) >= c.copies && !slices.ContainsFunc(c.shards, func(s *shard) bool { return len(c.live(s)) == 0 })
}

// LastCopy reports whether something is lost for good with the disks of processes: data, or the record of a quorum of the coordinators.
func (c *Cluster) LastCopy(ids ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.shards, func(s *shard) bool { return c.disks(s) > 0 && c.disks(s, ids...) == 0 }) {
		return true
	}
	stay := 0
	for _, address := range c.coordinators {
		if p := c.find(address); p != nil && p.disk == 1 && !slices.Contains(ids, p.ID) {
			stay++
		}
	}
	return stay <= len(c.coordinators)/2
}

// Works reports whether a process takes part in a database: it runs, the status has its locality, and nothing excludes it.
func (c *Cluster) Works(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	return !c.unformed && p != nil && p.running && c.now.Sub(p.since) >= localityAfter && !c.excluded(p)
}
