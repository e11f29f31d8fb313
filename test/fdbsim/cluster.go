package fdbsim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// How long things take.
const (
	incompleteFor   = 3 * time.Second  // of a recovery: the status says little
	rolesAfter      = 2 * time.Second  // of a recovery: no process has the role storage before, and some not for seconds more
	dataAfter       = 12 * time.Second // of a recovery: how the data is is not known before
	fullyAfter      = 10 * time.Second // of a recovery: the log servers of the generation before are still needed
	localityAfter   = 5 * time.Second  // of a process' start: it is in the status without locality
	goneAfter       = 4 * time.Second  // of a process' end: it is still in the status
	deadFor         = 20 * time.Second // of a process' end: the status waits for it
	issuesFor       = 2 * time.Second  // of a change of the coordinators: the status warns of clients
	lostAfter       = 60 * time.Second // of a process' end: its copies are made anew, and are counted as there before
	maintenanceCost = 100 * time.Second
	moveEvery       = 2 // ticks for each shard that is moved
	storedBytes     = 20 << 20
)

// version is that of fdbcli, and of each process that has no other.
const version = "7.3.79"

// storageClass is the class of processes that do nothing but storage.
const storageClass = "storage"

// Process is a simulated fdbserver.
type Process struct {
	ID, Zone, Class, Address string // ID is its instance_id; "": it has none
	Version                  string

	first   string // the address at which it ran first, by which it is known
	file    string // the cluster file that it has taken; "": it was made with the cluster
	disk    int    // changes when it is lost
	running bool
	since   time.Time // of running, or of not running
	missed  time.Time // when its end was noticed: the end of its zone's maintenance is, too
	hidden  bool
}

// Shard is a piece of the data.
type shard struct {
	on    map[string]int // the disks that have a copy, by process
	order int
}

// Cluster is a simulated cluster. Its methods may be called by several goroutines at once.
type Cluster struct {
	mu           sync.Mutex
	now          time.Time
	copies       int
	processes    []*Process
	shards       []*shard
	exclusions   []string
	coordinators []string  // addresses
	coordinated  time.Time // when they were changed last
	name         string    // of the cluster in its file, DESCRIPTION:ID
	clusterID    int
	former       []string // connection strings that lead to the present coordinators
	generation   int
	recovery     time.Time
	logs, old    []string // processes that are log servers of this generation and of the one before
	maintenance  string
	maintainedTo time.Time
	behind       time.Duration // what the slowest storage server has not read yet
	ticks        int
	calls        []string
	loses, mute  bool
	refuses      bool
	unformed     bool // no database was made
	joined       bool // its processes have joined it by a cluster file; those of other classes than storage keep no data, and it needs all of its logs
}

var redundancy = map[int]string{1: "single", 2: "double", 3: "triple"}

// New makes a cluster of n processes p1, p2, …, each in a zone of its own, that keeps so many copies.
func New(n, copies int) *Cluster {
	c := NewUnformed(n, copies)
	for _, p := range c.processes {
		p.since = c.now.Add(-time.Hour)
	}
	c.form()
	c.recovery = c.now.Add(-time.Hour)
	c.old = nil
	return c
}

// NewUnformed makes the same processes, which have just begun, and no database.
func NewUnformed(n, copies int) *Cluster {
	c := &Cluster{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), copies: copies, generation: 2, name: "sim:id0"}
	for i := 1; i <= n; i++ {
		c.processes = append(c.processes, &Process{
			ID: fmt.Sprintf("p%d", i), Zone: fmt.Sprintf("z%d", i), Class: "unset", Version: version, Address: fmt.Sprintf("10.0.0.%d:4500", 10+i),
			disk: 1, running: true, since: c.now,
		})
	}
	for _, p := range c.processes[:min(n, 2*copies-1)] {
		c.coordinators = append(c.coordinators, p.Address)
	}
	c.unformed = true
	return c
}

// form makes the database.
func (c *Cluster) form() {
	of := slices.DeleteFunc(slices.Clone(c.processes), func(p *Process) bool { return !c.stores(p) })
	n := len(of)
	for i := range 2 * n {
		s := &shard{on: map[string]int{}, order: i}
		var zones []string
		for k := range n {
			if p := of[(i+k)%n]; len(zones) < c.copies && p.running && !slices.Contains(zones, p.Zone) {
				s.on[p.key()], zones = p.disk, append(zones, p.Zone)
			}
		}
		c.shards = append(c.shards, s)
	}
	c.unformed = false
	c.recover()
}

// stores reports whether a process may keep data.
func (c *Cluster) stores(p *Process) bool { return !c.joined || p.Class == storageClass }

// key is what the simulator knows a process by.
func (p *Process) key() string { return cmp.Or(p.first, p.Address) }

// Now is the cluster's time.
func (c *Cluster) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance lets time pass, in ticks of a second.
func (c *Cluster) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass(d)
}

