package foundationdb

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
	"usher.sh/usher/internal/text"
)

// evidence makes facts of what was seen. A member is there in any case: while the status says nothing, the rule that speaks of the status says why.
func (c *cluster) evidence(v *view, members []system.Member) *eviction.Evidence {
	now := c.now()
	found := &eviction.Evidence{System: c.systemFacts(v), Members: map[string]expression.Facts{}, Summary: c.summary(v)}
	for _, m := range members {
		found.Members[m.ID] = c.memberFacts(v, m, now)
	}
	return found
}

func (c *cluster) systemFacts(v *view) expression.Facts {
	all, away := v.Coordinators()
	facts := expression.Facts{
		"problem": v.Problem(), "available": v.Available(), "messages": list(v.Messages()), "notTolerant": c.notTolerant(v),
		"coordinators": list(all), "coordinatorsAway": list(away), "missingAfter": int64(c.waits.missing.Seconds()),
	}
	own := &v.Cluster
	put(facts, "redundancy", own.Configuration.Redundancy)
	put(facts, "dataState", own.Data.State.Name)
	put(facts, "recovery", own.Recovery.Name)
	count(facts, "generations", own.Recovery.Generations)
	count(facts, "zoneFailures", own.FaultTolerance.Data)
	count(facts, "minReplicas", own.Data.State.MinReplicas)
	if copies, known := v.Copies(); known {
		facts["copies"] = copies
	}
	if own.Recovery.Since != nil {
		facts["sinceRecovery"] = int64(*own.Recovery.Since)
	}
	if m := own.Data.Moving; m != nil && m.InFlight != nil && m.InQueue != nil {
		facts["movingBytes"] = *m.InFlight + *m.InQueue
	}
	if v.Problem() == "" {
		facts["exclusions"], facts["maintenanceZone"] = list(v.Exclusions()), own.MaintenanceZone
	}
	if own.MaintenanceLeft != nil {
		facts["maintenanceSeconds"] = int64(*own.MaintenanceLeft)
	}
	return facts
}

// put leaves out what the status does not have.
func put(facts expression.Facts, name, value string) {
	if value != "" {
		facts[name] = value
	}
}

func count(facts expression.Facts, name string, value *int64) {
	if value != nil {
		facts[name] = *value
	}
}

// list is never nil, which would be a fact of another type.
func list(names []string) []string { return append([]string{}, names...) }

func (c *cluster) memberFacts(v *view, m system.Member, now time.Time) expression.Facts {
	if v.Problem() != "" {
		return expression.Facts{}
	}
	processes := v.processes(m)
	facts := expression.Facts{
		"otherInstance": v.otherInstance(m), "reports": len(processes) > 0, "missingSeconds": int64(c.roster.missing(m.ID, now).Seconds()), "coordinator": v.coordinates(m, processes),
		"excluded": excluded(processes), "exclusions": list(v.exclusionsOf(processes)), "empty": v.empty(m, processes),
		"notTolerant": c.notTolerantBeside(v, zoneOf(processes)),
		"notExcluded": cmp.Or(v.contradiction(m), c.unexcludable(v, m.ID, m.Role, processes, now)),
	}
	if m.Processes > 0 && v.otherInstance(m) == "" {
		facts["missingProcesses"] = int64(max(0, m.Processes-len(processes)))
	}
	draining, known := v.inProgress(m, processes)
	if known {
		facts["inProgress"] = draining
	}
	if len(processes) > 0 {
		v.addProcesses(facts, processes)
		if known {
			facts["hasData"] = draining || slices.ContainsFunc(processes, (*status.Process).HasData)
		}
	}
	return facts
}

// zoneOf is the zone that all processes are in; "": there is none, or it is not known.
func zoneOf(processes []*status.Process) string {
	if len(processes) == 0 || slices.ContainsFunc(processes, func(p *status.Process) bool { return p.Zone() != processes[0].Zone() }) {
		return ""
	}
	return processes[0].Zone()
}

func (v *view) addProcesses(facts expression.Facts, processes []*status.Process) {
	var addresses, roles []string
	var stored int64
	maintained := false
	for _, p := range processes {
		addresses, roles = append(addresses, p.HostPort()), append(roles, p.RoleNames()...)
		maintained = maintained || p.UnderMaintenance
		stored += storedBytes(p)
	}
	slices.Sort(roles)
	facts["addresses"], facts["roles"], facts["storedBytes"] = list(addresses), list(slices.Compact(roles)), stored
	facts["underMaintenance"] = maintained
	if degraded := slices.ContainsFunc(processes, func(p *status.Process) bool { return p.Degraded != nil && *p.Degraded }); degraded ||
		!slices.ContainsFunc(processes, func(p *status.Process) bool { return p.Degraded == nil }) {
		facts["degraded"] = degraded
	}
	first := processes[0]
	for name, value := range map[string]string{
		"class": first.Class, "version": first.Version, "zone": first.Zone(), "machine": first.Locality["machineid"],
		"dataHall": first.DataHall(), "dataCenter": first.DataCenter(),
	} {
		put(facts, name, value)
	}
}

func storedBytes(p *status.Process) (sum int64) {
	for _, r := range p.Roles {
		if r.StoredBytes != nil && *r.StoredBytes > 0 {
			sum += *r.StoredBytes
		}
	}
	return sum
}

// coordinates reports whether a coordinator listens at an address of the member. Without a process its pod's IP is all that is known of it.
func (v *view) coordinates(m system.Member, processes []*status.Process) bool {
	if slices.ContainsFunc(processes, v.IsCoordinator) {
		return true
	}
	all, _ := v.Coordinators()
	ip := podIP(m)
	return ip != "" && slices.ContainsFunc(all, func(address string) bool { return (&status.Process{Address: address}).IP() == ip })
}

func (c *cluster) summary(v *view) string {
	if problem := v.Problem(); problem != "" {
		return problem
	}
	all, away := v.Coordinators()
	parts := []string{
		fmt.Sprintf("%d processes", len(v.Processes())), v.Cluster.Configuration.Redundancy,
		fmt.Sprintf("%d of %d coordinators answer", len(all)-len(away), len(all)),
	}
	if n := len(v.Exclusions()); n > 0 {
		parts = append(parts, text.Count(n, "exclusion"))
	}
	if zone := v.Cluster.MaintenanceZone; zone != "" {
		parts = append(parts, "zone "+text.Name(zone)+" under maintenance")
	}
	if lacks := c.notTolerant(v); lacks != "" {
		parts = append(parts, lacks)
	}
	if c.stale() {
		parts = append(parts, "the coordinators have moved since the policy's cluster file was written: write it anew")
	}
	return strings.Join(parts, ", ")
}

// stale reports whether the coordinators are others than the policy's cluster file says.
func (c *cluster) stale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}
