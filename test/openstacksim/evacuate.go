package openstacksim

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// evacuate is accepted also while the server is being evacuated already.
func (c *Cloud) evacuate(s *Server, user string) (int, object) {
	h := c.host(s.Host)
	switch {
	case h.Up && !h.Forced:
		return http.StatusBadRequest, fault("badRequest", fmt.Sprintf("Compute service of %s is still in use.", h.Name))
	case !slices.Contains([]string{"active", "stopped", "error"}, s.State):
		return conflict(fmt.Sprintf("Cannot 'evacuate' instance %s while it is in vm_state %s", s.ID, s.State))
	}
	c.migrations = append(c.migrations, &Migration{
		ID: int64(len(c.migrations) + 1), Server: s.ID, Kind: "evacuation", Status: "evacuating", Source: s.Host, User: user, Created: c.now, left: c.Evacuation,
	})
	s.Task = "rebuilding"
	return http.StatusOK, object{}
}

// Evacuate has another account evacuate a server.
func (c *Cloud) Evacuate(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evacuate(c.server(server), "another")
}

// rebuild goes on with an evacuation. Halfway the server looks as if nothing were done with it; once it is elsewhere, the migration is done.
func (c *Cloud) rebuild(m *Migration, s *Server, tick time.Duration) {
	if m.Destination == "" {
		to := c.target(s)
		if to == nil {
			s.State, s.Task = "error", ""
			c.set(m, "error")
			return
		}
		m.Destination = to.Name
	}
	if !c.host(m.Destination).Up {
		return
	}
	m.Changed = c.now
	if m.left -= tick; m.left > 0 {
		if m.left <= c.Evacuation/2 {
			s.Task = ""
		}
		return
	}
	if s.Host != m.Source {
		c.Twice = append(c.Twice, s.Name)
	}
	s.Host, s.Task = m.Destination, ""
	if s.State == "error" {
		s.State = "active"
	}
	c.set(m, "done")
}

// unfinished reports whether evacuations off a host were not cleaned up there.
func (c *Cloud) unfinished(h *Host) bool {
	return slices.ContainsFunc(c.migrations, func(m *Migration) bool {
		return m.Kind == "evacuation" && m.Source == h.Name && (m.Status == "done" || m.Status == "evacuating")
	})
}

// Die has a host lose its power, and Nova know that.
func (c *Cloud) Die(host string) { c.ChangeHost(host, func(h *Host) { h.Up = false }) }

// Start has a host's nova-compute start, which cleans up what was evacuated off it.
func (c *Cloud) Start(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host(host).Up = true
	for _, m := range c.migrations {
		if m.Kind == "evacuation" && m.Source == host && m.Status == "done" {
			c.set(m, "completed")
		}
	}
}

func (c *Cloud) listServices(host string) []object {
	all := []object{}
	for _, h := range c.hosts {
		if host != "" && h.Name != host {
			continue
		}
		status, state := "disabled", "down"
		if h.Enabled {
			status = "enabled"
		}
		if h.Up && !h.Forced {
			state = "up"
		}
		all = append(all, object{
			"id": "service-" + h.Name, "binary": "nova-compute", "host": h.Name, "status": status, "state": state, "disabled_reason": h.Reason, "forced_down": h.Forced,
		})
	}
	return all
}
