package arangosim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Load makes a deployment whose agency holds a dump of a real one (GET /_api/agency/state: {"agency": {"arango": {…}}}). Its
// servers are up, and those in sync have every write; others have nothing. A dump does not say who the agents are: three are
// made for it. Jobs that name no server end at the first tick.
func Load(dump []byte) (*Cluster, error) {
	var state struct {
		Agency struct {
			Arango map[string]any `json:"arango"`
		} `json:"agency"`
	}
	if err := json.Unmarshal(dump, &state); err != nil {
		return nil, fmt.Errorf("reading a dump of an agency: %w", err)
	}
	if state.Agency.Arango == nil {
		return nil, errors.New("reading a dump of an agency: it has no tree /arango")
	}
	c := New(Config{Agents: 3})
	c.tree = state.Agency.Arango
	for list, k := range map[string]kind{"DBServers": dbserver, "Coordinators": coordinator, "Singles": single} {
		for _, id := range c.tree.keys("Plan/" + list) {
			c.adopt(k, id)
		}
	}
	for _, at := range c.places() {
		c.acked[at.key()] = 1
		for _, id := range bares(c.tree.strings(at.current())) {
			if p := c.find(id); p != nil {
				p.disk[at.key()] = 1
			}
		}
	}
	return c, nil
}

// adopt makes the process of a server that a dump has registered already.
func (c *Cluster) adopt(k kind, id string) {
	_, host, found := strings.Cut(c.tree.text("Supervision/Health/"+id+"/Endpoint"), "://")
	if !found {
		host = strings.ToLower(id) + ".db.svc:8529"
	}
	c.enlist(&process{id: id, kind: k, host: host, up: true, disk: map[string]int{}})
}
