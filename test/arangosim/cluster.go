package arangosim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"usher.sh/usher/test/httpfault"
)

// Config is what a deployment is made of.
type Config struct {
	Agents, DBServers, Coordinators int
	// Singles make it an active failover deployment; the first leads.
	Singles int
	// Secret signs tokens; empty: no request needs one.
	Secret string
	// KeepJobs is for how many ticks the supervision remembers a job that has ended. Default: 100.
	KeepJobs int
	// Restart is for how many ticks an agent is away that was asked to shut down. Default: 3.
	Restart int
	// Host is where the n-th server of a kind (AGNT, PRMR, CRDN, SNGL) listens, as HOST:PORT; nil: a name that is made of its id, or in a dump what
	// that says.
	Host func(kind string, n int) string
}

// kind is what a process is.
type kind string

const (
	agent       kind = "AGNT"
	dbserver    kind = "PRMR"
	coordinator kind = "CRDN"
	single      kind = "SNGL"
)

// process is one server with its disk.
type process struct {
	id   string
	kind kind
	host string // HOST:PORT
	// scheme is how it says that others speak to it: tcp or ssl.
	scheme string
	up     bool
	// ending: it was asked to shut down and does so at the next tick; back is in how many ticks it starts again, 0: never.
	ending bool
	back   int
	// down counts the ticks since it was last seen up.
	down int
	// disk is the newest write that it has, by shard; a single server's data is one shard named "".
	disk map[string]int

	// Of agents: what it believes, and how far its log goes.
	leader   string
	term     int
	log      int
	commit   int
	isolated bool // no other agent reaches it
	stalled  bool // it answers and stores nothing new
	// sinceContact counts the ticks since other agents reached it.
	sinceContact int
}

// Cluster is a simulated deployment. Its methods may be called by several goroutines at once.
type Cluster struct {
	httpfault.Faults

	mu        sync.Mutex
	config    Config
	tree      tree
	processes []*process
	removed   []*process // servers that are on no list any more
	now       time.Time
	jobs      int             // the last id given out
	ended     map[string]int  // ticks since a job ended
	acked     map[string]int  // the newest acknowledged write, by shard
	gone      map[string]bool // shards whose leader went on without an acknowledged write
	forgetful bool            // moves of shards that fail are forgotten
	requests  []string
	renewed   int // servers that were made in the place of others
	// version and engine are what servers say of themselves.
	version, engine string
}

// empty makes a deployment without servers, and without a state.
func empty(config Config) *Cluster {
	c := &Cluster{
		config: config, tree: tree{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), jobs: 1000,
		ended: map[string]int{}, acked: map[string]int{}, gone: map[string]bool{}, version: "3.11.14", engine: "rocksdb",
	}
	c.config.KeepJobs = cmp.Or(config.KeepJobs, 100)
	c.config.Restart = cmp.Or(config.Restart, 3)
	return c
}

// failoverLeader is where the agency names the leader of an active failover deployment.
const failoverLeader = "Plan/AsyncReplication/Leader"

// New makes a deployment in good health, without collections.
func New(config Config) *Cluster {
	c := empty(config)
	c.add(agent, config.Agents)
	c.plant()
	c.add(dbserver, config.DBServers)
	c.add(coordinator, config.Coordinators)
	c.add(single, config.Singles)
	if config.Singles > 0 {
		c.tree.set(failoverLeader, ID(string(single), 0))
		c.acked[""] = 1
		for _, p := range c.of(single) {
			p.disk[""] = 1
		}
	}
	c.elect()
	c.replicate()
	return c
}

// plant sets what is empty in a deployment that has just begun, in the shapes that ArangoDB has for it.
func (c *Cluster) plant() {
	for _, path := range []string{
		"Plan/Collections", "Plan/DBServers", "Plan/Coordinators", "Plan/Singles", "Plan/AsyncReplication", "Current/Collections",
		"Current/ServersRegistered", "Supervision/Health", "Supervision/DBServers", "Target/FailedServers", "Target/MapUniqueToShortID",
		"Target/ToDo", "Target/Pending", "Target/Finished", "Target/Failed",
	} {
		c.tree.set(path, map[string]any{})
	}
	c.tree.set("Target/CleanedServers", []any{})
	c.tree.set("Target/ToBeCleanedServers", []any{})
}

// ID is the id of the n-th server of a kind: AGNT, PRMR, CRDN or SNGL.
func ID(kind string, n int) string { return fmt.Sprintf("%s-%c", kind, 'a'+n) }

func (c *Cluster) add(k kind, count int) {
	for n := range count {
		c.join(&process{id: ID(string(k), n), kind: k, host: c.host(k, n), scheme: tcp})
	}
}

const tcp = "tcp"

