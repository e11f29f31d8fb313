package fdbsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

type object = map[string]any

// document writes the status as the real cluster does.
func (c *Cluster) document() string {
	doc := object{"client": c.client(), "cluster": c.cluster()}
	text, err := json.MarshalIndent(doc, "", "    ")
	if err != nil {
		return ""
	}
	return string(text) + "\n"
}

func (c *Cluster) client() object {
	var all []any
	for _, address := range c.coordinators {
		all = append(all, object{"address": address, "protocol": "0fdb00b073000000", "reachable": c.answers(address)})
	}
	quorum := c.quorum()
	available := quorum && !c.unformed && c.sinceRecovery() >= time.Second
	messages := []any{}
	if !quorum {
		messages = append(messages, object{"name": "quorum_not_reachable", "description": "Unable to reach a quorum of coordinators."})
	}
	return object{
		"coordinators":    object{"coordinators": all, "quorum_reachable": quorum},
		"database_status": object{"available": available, "healthy": available && c.sinceRecovery() >= incompleteFor},
		"messages":        messages, "timestamp": c.now.Unix(),
	}
}

// answers reports whether a coordinator does at an address.
func (c *Cluster) answers(address string) bool {
	p := c.find(address)
	return p != nil && p.running
}

// quorum reports whether more than half of the coordinators answer.
func (c *Cluster) quorum() bool {
	reachable := 0
	for _, address := range c.coordinators {
		if c.answers(address) {
			reachable++
		}
	}
	return reachable > len(c.coordinators)/2
}

func (c *Cluster) cluster() object {
	if c.client()["coordinators"].(object)["quorum_reachable"] != true {
		return object{"layers": object{"_valid": false}}
	}
	if c.unformed {
		return c.withoutDatabase()
	}
	since := c.sinceRecovery()
	recovery := object{"name": "fully_recovered", "seconds_since_last_recovered": since.Seconds(), "active_generations": 1}
	if since < fullyAfter || len(c.old) > 0 {
		recovery["name"], recovery["active_generations"] = "all_logs_recruited", 2
	}
	if since < time.Second {
		recovery["name"] = "recruiting_transaction_servers"
		delete(recovery, "active_generations")
	}
	excluded := []any{}
	for _, entry := range c.exclusions {
		kind := "address"
		if strings.HasPrefix(entry, "locality_") {
			kind = "locality"
		}
		excluded = append(excluded, object{kind: entry})
	}
	doc := object{
		"configuration":     object{"redundancy_mode": redundancy[c.copies], "usable_regions": 1, "storage_engine": "ssd-2", "excluded_servers": excluded},
		"connection_string": strings.TrimSpace(c.connection()), "generation": c.generation, "messages": c.messages(), "recovery_state": recovery,
		"processes": c.members(since), "data": c.data(since), "logs": c.logSets(), "full_replication": true,
		"fault_tolerance": object{"max_zone_failures_without_losing_data": c.tolerance(), "max_zone_failures_without_losing_availability": c.tolerance()},
	}
	if since >= incompleteFor {
		doc["qos"] = c.performance()
	}
	if c.maintenance != "" {
		doc["maintenance_zone"], doc["maintenance_seconds_remaining"] = c.maintenance, c.maintainedTo.Sub(c.now).Seconds()
	}
	return doc
}

// messages are what the cluster warns of: that the status is not complete, and for a moment after the coordinators were changed of clients.
func (c *Cluster) messages() []any {
	all := []any{}
	if c.sinceRecovery() < incompleteFor || slices.ContainsFunc(c.processes, func(p *Process) bool { return !p.running && c.now.Sub(p.since) < goneAfter }) {
		all = append(all, object{"name": "status_incomplete", "reasons": []any{object{"description": "Unknown performance state."}}})
	}
	if !c.coordinated.IsZero() && c.now.Sub(c.coordinated) < issuesFor {
		all = append(all, object{"name": "client_issues", "description": "Some clients of this cluster have issues."})
	}
	return all
}

// performance is how far the slowest servers are behind. It is not known for as long as the status is not complete after a recovery.
func (c *Cluster) performance() object {
	return object{
		"worst_data_lag_storage_server":       object{"seconds": c.behind.Seconds(), "versions": c.behind.Microseconds()},
		"worst_durability_lag_storage_server": object{"seconds": (c.behind + 5*time.Second).Seconds(), "versions": 0},
		"worst_queue_bytes_log_server":        30_000, "worst_queue_bytes_storage_server": 3_000,
	}
}

