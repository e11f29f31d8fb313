package arangosim

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
)

// ServeHTTP answers as the server does whose address is the request's host.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, up := c.listening(r.Host)
	body, err := io.ReadAll(r.Body)
	if !up || err != nil {
		http.Error(w, "no such server", http.StatusBadGateway)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r.Method+" "+id+" "+r.URL.Path)
	if r.URL.Path != "/_admin/server/availability" && !c.authorized(r.Header.Get("Authorization")) {
		fail(w, http.StatusUnauthorized, 11, "not authorized to execute this request")
		return
	}
	p := c.find(id)
	if p.kind == agent {
		c.serveAgent(w, r, p, body)
		return
	}
	c.serveServer(w, r, p, body)
}

// Requests are what was carried out, as METHOD SERVER PATH, oldest first.
func (c *Cluster) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

func (c *Cluster) serveAgent(w http.ResponseWriter, r *http.Request, p *process, body []byte) {
	switch r.Method + " " + r.URL.Path {
	case "GET /_api/agency/config":
		answer(w, http.StatusOK, c.agentConfig(p))
	case "POST /_api/agency/read":
		c.serveRead(w, r, p, body)
	case "POST /_api/agency/write":
		c.serveWrite(w, r, p, body)
	case "DELETE /_admin/shutdown":
		p.ending = true
		succeed(w, http.StatusOK, map[string]any{"result": "OK"})
	default:
		fail(w, http.StatusNotFound, 404, "unknown path '"+r.URL.Path+"'")
	}
}

