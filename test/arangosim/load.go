package arangosim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// dump is what GET /_api/agency/state answers of a real agency. Older versions than 3.10 say who the agents are, and how long their log is.
type dump struct {
	Index  int `json:"index"`
	Agency struct {
		Arango map[string]any `json:"arango"`
		Agents struct {
			Pool map[string]string `json:"pool"`
		} `json:".agency"`
	} `json:"agency"`
}

// Load makes a deployment whose agency holds a dump of a real one (GET /_api/agency/state: {"agency": {"arango": {…}}}), and whose supervision
// goes on from there. What it takes of config is Secret, KeepJobs, Restart and Host; and Agents, where the dump does not say who they are: three by
// default are made for it. All is taken as the dump has it, but for the addresses where config has Host. What a dump cannot say, and is so here:
//
//   - All servers are up, whatever their health is by the dump, and agents have every entry of their log. The first by its id leads.
//   - How much data there is: a server in sync has every write, of which there was one in each shard, and another has nothing.
//   - Jobs that name no server end at the first tick.
//   - The time is not the dump's.
func Load(state []byte, config Config) (*Cluster, error) {
	var from dump
	if err := json.Unmarshal(state, &from); err != nil {
		return nil, fmt.Errorf("reading a dump of an agency: %w", err)
	}
	if from.Agency.Arango == nil {
		return nil, errors.New("reading a dump of an agency: it has no tree /arango")
	}
	c := empty(config)
	c.tree = from.Agency.Arango
	c.learn()
	c.adoptAgents(&from)
	for _, of := range []struct {
		list string
		kind kind
	}{{"DBServers", dbserver}, {"Coordinators", coordinator}, {"Singles", single}} {
		for n, id := range c.tree.keys("Plan/" + of.list) {
			c.adopt(of.kind, id, n)
		}
	}
	c.fill()
	c.elect()
	c.replicate()
	return c, nil
}

// learn takes from the tree what new servers say of themselves, and what the ids of jobs go on from.
func (c *Cluster) learn() {
	for _, id := range c.tree.keys("Supervision/Health") {
		c.version = cmp.Or(c.tree.text("Supervision/Health/"+id+"/Version"), c.version)
		c.engine = cmp.Or(c.tree.text("Supervision/Health/"+id+"/Engine"), c.engine)
	}
	for _, state := range []string{"ToDo", "Pending", "Finished", "Failed"} {
		for _, id := range c.tree.keys("Target/" + state) {
			if n, err := strconv.Atoi(id); err == nil {
				c.jobs = max(c.jobs, n)
			}
			if state == "Finished" || state == "Failed" {
				c.ended[id] = 0
			}
		}
	}
}

// adoptAgents makes those that a dump names, or as many as it may have been.
func (c *Cluster) adoptAgents(from *dump) {
	if len(from.Agency.Agents.Pool) == 0 {
		c.add(agent, cmp.Or(c.config.Agents, 3))
	}
	for n, id := range sortedKeys(from.Agency.Agents.Pool) {
		p := &process{id: id, kind: agent, up: true, disk: map[string]int{}}
		p.listen(from.Agency.Agents.Pool[id])
		c.rehost(p, n)
		c.enlist(p)
	}
	for _, p := range c.of(agent) {
		p.log, p.commit = from.Index, from.Index
	}
}

// adopt makes the process of the n-th server of a kind, which a dump has registered already.
func (c *Cluster) adopt(k kind, id string, n int) {
	p := &process{id: id, kind: k, up: true, disk: map[string]int{}, host: c.host(k, n), scheme: tcp}
	health, registered := "Supervision/Health/"+id+"/Endpoint", "Current/ServersRegistered/"+id+"/endpoint"
	p.listen(cmp.Or(c.tree.text(health), c.tree.text(registered)))
	if c.rehost(p, n); c.config.Host != nil {
		for _, path := range []string{health, registered} {
			if c.tree.text(path) != "" {
				c.tree.set(path, p.endpoint())
			}
		}
	}
	c.enlist(p)
}

// listen takes an address as servers write it: SCHEME://HOST:PORT.
func (p *process) listen(endpoint string) {
	if scheme, host, found := strings.Cut(endpoint, "://"); found {
		p.scheme, p.host = scheme, host
	}
}

// rehost has the n-th server of its kind listen where config has it.
func (c *Cluster) rehost(p *process, n int) {
	if c.config.Host != nil {
		p.host = c.config.Host(string(p.kind), n)
	}
}

// fill puts one write of each shard on the disks of those that are in sync.
func (c *Cluster) fill() {
	for _, at := range c.places() {
		c.acked[at.key()] = 1
		for _, id := range bares(c.tree.strings(at.current())) {
			if p := c.find(id); p != nil {
				p.disk[at.key()] = 1
			}
		}
	}
	if c.tree.text(failoverLeader) == "" {
		return
	}
	c.acked[""] = 1
	for _, p := range c.of(single) {
		p.disk[""] = 1
	}
}

func sortedKeys(of map[string]string) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
