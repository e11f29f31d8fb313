package openstacksim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// object is JSON.
type object map[string]any

func (c *Cloud) serve(w http.ResponseWriter, r *http.Request) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var status int
	var said object
	switch {
	case r.URL.Host == "keystone.sim:5000" && r.Method == http.MethodPost && r.URL.Path == "/v3/auth/tokens":
		status, said = c.login(sent, w.Header())
	case !c.tokens[r.Header.Get("X-Auth-Token")]:
		status, said = http.StatusUnauthorized, object{"error": object{"code": 401, "message": "The request you have made requires authentication."}}
	case r.URL.Host == "nova.sim:8774":
		status, said = c.nova(r, sent)
	case r.URL.Host == "neutron.sim:9696":
		status, said = c.neutron(r, sent)
	case r.URL.Host == "ironic.sim:6385" && len(c.machines) > 0:
		status, said = c.ironic(r, sent)
	default:
		status, said = http.StatusNotFound, fault("itemNotFound", "no such place")
	}
	if said == nil {
		w.WriteHeader(status)
		return
	}
	answer, err := json.Marshal(said)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer) // into memory
}

func fault(name, message string) object { return object{name: object{"message": message}} }

func conflict(message string) (int, object) {
	return http.StatusConflict, fault("conflictingRequest", message)
}

func (c *Cloud) login(sent []byte, header http.Header) (int, object) {
	var asked struct {
		Auth struct {
			Identity struct {
				Password struct {
					User struct{ Name, Password string }
				}
			}
		}
	}
	if json.Unmarshal(sent, &asked) != nil || asked.Auth.Identity.Password.User.Name != "usher" || asked.Auth.Identity.Password.User.Password != password {
		return http.StatusUnauthorized, object{"error": object{"code": 401, "message": "The request you have made requires authentication."}}
	}
	c.made++
	token := fmt.Sprintf("token-%d", c.made)
	c.tokens[token] = true
	header.Set("X-Subject-Token", token)
	var endpoints, networks, machines []object
	for _, region := range c.Regions {
		for _, face := range []string{"public", "internal"} {
			endpoints = append(endpoints, object{"interface": face, "region": region, "region_id": region, "url": "http://nova.sim:8774/v2.1"})
			networks = append(networks, object{"interface": face, "region": region, "region_id": region, "url": "http://neutron.sim:9696"})
			machines = append(machines, object{"interface": face, "region": region, "region_id": region, "url": "http://ironic.sim:6385"})
		}
	}
	catalog := []object{{"type": "compute", "name": "nova", "endpoints": endpoints}, {"type": "network", "name": "neutron", "endpoints": networks}}
	if len(c.machines) > 0 {
		catalog = append(catalog, object{"type": "baremetal", "name": "ironic", "endpoints": machines})
	}
	return http.StatusCreated, object{"token": object{
		"expires_at": c.now.Add(3600e9).Format("2006-01-02T15:04:05.000000Z"),
		"user":       object{"id": User, "name": "usher", "domain": object{"id": "default", "name": "Default"}},
		"catalog":    catalog,
	}}
}

func (c *Cloud) nova(r *http.Request, sent []byte) (int, object) {
	path := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/v2.1"), "/"), "/")
	switch {
	case r.Method == http.MethodGet && path[0] == "":
		return http.StatusOK, object{"version": object{"version": c.Most, "min_version": c.Least}}
	case r.Header.Get("X-OpenStack-Nova-API-Version") == "":
		return http.StatusBadRequest, fault("badRequest", "a microversion is needed here")
	case r.Method == http.MethodGet:
		return c.list(r, strings.Join(path, "/"))
	case r.Method == http.MethodPut && path[0] == "os-services" && len(path) == 2:
		return c.putService(path[1], sent)
	case r.Method == http.MethodPost && len(path) == 3 && path[0] == "servers" && path[2] == "action":
		return c.act(path[1], sent)
	case r.Method == http.MethodDelete && len(path) == 4 && path[2] == "migrations":
		return c.abort(path[1], path[3])
	}
	return http.StatusNotFound, fault("itemNotFound", "no such call")
}

