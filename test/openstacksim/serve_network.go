package openstacksim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// hang is the status of an answer that does not come.
const hang = -1

// collections are where Neutron has what an agent of a type has: under the agent, by itself, and the other way round.
var collections = []struct{ short, extension, under, key, body, one, holders string }{
	{"l3", "l3_agent_scheduler", "l3-routers", "routers", "router_id", "routers", "l3-agents"},
	{"dhcp", "dhcp_agent_scheduler", "dhcp-networks", "networks", "network_id", "networks", "dhcp-agents"},
	{"bgp", "bgp_dragent_scheduler", "bgp-drinstances", "bgp_speakers", "bgp_speaker_id", "bgp-speakers", "bgp-dragents"},
}

func neutronError(kind, message string) object {
	return object{"NeutronError": object{"type": kind, "message": message, "detail": ""}}
}

func unknownCall() (int, object) {
	return http.StatusNotFound, object{"message": "The resource could not be found.<br /><br />\n\n\n", "code": "404 Not Found", "title": "Not Found"}
}

func (c *Cloud) neutron(r *http.Request, sent []byte) (int, object) {
	path := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/v2.0"), "/"), "/")
	switch {
	case c.NoAdmin:
		return http.StatusForbidden, neutronError("PolicyNotAuthorized", "(rule:get_agents) is disallowed by policy")
	case path[0] == "extensions" && len(path) == 1:
		return http.StatusOK, object{"extensions": c.extensions()}
	case path[0] == "agents" && !slices.Contains(c.Missing, "agent"):
		return c.serveAgents(r.Method, path, r.URL.Query().Get("marker"), sent)
	}
	for _, in := range collections {
		if path[0] != in.one || len(path) < 2 || slices.Contains(c.Missing, in.extension) {
			continue
		}
		t := c.thing(path[1])
		switch {
		case len(path) == 3 && path[2] == in.holders:
			return http.StatusOK, object{"agents": c.holders(t)}
		case t == nil:
			return http.StatusNotFound, neutronError("NotFound", path[1]+" could not be found")
		}
		return http.StatusOK, object{strings.TrimSuffix(in.key, "s"): t.said()}
	}
	return unknownCall()
}

// extensions are those that are loaded, as far as they are asked for.
func (c *Cloud) extensions() []object {
	all := []object{}
	for _, alias := range []string{"agent", "l3_agent_scheduler", "dhcp_agent_scheduler", "bgp_dragent_scheduler"} {
		if !slices.Contains(c.Missing, alias) {
			all = append(all, object{"alias": alias, "name": alias, "links": []object{}})
		}
	}
	return all
}

func (t *Thing) said() object {
	zones := t.Zones
	if zones == nil {
		zones = []string{}
	}
	return object{"id": t.ID, "name": t.Name, "ha": t.HA, "distributed": t.Distributed, "availability_zone_hints": zones}
}

func (a *Agent) said() object {
	return object{
		"id": a.ID, "agent_type": a.Type, "host": a.Host, "alive": a.Alive, "admin_state_up": a.Up, "description": a.Description, "availability_zone": a.Zone,
		"configurations": object{"agent_mode": a.Mode},
	}
}

// holders answers with none for what does not exist, as Neutron does.
func (c *Cloud) holders(t *Thing) []object {
	all := []object{}
	if t == nil {
		return all
	}
	for _, id := range t.Holders {
		said := c.agent(id).said()
		if said["ha_state"] = nil; t.HA {
			said["ha_state"] = t.state(id)
		}
		all = append(all, said)
	}
	return all
}

func (c *Cloud) serveAgents(method string, path []string, marker string, sent []byte) (int, object) {
	if len(path) == 1 {
		all := []object{}
		for _, a := range c.agents {
			all = append(all, a.said())
		}
		return http.StatusOK, c.page(all, "agents", "id", marker, "")
	}
	a := c.agent(path[1])
	if a == nil {
		return http.StatusNotFound, neutronError("AgentNotFound", "Agent "+path[1]+" could not be found.")
	}
	switch {
	case len(path) == 2 && method == http.MethodPut:
		return c.putAgent(a, sent)
	case len(path) == 2 && method == http.MethodDelete:
		c.deleteAgent(a)
		return http.StatusNoContent, nil
	case len(path) < 3:
		return http.StatusOK, object{"agent": a.said()}
	}
	for _, in := range collections {
		if path[2] == in.under && !slices.Contains(c.Missing, in.extension) {
			return c.serveThings(a, in.short, in.key, in.body, method, path[3:], sent)
		}
	}
	return unknownCall()
}

