// Package etcdsim answers: what would an etcd cluster say, and what would it lose, if this happened to its members?
//
// It is a small raft cluster without a clock, without dice and without goroutines: Tick moves it on, everything else is
// done by the caller, and the same calls give the same history. It stands behind etcd.API, so the client's judgement is
// the real one. What is true of it (Truth's functions) is computed from its members' disks, never from what they say.
package etcdsim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"usher.sh/usher/internal/system/etcd"
)

// Cluster is a simulated etcd cluster. Its methods may be called by several goroutines at once.
type Cluster struct {
	mu      sync.Mutex
	members []*member
	configs [][]voter         // that were ever proposed; the first is empty
	gone    map[uint64]string // names of members that were removed
	alarms  []etcd.Alarm
	writes  []write
	faults  map[string]Fault
	added   int
	domain  string // of peer URLs
}

// write is a value that a client has sent; acknowledged is set once the client has got the answer.
type write struct {
	value        string
	acknowledged bool
}

// entry of a log. config is the place in the cluster's configs of the one that it brings, 0: none.
type entry struct {
	term   uint64
	value  string
	config int
}

// member is a process and its disk.
type member struct {
	id   uint64
	name string

	// On disk.
	term    uint64
	log     []entry
	config  []voter // as it has applied it
	applied uint64
	wiped   bool // the disk is lost: a process of this identity never starts again

	// In memory.
	up     bool
	leader uint64
	former *etcd.Status // what it said a while ago, for stale answers

	// Around it.
	island  int  // members of one island reach each other
	hidden  bool // Usher does not reach it, its peers do
	slow    int  // entries that it takes in one Tick; 0: any number
	started bool
	named   bool // the configuration has its name, since it is one of those that form the cluster
	leaving bool // its removal is proposed
}

// voter is an entry of the configuration.
type voter struct {
	id      uint64
	learner bool
}

// New makes a cluster whose members have started and elected the first one.
func New(names ...string) *Cluster {
	c := Empty(domain)
	var config []voter
	for _, name := range names {
		m := c.create(name)
		m.up, m.started = true, true
		config = append(config, voter{id: m.id})
	}
	c.configs = [][]voter{nil, config}
	for _, m := range c.members {
		m.config, m.log = config, []entry{{config: 1}}
	}
	c.elect()
	c.replicate()
	return c
}

// Empty makes a cluster that has no member yet: those that Form it are the first. Hosts of peers are names in a domain.
func Empty(domain string) *Cluster {
	return &Cluster{gone: map[uint64]string{}, faults: map[string]Fault{}, domain: domain, configs: [][]voter{nil}}
}

// create makes a member of a name. Each that is added has an id of its own, even under a name that was there before.
func (c *Cluster) create(name string) *member {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", name, c.added)
	c.added++
	m := &member{id: h.Sum64(), name: name}
	c.members = append(c.members, m)
	return m
}

// Endpoints are the client URLs of all members.
func (c *Cluster) Endpoints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var urls []string
	for _, m := range c.members {
		urls = append(urls, URL(m.name))
	}
	return urls
}

// URL is the client URL of a member.
func URL(name string) string { return "http://" + name + ":2379" }

// domain is that of pods of StatefulSet and Service etcd in namespace db.
const domain = "etcd.db.svc"

// PeerURL is the peer URL of a member of a cluster that New has made, and of its successor of the same name.
func PeerURL(name string) string { return "http://" + name + "." + domain + ":2380" }

// peerURL is the peer URL of a member, and of its successor of the same name.
func (c *Cluster) peerURL(name string) string { return "http://" + name + "." + c.domain + ":2380" }

func (c *Cluster) byName(name string) *member {
	i := slices.IndexFunc(c.members, func(m *member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return c.members[i]
}

// NameOf returns the name of the member of an id that is on the list of members, "" where there is none.
func (c *Cluster) NameOf(id uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.byID(id); m != nil && c.gone[id] == "" {
		return m.name
	}
	return ""
}

// Ran reports whether the process of the member of a name has ever done its work.
func (c *Cluster) Ran(name string) bool {
	ran := false
	c.with(name, func(m *member) { ran = m.started })
	return ran
}

func (c *Cluster) byID(id uint64) *member {
	i := slices.IndexFunc(c.members, func(m *member) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return c.members[i]
}

// with runs f on the member of that name; without one, nothing happens.
func (c *Cluster) with(name string, f func(*member)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.byName(name); m != nil {
		f(m)
	}
}