func (c *Cloud) putService(id string, sent []byte) (int, object) {
	var asked struct {
		Status string  `json:"status"`
		Reason *string `json:"disabled_reason"`
		Forced *bool   `json:"forced_down"`
	}
	h := c.host(strings.TrimPrefix(id, "service-"))
	switch {
	case json.Unmarshal(sent, &asked) != nil || asked.Status == "enabled" && asked.Reason != nil:
		return http.StatusBadRequest, fault("badRequest", "Specifying disabled_reason with status 'enabled' is invalid.")
	case h == nil:
		return http.StatusNotFound, fault("itemNotFound", "no such service")
	}
	if asked.Forced != nil {
		if !*asked.Forced && c.unfinished(h) {
			return http.StatusBadRequest, fault("badRequest", "Unable to set forced_down=False: service "+h.Name+" has in-progress evacuations.")
		}
		h.Forced = *asked.Forced
	}
	if asked.Status != "" {
		h.Enabled, h.Reason = asked.Status == "enabled", ""
	}
	if asked.Reason != nil {
		h.Reason = *asked.Reason
	}
	return http.StatusOK, object{"service": object{}}
}

func (c *Cloud) act(id string, sent []byte) (int, object) {
	var asked map[string]*struct {
		Host           *string `json:"host"`
		BlockMigration *string `json:"block_migration"`
		Disk           *bool   `json:"disk_over_commit"`
	}
	if err := json.Unmarshal(sent, &asked); err != nil {
		return http.StatusBadRequest, fault("badRequest", "Invalid input: "+err.Error())
	}
	s := c.server(id)
	if s == nil {
		return http.StatusNotFound, fault("itemNotFound", "Instance "+id+" could not be found.")
	}
	for name, with := range asked {
		switch name {
		case "os-migrateLive":
			if with == nil || with.BlockMigration == nil || with.Disk != nil {
				return http.StatusBadRequest, fault("badRequest", "Invalid input for field/attribute os-migrateLive. 'block_migration' is a required property")
			}
			return c.move(s, "live-migration", "active", "paused")
		case "migrate":
			if c.Quota != "" {
				return http.StatusForbidden, fault("forbidden", c.Quota)
			}
			return c.move(s, "migration", "active", "stopped")
		case "evacuate":
			return c.evacuate(s, User)
		case "confirmResize":
			return c.confirm(s)
		}
	}
	return http.StatusBadRequest, fault("badRequest", "There is no such action.")
}

// move answers 202 whatever will come of it, as long as the server itself may be moved.
func (c *Cloud) move(s *Server, kind string, states ...string) (int, object) {
	switch {
	case s.Task != "":
		return conflict(fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", kind, s.ID, s.Task))
	case !slices.Contains(states, s.State):
		return conflict(fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", kind, s.ID, s.State))
	}
	c.begin(s, kind, User)
	return http.StatusAccepted, nil
}

func (c *Cloud) confirm(s *Server) (int, object) {
	for _, m := range slices.Backward(c.migrations) {
		if m.Server == s.ID && m.Status == "finished" && s.State == "resized" && s.Task == "" {
			c.set(m, "confirming")
			return http.StatusNoContent, nil
		}
	}
	return conflict(fmt.Sprintf("Cannot 'confirmResize' instance %s while it is in vm_state %s", s.ID, s.State))
}

func (c *Cloud) abort(server, id string) (int, object) {
	for _, m := range c.migrations {
		if m.Server != server || fmt.Sprint(m.ID) != id {
			continue
		}
		if !slices.Contains([]string{"queued", "preparing", "running"}, m.Status) {
			return http.StatusBadRequest, fault("badRequest", fmt.Sprintf("Migration %s state of instance %s is %s. Cannot abort while the migration is in this state.", id, server, m.Status))
		}
		c.set(m, "cancelled")
		c.server(server).Task = ""
		return http.StatusAccepted, nil
	}
	return http.StatusNotFound, fault("itemNotFound", "Migration "+id+" not found")
}