// handsOn answers where an agent does not lead, and reports whether it has.
func (c *Cluster) handsOn(w http.ResponseWriter, r *http.Request, p *process) bool {
	leader := c.find(p.leader)
	switch {
	case leader == nil || leader == p && c.leader() != p:
		answer(w, http.StatusServiceUnavailable, map[string]any{"message": "No leader"})
		return true
	case leader != p:
		w.Header().Set("Location", p.web()+"://"+leader.host+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	return false
}

func (c *Cluster) serveRead(w http.ResponseWriter, r *http.Request, p *process, body []byte) {
	var transactions [][]string
	switch {
	case c.handsOn(w, r, p):
	case json.Unmarshal(body, &transactions) != nil:
		answer(w, http.StatusBadRequest, map[string]any{"message": "bad request"})
	default:
		results := []any{}
		for _, paths := range transactions {
			results = append(results, c.tree.pick(paths))
		}
		answer(w, http.StatusOK, results)
	}
}

func (c *Cluster) serveServer(w http.ResponseWriter, r *http.Request, p *process, body []byte) {
	switch r.Method + " " + r.URL.Path {
	case "GET /_admin/server/role":
		c.serveRole(w, p)
	case "GET /_admin/server/availability":
		if p.kind == single && c.config.Agents > 0 && c.tree.text(failoverLeader) != p.id {
			fail(w, http.StatusServiceUnavailable, 503, "service unavailable due to startup or maintenance mode")
			return
		}
		succeed(w, http.StatusOK, map[string]any{"mode": "default"})
	case "GET /_admin/cluster/health":
		if p.kind == single && c.config.Agents == 0 {
			fail(w, http.StatusForbidden, 11, "only allowed on coordinators")
			return
		}
		succeed(w, http.StatusOK, map[string]any{"ClusterId": "simulated", "Health": c.healthOfAll()})
	default:
		if p.kind != coordinator {
			fail(w, http.StatusForbidden, 11, "only allowed on coordinators")
			return
		}
		c.serveCoordinator(w, r, body)
	}
}

func (c *Cluster) serveRole(w http.ResponseWriter, p *process) {
	role := map[kind]string{coordinator: "COORDINATOR", dbserver: "PRIMARY", single: "SINGLE"}[p.kind]
	mode := "default"
	if p.kind == single && c.config.Agents > 0 {
		mode = "resilient"
	}
	succeed(w, http.StatusOK, map[string]any{"role": role, "mode": mode})
}

// healthOfAll has LastAckedTime as ArangoDB has it: text for servers, a number for agents.
func (c *Cluster) healthOfAll() map[string]any {
	all := map[string]any{}
	roles := map[kind]string{dbserver: "DBServer", coordinator: "Coordinator", single: "Single", agent: "Agent"}
	for _, p := range c.processes {
		one := map[string]any{"Role": roles[p.kind], "Endpoint": p.endpoint(), "Status": "GOOD", "CanBeDeleted": false}
		if p.kind == agent {
			one["LastAckedTime"], one["Leader"] = 0.312, p.leader
		} else {
			one["LastAckedTime"], one["Status"] = c.stamp(), c.health(p.id)
		}
		all[p.id] = one
	}
	return all
}

func (c *Cluster) serveCoordinator(w http.ResponseWriter, r *http.Request, body []byte) {
	if !c.agencyWorks() {
		fail(w, http.StatusInternalServerError, 1499, "agency communication failed")
		return
	}
	const cluster = "/_admin/cluster/"
	switch r.Method + " " + r.URL.Path {
	case "POST " + cluster + "cleanOutServer":
		c.serveSubmit(w, "cleanOutServer", body)
	case "POST " + cluster + "resignLeadership":
		c.serveSubmit(w, "resignLeadership", body)
	case "POST " + cluster + "cancelAgencyJob":
		c.serveCancel(w, body)
	case "POST " + cluster + "removeServer":
		c.serveRemove(w, body)
	case "GET " + cluster + "numberOfServers":
		succeed(w, http.StatusOK, map[string]any{
			"numberOfCoordinators": nil, "numberOfDBServers": nil, "cleanedServers": c.tree.get("Target/CleanedServers"),
		})
	case "PUT " + cluster + "numberOfServers":
		c.serveReadmit(w, body)
	default:
		fail(w, http.StatusNotFound, 404, "unknown path '"+r.URL.Path+"'")
	}
}

func (c *Cluster) serveSubmit(w http.ResponseWriter, kind string, body []byte) {
	var asked struct {
		Server string `json:"server"`
	}
	if json.Unmarshal(body, &asked) != nil || asked.Server == "" {
		fail(w, http.StatusBadRequest, 400, "object with key 'server' expected")
		return
	}
	succeed(w, http.StatusAccepted, map[string]any{"id": c.submit(kind, asked.Server)})
}

func (c *Cluster) serveCancel(w http.ResponseWriter, body []byte) {
	var asked struct {
		ID string `json:"id"`
	}
	switch {
	case json.Unmarshal(body, &asked) != nil || asked.ID == "":
		fail(w, http.StatusBadRequest, 400, "object with key 'id' expected")
	case text(c.job("ToDo", asked.ID), "type") == "resignLeadership" || text(c.job("Pending", asked.ID), "type") == "resignLeadership":
		fail(w, http.StatusBadRequest, 400, "only moveShard and cleanOutServer can be cancelled")
	case !c.cancel(asked.ID):
		fail(w, http.StatusPreconditionFailed, 412, "the job is not running")
	default:
		succeed(w, http.StatusOK, map[string]any{})
	}
}

func (c *Cluster) serveRemove(w http.ResponseWriter, body []byte) {
	var id string
	if json.Unmarshal(body, &id) != nil || id == "" {
		fail(w, http.StatusBadRequest, 400, "string with the id of a server expected")
		return
	}
	switch p := c.find(id); {
	case p == nil || p.kind == agent:
		fail(w, http.StatusNotFound, 404, "unknown server")
	case c.health(id) != "FAILED" || c.used(id) || c.tree.get("Supervision/DBServers/"+id) != nil:
		fail(w, http.StatusPreconditionFailed, 412, "server may not be deleted")
	default:
		c.remove(p)
		answer(w, http.StatusOK, map[string]any{})
	}
}

func (c *Cluster) serveReadmit(w http.ResponseWriter, body []byte) {
	var asked struct {
		CleanedServers *[]string `json:"cleanedServers"`
	}
	if json.Unmarshal(body, &asked) != nil || asked.CleanedServers == nil {
		fail(w, http.StatusBadRequest, 400, "object expected")
		return
	}
	c.tree.set("Target/CleanedServers", anys(*asked.CleanedServers))
	c.written()
	succeed(w, http.StatusOK, map[string]any{})
}

func answer(w http.ResponseWriter, status int, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // the caller has gone
}

// succeed and fail put an answer of a server that is no agent into its envelope.
func succeed(w http.ResponseWriter, status int, value map[string]any) {
	value["error"], value["code"] = false, status
	answer(w, status, value)
}

func fail(w http.ResponseWriter, status, number int, message string) {
	answer(w, status, map[string]any{"error": true, "code": status, "errorNum": number, "errorMessage": message})
}