// host is where the n-th server of a kind listens.
func (c *Cluster) host(k kind, n int) string {
	if c.config.Host != nil {
		return c.config.Host(string(k), n)
	}
	return strings.ToLower(ID(string(k), n)) + ".db.svc:8529"
}

func (p *process) endpoint() string { return p.scheme + "://" + p.host }

// web is what HTTP calls its scheme.
func (p *process) web() string {
	if p.scheme == tcp {
		return "http"
	}
	return "https"
}

// lists are where the servers of a kind are planned, and reported; agents are not.
var lists = map[kind]string{dbserver: "DBServers", coordinator: "Coordinators", single: "Singles"}

// join starts a process with an empty disk and, unless it is an agent, registers it in the agency.
func (c *Cluster) join(p *process) {
	p.up, p.disk = true, map[string]int{}
	c.enlist(p)
	list := lists[p.kind]
	if list == "" {
		return
	}
	c.tree.set("Plan/"+list+"/"+p.id, "none")
	c.tree.set("Current/"+list+"/"+p.id, "none")
	c.tree.set("Current/ServersKnown/"+p.id, map[string]any{"rebootId": 1})
	c.tree.set("Current/ServersRegistered/"+p.id, map[string]any{"endpoint": p.endpoint()})
	c.tree.set("Target/MapUniqueToShortID/"+p.id, map[string]any{"ShortName": list + "-" + p.id, "TransactionID": len(c.processes)})
	c.setHealth(p, "GOOD")
}

func (c *Cluster) enlist(p *process) {
	c.processes = append(c.processes, p)
	slices.SortFunc(c.processes, func(a, b *process) int { return strings.Compare(a.id, b.id) })
}

// remove takes a server out of the agency for good, as a coordinator does.
func (c *Cluster) remove(p *process) {
	for _, path := range []string{
		"Plan/DBServers/", "Plan/Coordinators/", "Current/ServersRegistered/", "Current/DBServers/", "Current/Coordinators/",
		"Supervision/Health/", "Target/MapUniqueToShortID/", "Current/ServersKnown/",
	} {
		c.tree.set(path+p.id, nil)
	}
	c.tree.set("Target/RemovedServers/"+p.id, c.stamp())
	c.tree.set("Target/FailedServers/"+p.id, nil) // by the supervision, which looks after those that are planned
	c.processes = slices.DeleteFunc(c.processes, func(other *process) bool { return other == p })
	c.removed = append(c.removed, p)
	c.written()
}

// used reports whether a server has shards by plan or in fact.
func (c *Cluster) used(id string) bool {
	return slices.ContainsFunc(c.places(), func(at place) bool {
		return slices.Contains(bares(c.tree.strings(at.plan())), id) || slices.Contains(bares(c.tree.strings(at.current())), id)
	})
}

// AddDBServer lets another dbserver join and returns its id.
func (c *Cluster) AddDBServer() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.of(dbserver))
	id := ID(string(dbserver), n)
	c.join(&process{id: id, kind: dbserver, host: c.host(dbserver, n), scheme: tcp})
	return id
}

// AddCollection makes a collection with one shard for each list of servers, the leader first, in sync everywhere. A
// replication of 0 makes it a satellite.
func (c *Cluster) AddCollection(name string, replication int, shards ...[]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	planned, reported := map[string]any{}, map[string]any{}
	for i, servers := range shards {
		id := fmt.Sprintf("s%s%d", name, i)
		planned[id] = anys(servers)
		reported[id] = map[string]any{"servers": anys(servers), "failoverCandidates": anys(servers), "error": false}
		key := shardKey("_system", name, id)
		c.acked[key] = 1
		for _, server := range servers {
			c.find(server).disk[key] = 1
		}
	}
	var factor any = replication
	if replication == 0 {
		factor = "satellite"
	}
	c.tree.set("Plan/Collections/_system/"+name, map[string]any{"name": name, "replicationFactor": factor, "writeConcern": 1, "shards": planned})
	c.tree.set("Current/Collections/_system/"+name, reported)
}

func shardKey(db, collection, shard string) string { return db + "/" + collection + "/" + shard }

func (c *Cluster) find(id string) *process {
	for _, p := range c.processes {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (c *Cluster) of(k kind) []*process {
	return slices.DeleteFunc(slices.Clone(c.processes), func(p *process) bool { return p.kind != k })
}

// Tick lets a second pass.
func (c *Cluster) Tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	for _, p := range c.processes {
		c.live(p)
		p.down++
		p.sinceContact++
		if p.up {
			p.down = 0
		}
		if p.up && !p.isolated {
			p.sinceContact = 0
		}
	}
	c.elect()
	c.replicate()
	if !c.agencyWorks() {
		return
	}
	c.supervise()
	c.maintain()
	c.follow()
}

// Members are the ids of all servers, sorted.
func (c *Cluster) Members() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]string, len(c.processes))
	for i, p := range c.processes {
		ids[i] = p.id
	}
	return ids
}
