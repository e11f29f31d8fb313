package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"usher.sh/usher/internal/system/openstack/compute"
	"usher.sh/usher/internal/text"
)

const (
	// pageSize is how many entries a page is asked to have: Nova gives no more. maxPages is how many pages are read.
	pageSize = 1000
	maxPages = 50
	// A server comes with the user data and the metadata that its owner has given it, mostly none and 64 KiB or more of each. A hypervisor comes with its servers.
	serversPage     = 100
	hypervisorsPage = 250
	// shrink is how much less is asked for where a page is too long.
	shrink = 4
	// remembered is how far back migrations are listed that have ended: far longer than a failed one counts.
	remembered = 7 * 24 * time.Hour
)

// page is a part of a listing. Its links only tell whether there is more: their addresses are what Nova takes for its own, which behind a proxy is
// often wrong.
type page interface {
	// known reports whether it has the list at all: JSON without it is something else, and does not say that there is nothing.
	known() bool
	// end returns what the next page begins after; more is false on the last one.
	end() (last string, more bool)
}

type link struct {
	Rel string `json:"rel"`
}

// pages reads a listing. Where a page is longer than an answer may be it asks for less: what tenants have given their servers keeps no host from being looked at.
func pages[T any, P interface {
	*T
	page
}](ctx context.Context, n *nova, what, path string, query url.Values, size int) (all []T, err error) {
	for range maxPages * pageSize / size {
		var answer T
		query.Set("limit", strconv.Itoa(size))
		_, err := n.client.Get(ctx, n.client.Endpoint+path+"?"+query.Encode(), &answer, nil)
		if errors.Is(err, errTooLong) && size > 1 {
			size = max(1, size/shrink)
			continue
		}
		if err == nil && !P(&answer).known() {
			err = errShape
		}
		if err != nil {
			return nil, n.failed("listing "+what, err)
		}
		all = append(all, answer)
		last, more := P(&answer).end()
		if !more {
			return all, nil
		}
		query.Set("marker", last)
	}
	return nil, fmt.Errorf("compute API at %s, listing %s: there are more than %d of them, or they come in too small pages", address(n.client.Endpoint), what, maxPages*pageSize)
}

type hypervisorPage struct {
	Hypervisors []struct {
		ID      string `json:"id"`
		State   string `json:"state"`
		Status  string `json:"status"`
		Service struct {
			ID     string `json:"id"`
			Host   string `json:"host"`
			Reason string `json:"disabled_reason"`
		} `json:"service"`
		Servers []struct {
			ID   string `json:"uuid"`
			Name string `json:"name"`
		} `json:"servers"`
	} `json:"hypervisors"`
	Links []link `json:"hypervisors_links"`
}

func (p *hypervisorPage) known() bool { return p.Hypervisors != nil }

func (p *hypervisorPage) end() (last string, more bool) {
	if len(p.Hypervisors) == 0 || len(p.Links) == 0 {
		return "", false
	}
	return p.Hypervisors[len(p.Hypervisors)-1].ID, true
}

// hypervisors lists all of the region, with the servers on each.
func (n *nova) hypervisors(ctx context.Context) ([]compute.Hypervisor, error) {
	found, err := pages[hypervisorPage](ctx, n, "hypervisors", "os-hypervisors/detail", url.Values{"with_servers": {"true"}}, hypervisorsPage)
	if err != nil {
		return nil, err
	}
	var all []compute.Hypervisor
	for _, p := range found {
		for _, h := range p.Hypervisors {
			one := compute.Hypervisor{
				Service: h.Service.ID, Host: h.Service.Host, Up: h.State == "up", Enabled: h.Status == "enabled", Reason: h.Service.Reason,
			}
			for _, s := range h.Servers {
				one.Servers = append(one.Servers, compute.Server{ID: s.ID, Name: s.Name})
			}
			all = append(all, one)
		}
	}
	return all, nil
}

type serverPage struct {
	Servers []struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		State string `json:"OS-EXT-STS:vm_state"`
		Task  string `json:"OS-EXT-STS:task_state"`
		Host  string `json:"OS-EXT-SRV-ATTR:host"`
	} `json:"servers"`
	Links []link `json:"servers_links"`
}

