package openstacksim

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// list answers a listing, page by page.
func (c *Cloud) list(r *http.Request, path string) (int, object) {
	query := r.URL.Query()
	if c.NoAdmin && path == "os-hypervisors/detail" {
		return http.StatusForbidden, fault("forbidden", "Policy doesn't allow os_compute_api:os-hypervisors:list-detail to be performed.")
	}
	var all []object
	var what, key string
	switch path {
	case "os-hypervisors/detail":
		what, key, all = "hypervisors", "id", c.listHypervisors()
	case "os-services":
		what, key, all = "services", "id", c.listServices(query.Get("host"))
	case "servers/detail":
		host := query.Get("host")
		if c.NoFilters {
			host = "" // a filter that the account may not use is left out, and nothing says so
		}
		what, key, all = "servers", "id", c.listServers(host)
	case "os-migrations":
		since, err := time.Parse(time.RFC3339, query.Get("changes-since"))
		if err != nil && query.Get("changes-since") != "" {
			return http.StatusBadRequest, fault("badRequest", "Invalid input for query parameters changes-since.")
		}
		what, key, all = "migrations", "uuid", c.listMigrations(query, since)
	default:
		return http.StatusNotFound, fault("itemNotFound", "no such call")
	}
	return http.StatusOK, c.page(all, what, key, query.Get("marker"), query.Get("limit"))
}

func (c *Cloud) page(all []object, what, key, marker, limit string) object {
	if at := slices.IndexFunc(all, func(o object) bool { return o[key] == marker }); at >= 0 {
		all = all[at+1:]
	}
	most := c.PageSize
	if asked, err := strconv.Atoi(limit); err == nil {
		most = min(most, asked)
	}
	answer := object{what: all}
	if len(all) > most {
		answer[what] = all[:most]
		answer[what+"_links"] = []object{{"rel": "next", "href": "http://behind.a.proxy/next"}}
	}
	return answer
}

func (c *Cloud) listHypervisors() []object {
	all := []object{}
	for _, h := range c.hosts {
		state, status := "down", "disabled"
		if h.Up && !h.Forced {
			state = "up"
		}
		if h.Enabled {
			status = "enabled"
		}
		servers := []object{}
		for _, s := range c.servers {
			if s.Host == h.Name {
				servers = append(servers, object{"uuid": s.ID, "name": s.Name})
			}
		}
		var reason any
		if h.Reason != "" {
			reason = h.Reason
		}
		all = append(all, object{
			"id": "hypervisor-" + h.Name, "hypervisor_hostname": h.Name + ".sim", "state": state, "status": status, "servers": servers,
			"service": object{"id": "service-" + h.Name, "host": h.Name, "disabled_reason": reason},
		})
	}
	return all
}

func (c *Cloud) listServers(host string) []object {
	all := []object{}
	for _, s := range c.servers {
		if host != "" && s.Host != host {
			continue
		}
		one := object{"id": s.ID, "name": s.Name, "OS-EXT-STS:vm_state": s.State, "OS-EXT-STS:task_state": nil}
		if !c.NoFilters {
			one["OS-EXT-SRV-ATTR:host"] = s.Host
		}
		if s.Task != "" {
			one["OS-EXT-STS:task_state"] = s.Task
		}
		all = append(all, one)
	}
	return all
}

func (c *Cloud) listMigrations(query url.Values, since time.Time) []object {
	all := []object{}
	is := func(key, value string) bool { return query.Get(key) == "" || query.Get(key) == value }
	for _, m := range slices.Backward(c.migrations) {
		if !is("host", m.Source) && !is("host", m.Destination) || !is("source_compute", m.Source) || !is("status", m.Status) || !is("migration_type", m.Kind) || !is("instance_uuid", m.Server) || m.Changed.Before(since) {
			continue
		}
		var destination, changed any
		const layout = "2006-01-02T15:04:05.000000"
		if !m.Changed.IsZero() {
			changed = m.Changed.Format(layout)
		}
		if m.Destination != "" {
			destination = m.Destination
		}
		all = append(all, object{
			"id": m.ID, "uuid": "migration-" + strconv.FormatInt(m.ID, 10), "instance_uuid": m.Server, "migration_type": m.Kind, "status": m.Status,
			"source_compute": m.Source, "dest_compute": destination, "user_id": m.User,
			"created_at": m.Created.Format(layout), "updated_at": changed,
		})
	}
	return all
}