func (c *Cloud) putAgent(a *Agent, sent []byte) (int, object) {
	var asked struct {
		Agent struct {
			Description *string `json:"description"`
			Up          *bool   `json:"admin_state_up"`
		} `json:"agent"`
	}
	const longest = 255
	if json.Unmarshal(sent, &asked) != nil || asked.Agent.Description != nil && len(*asked.Agent.Description) > longest {
		return http.StatusBadRequest, neutronError("HTTPBadRequest", "Invalid input for description.")
	}
	if asked.Agent.Description != nil {
		a.Description = *asked.Agent.Description
	}
	if asked.Agent.Up != nil {
		a.Up = *asked.Agent.Up
	}
	return http.StatusOK, object{"agent": a.said()}
}

// deleteAgent unbinds what the agent has. One that is alive reports again, under another id.
func (c *Cloud) deleteAgent(a *Agent) {
	c.agents = slices.DeleteFunc(c.agents, func(other *Agent) bool { return other == a })
	for _, t := range c.things {
		t.drop(a.ID)
	}
	if a.Alive {
		c.deleted = append(c.deleted, a)
	}
}

// DeleteAgent deletes the agent of a host, by its short type.
func (c *Cloud) DeleteAgent(short, host string) {
	a := c.Agent(short, host)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleteAgent(c.agent(a.ID))
}

func (t *Thing) drop(agent string) {
	t.Holders = slices.DeleteFunc(t.Holders, func(id string) bool { return id == agent })
	if t.Active == agent {
		t.Active = ""
	}
}

func (c *Cloud) serveThings(a *Agent, short, key, body, method string, rest []string, sent []byte) (int, object) {
	switch {
	case method == http.MethodGet:
		all := []object{}
		for _, t := range c.things {
			if t.Type == agentTypes[short] && slices.Contains(t.Holders, a.ID) {
				all = append(all, t.said())
			}
		}
		return http.StatusOK, object{key: all}
	case method == http.MethodDelete && len(rest) == 1:
		return c.take(a, short, rest[0])
	case method == http.MethodPost:
		var asked map[string]string
		if json.Unmarshal(sent, &asked) != nil || c.thing(asked[body]) == nil {
			return http.StatusNotFound, neutronError("NotFound", asked[body]+" could not be found")
		}
		return c.give(a, short, c.thing(asked[body]))
	}
	return unknownCall()
}

func (c *Cloud) take(a *Agent, short, id string) (int, object) {
	t := c.thing(id)
	switch {
	case t == nil:
		return http.StatusNotFound, neutronError("NotFound", id+" could not be found")
	case strings.HasPrefix(a.Mode, "dvr") && a.Mode != "dvr_snat":
		return http.StatusConflict, neutronError("DVRL3CannotRemoveFromDvrAgent", "Not allowed to manually remove a router from an agent in 'dvr' mode.")
	case short != "l3" && !slices.Contains(t.Holders, a.ID):
		return http.StatusConflict, neutronError("NotHosted", fmt.Sprintf("%s is not hosted by the agent %s.", id, a.ID))
	}
	t.drop(a.ID)
	t.Reserved = short == "dhcp"
	return http.StatusNoContent, nil
}

// speaks reports whether an agent has a speaker. Neutron gives it one.
func (c *Cloud) speaks(a *Agent) bool {
	return slices.ContainsFunc(c.things, func(t *Thing) bool { return t.Type == agentTypes["bgp"] && slices.Contains(t.Holders, a.ID) })
}

// give binds a thing to an agent. An L3 agent that does not answer keeps the caller waiting, and the binding stands already.
func (c *Cloud) give(a *Agent, short string, t *Thing) (int, object) {
	has := slices.Contains(t.Holders, a.ID)
	switch {
	case a.Type != agentTypes[short] || !a.Up:
		return http.StatusNotFound, neutronError("InvalidL3Agent", fmt.Sprintf("Agent %s is not a L3 Agent or has been disabled", a.ID))
	case c.Refuses != "" && a.Host == c.Refuses:
		return http.StatusConflict, neutronError("RouterSchedulingFailed", fmt.Sprintf("Failed scheduling router %s to the L3 Agent %s.", t.ID, a.ID))
	case short == "l3" && has:
		return http.StatusCreated, nil
	case short == "bgp" && c.speaks(a):
		return http.StatusConflict, neutronError("DrAgentAssociationError", fmt.Sprintf("BgpDrAgent %s is already associated to a BGP speaker.", a.ID))
	case has, short == "l3" && !t.HA && len(t.Holders) > 0:
		return http.StatusConflict, neutronError("Hosted", fmt.Sprintf("%s has been already hosted by the agent %s.", t.ID, t.Holders[0]))
	}
	t.Holders, t.Reserved = append(t.Holders, a.ID), false
	if short == "l3" && (!a.Alive || a.Mute) {
		return hang, nil
	}
	return http.StatusCreated, nil
}