func (p *serverPage) known() bool { return p.Servers != nil }

func (p *serverPage) end() (last string, more bool) {
	if len(p.Servers) == 0 || len(p.Links) == 0 {
		return "", false
	}
	return p.Servers[len(p.Servers)-1].ID, true
}

// servers lists those on a host, of all projects. Nova leaves out what an account may not ask for, and answers all the same: where it has left out the
// host, the answer shows that.
func (n *nova) servers(ctx context.Context, host string) ([]compute.Server, error) {
	found, err := pages[serverPage](ctx, n, "servers", "servers/detail", url.Values{"all_tenants": {"1"}, "host": {host}}, serversPage)
	if err != nil {
		return nil, err
	}
	var all []compute.Server
	for _, p := range found {
		for _, s := range p.Servers {
			if s.Host != host {
				return nil, fmt.Errorf("compute API at %s, listing servers: it lists server %s, which is not known to be on host %s: the account needs the role admin in its project",
					address(n.client.Endpoint), text.Name(s.ID), text.Name(host))
			}
			all = append(all, compute.Server{ID: s.ID, Name: s.Name, State: s.State, Task: s.Task})
		}
	}
	return all, nil
}

type migrationPage struct {
	Migrations []struct {
		ID          int64  `json:"id"`
		UUID        string `json:"uuid"`
		Server      string `json:"instance_uuid"`
		Kind        string `json:"migration_type"`
		Status      string `json:"status"`
		Source      string `json:"source_compute"`
		Destination string `json:"dest_compute"`
		User        string `json:"user_id"`
		Created     moment `json:"created_at"`
		Changed     moment `json:"updated_at"`
	} `json:"migrations"`
	Links []link `json:"migrations_links"`
}

func (p *migrationPage) known() bool { return p.Migrations != nil }

func (p *migrationPage) end() (last string, more bool) {
	if len(p.Migrations) == 0 || len(p.Links) == 0 {
		return "", false
	}
	return p.Migrations[len(p.Migrations)-1].UUID, true
}

// migrations lists those from and to a host that have changed not long ago.
func (n *nova) migrations(ctx context.Context, host string, now time.Time) ([]compute.Migration, error) {
	since := now.Add(-remembered).UTC().Format(time.RFC3339)
	return n.listMigrations(ctx, url.Values{"host": {host}, "changes-since": {since}})
}

// unconfirmed lists moves off a host that wait to be confirmed, however old.
func (n *nova) unconfirmed(ctx context.Context, host string) ([]compute.Migration, error) {
	return n.listMigrations(ctx, url.Values{"source_compute": {host}, "status": {compute.Finished}})
}

// arriving lists live migrations off a host that were under way when it died, however long ago.
func (n *nova) arriving(ctx context.Context, host string) ([]compute.Migration, error) {
	return n.listMigrations(ctx, url.Values{"source_compute": {host}, "migration_type": {compute.KindLive}, "status": {compute.StatusRunning}})
}

func (n *nova) listMigrations(ctx context.Context, query url.Values) ([]compute.Migration, error) {
	found, err := pages[migrationPage](ctx, n, "migrations", "os-migrations", query, pageSize)
	if err != nil {
		return nil, err
	}
	var all []compute.Migration
	for _, p := range found {
		for _, m := range p.Migrations {
			one := compute.Migration{
				ID: m.ID, Server: m.Server, Kind: m.Kind, Status: m.Status, Source: m.Source, Destination: m.Destination, User: m.User, Changed: m.Changed.Time,
			}
			if one.Changed.IsZero() {
				one.Changed = m.Created.Time
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// moment is a time as Nova writes it: in UTC, and mostly without saying so.
type moment struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (m *moment) UnmarshalJSON(data []byte) error {
	quoted, err := strconv.Unquote(string(data))
	if err != nil || quoted == "" {
		return nil //nolint:nilerr // null: it is not known
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999999", time.RFC3339Nano} {
		if m.Time, err = time.Parse(layout, quoted); err == nil {
			return nil
		}
	}
	return err
}