// withoutDatabase is what a cluster controller says where the coordinators have no record of a database.
func (c *Cluster) withoutDatabase() object {
	processes := c.members(0)
	for _, doc := range processes {
		process := doc.(object)
		delete(process, "excluded")
		process["roles"] = []any{}
	}
	return object{
		"connection_string": strings.TrimSpace(c.connection()), "generation": 0, "processes": processes,
		"messages":       []any{object{"name": "unreadable_configuration"}, object{"name": "status_incomplete"}},
		"recovery_state": object{"name": "configuration_never_created", "active_generations": 1, "seconds_since_last_recovered": -1},
	}
}

func (c *Cluster) members(since time.Duration) object {
	all := object{}
	for i, p := range c.processes {
		if p.hidden || !p.running && c.now.Sub(p.since) >= goneAfter {
			continue
		}
		doc := object{"address": p.Address, "class_type": p.Class, "class_source": "command_line", "version": p.Version, "uptime_seconds": c.now.Sub(p.since).Seconds()}
		if p.running && c.now.Sub(p.since) >= localityAfter {
			locality := object{"zoneid": p.Zone, "machineid": p.Zone, "processid": p.processID()}
			if p.ID != "" {
				locality["instance_id"] = p.ID
			}
			doc["locality"], doc["fault_domain"] = locality, p.Zone
		}
		doc["excluded"], doc["roles"] = c.excluded(p), c.roles(p, since-time.Duration(i%6)*time.Second)
		if p.Zone == c.maintenance {
			doc["under_maintenance"] = true
		}
		all[p.processID()] = doc
	}
	return all
}

func (p *Process) processID() string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(p.key(), ":", "-"), p.disk)
}

// roles leaves out storage while the database recovers, of processes that are full of data as well.
func (c *Cluster) roles(p *Process, since time.Duration) []any {
	all := []any{}
	add := func(name string, more object) {
		role := object{"id": name + p.Address, "role": name}
		maps.Copy(role, more)
		all = append(all, role)
	}
	if slices.Contains(c.coordinators, p.Address) {
		add("coordinator", nil)
	}
	if slices.Contains(c.old, p.key()) {
		add("log", nil)
	}
	if slices.Contains(c.logs, p.key()) {
		add("log", nil)
	}
	if n := c.stored(p); n > 0 && since >= rolesAfter && p.running {
		add("storage", object{"stored_bytes": int64(n) * storedBytes})
	}
	return all
}

func (c *Cluster) data(since time.Duration) object {
	switch {
	case since < incompleteFor:
		return object{}
	case since < dataAfter:
		return object{"state": object{"name": "initializing", "description": "(Re)initializing automatic data distribution"}}
	}
	least, moving, unhealthy := c.copies, 0, 0
	for _, s := range c.shards {
		least = min(least, c.seen(s))
		if c.held(s) < c.copies {
			moving++
		}
	}
	for _, p := range c.processes {
		if c.draining(p) {
			unhealthy++
		}
	}
	state := object{"name": "healthy", "healthy": true, "min_replicas_remaining": least}
	switch {
	case least < c.copies:
		state = object{"name": "healing", "healthy": false, "min_replicas_remaining": least}
	case moving > 0:
		state["name"] = "healthy_rebalancing"
	}
	return object{
		"state": state, "moving_data": object{"highest_priority": 0, "in_flight_bytes": min(moving, 1) * storedBytes, "in_queue_bytes": max(0, moving-1) * storedBytes},
		"team_trackers": []any{object{"primary": true, "unhealthy_servers": unhealthy, "state": state}},
	}
}

func (c *Cluster) logSets() []any {
	sets := []any{c.logSet(c.logs, true)}
	if len(c.old) > 0 {
		sets = append(sets, c.logSet(c.old, false))
	}
	return sets
}

func (c *Cluster) logSet(servers []string, current bool) object {
	return object{
		"current": current, "log_replication_factor": c.copies, "log_fault_tolerance": c.logTolerance(servers), "log_write_anti_quorum": 0, "possibly_losing_data": false,
	}
}

func (c *Cluster) logTolerance(servers []string) int {
	down := 0
	for _, key := range servers {
		if !slices.ContainsFunc(c.processes, func(p *Process) bool { return p.key() == key && p.running }) {
			down++
		}
	}
	return max(0, c.copies-1-down)
}

// tolerance is the smallest of several limits, and one less while a zone is under maintenance, whether it is down or not.
func (c *Cluster) tolerance() int {
	reachable := 0
	for _, address := range c.coordinators {
		if p := c.find(address); p != nil && p.running {
			reachable++
		}
	}
	least := min(c.copies-1, max(0, reachable-(len(c.coordinators)/2+1)), c.logTolerance(c.logs))
	if len(c.old) > 0 {
		least = min(least, c.logTolerance(c.old))
	}
	if c.sinceRecovery() >= dataAfter {
		for _, s := range c.shards {
			least = min(least, max(0, c.seen(s)-1))
		}
	}
	if c.maintenance != "" {
		return max(0, least-1)
	}
	return least
}