func (c *Cluster) pass(d time.Duration) {
	for range int(d / time.Second) {
		c.tick()
	}
}

func (c *Cluster) tick() {
	c.now = c.now.Add(time.Second)
	c.ticks++
	if c.maintenance != "" && (!c.now.Before(c.maintainedTo) || c.findsLoss()) {
		c.setMaintenance("")
	}
	if c.joined && !c.unformed && len(c.logs) < c.copies && c.sinceRecovery() >= rolesAfter { // it goes on to recover
		c.recover()
	}
	if c.sinceRecovery() >= fullyAfter && c.settled() {
		c.old = nil
	}
	if c.sinceRecovery() >= dataAfter && c.ticks%moveEvery == 0 {
		c.move()
	}
}

func (c *Cluster) sinceRecovery() time.Duration { return c.now.Sub(c.recovery) }

// settled reports whether the log servers of the generation before are needed no more: not while a process is freshly dead, and not while the zone of
// a dead one is under maintenance.
func (c *Cluster) settled() bool {
	return !slices.ContainsFunc(c.processes, func(p *Process) bool {
		return c.conceals(p)
	})
}

// conceals reports whether a process has ended, and the cluster counts what it has as there: for a minute, which begins anew once its zone's maintenance
// has ended, and while that lasts.
func (c *Cluster) conceals(p *Process) bool {
	return !p.running && (c.now.Sub(p.missed) < lostAfter || p.Zone == c.maintenance)
}

// findsLoss reports whether the cluster finds out now that a process of another zone than the one under maintenance, which has copies, is lost. It ends the
// maintenance then, as the real one was seen to after 69 s.
func (c *Cluster) findsLoss() bool {
	return slices.ContainsFunc(c.processes, func(p *Process) bool {
		return !p.running && p.Zone != c.maintenance && c.now.Sub(p.missed) == lostAfter && slices.ContainsFunc(c.shards, func(s *shard) bool {
			_, has := s.on[p.key()]
			return has
		})
	})
}

// Behind has the slowest storage server be so far behind.
func (c *Cluster) Behind(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = d
}

// setMaintenance has another zone be under maintenance; "": none.
func (c *Cluster) setMaintenance(zone string) {
	for _, p := range c.processes {
		if !p.running && p.Zone == c.maintenance && zone != c.maintenance {
			p.missed = c.now
		}
	}
	c.maintenance = zone
}

// recover begins a recovery: log servers are recruited anew, and the zone's maintenance is shorter by what the versions leap.
func (c *Cluster) recover() {
	c.generation += 2
	c.recovery = c.now
	c.old = slices.Clone(c.logs)
	c.maintainedTo = c.maintainedTo.Add(-maintenanceCost)
	c.recruit()
}

// recruit chooses log servers in different zones.
func (c *Cluster) recruit() {
	c.logs = nil
	var zones []string
	for _, p := range c.processes {
		if p.running && !c.excluded(p) && p.Class != storageClass && !slices.Contains(zones, p.Zone) && len(c.logs) < c.copies+1 {
			c.logs, zones = append(c.logs, p.key()), append(zones, p.Zone)
		}
	}
}

// Find returns the process with an instance_id; nil: there is none.
func (c *Cluster) Find(id string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(id)
}

func (c *Cluster) find(id string) *Process {
	at := slices.IndexFunc(c.processes, func(p *Process) bool { return p.ID == id || p.Address == id })
	if at < 0 {
		return nil
	}
	return c.processes[at]
}

// Kill ends a process. The cluster recovers where it was a log server, or of a class that may be a proxy; of another nothing tells but its absence.
func (c *Cluster) Kill(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.find(id); p != nil && p.running {
		p.running, p.since, p.missed = false, c.now, c.now
		if p.Class != storageClass || slices.Contains(c.logs, p.key()) || slices.Contains(c.old, p.key()) {
			c.recover()
		}
	}
}

// Start starts a process that has ended.
func (c *Cluster) Start(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.find(id); p != nil && !p.running {
		p.running, p.since = true, c.now
		if p.Class != storageClass {
			c.recover()
		}
	}
}

// Classes gives the processes classes, in their order, and recovers.
func (c *Cluster) Classes(classes ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, class := range classes {
		c.processes[i].Class = class
	}
	c.recover()
}

// Hide has a process that runs be absent from the status.
func (c *Cluster) Hide(id string, hidden bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.find(id); p != nil {
		p.hidden = hidden
	}
}

// Wipe loses the disk of a process that has ended.
func (c *Cluster) Wipe(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.find(id); p != nil && !p.running {
		p.disk++
	}
}

// Add starts another process.
func (c *Cluster) Add(id, zone string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, &Process{
		ID: id, Zone: zone, Class: "unset", Version: version, Address: fmt.Sprintf("10.0.0.%d:4500", 11+len(c.processes)), disk: 1, running: true, since: c.now,
	})
	c.recover()
}

// Recover has the cluster recover for a reason of its own.
func (c *Cluster) Recover() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recover()
}
