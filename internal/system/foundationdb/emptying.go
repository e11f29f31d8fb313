package foundationdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
	"usher.sh/usher/internal/text"
)

var _ system.Emptying = (*cluster)(nil)

// Contents implements system.Emptying. What is excluded by the id of no member is there as well, so that no other member gets that id.
func (c *cluster) Contents(ctx context.Context, members []system.Member) (memberset.Listing, error) {
	c.roster.know(members)
	v, err := c.look(ctx)
	if err != nil {
		return memberset.Listing{}, err
	}
	if problem := v.Problem(); problem != "" {
		return memberset.Listing{}, v.unknown(members, problem)
	}
	listing := c.foundBy(v)
	listing.Maintenance.Zone = v.Cluster.MaintenanceZone
	for _, m := range members {
		processes := v.processes(m)
		listing.Entries = append(listing.Entries, memberset.Entry{
			Name: m.ID, Processes: len(processes), Healthy: len(processes) > 0, Whole: len(processes) > 0 && !v.covered(m),
			Empty: c.keeps(v, m, processes) == "", Excluded: slices.Contains(v.Exclusions(), byID(m.ID)), IPs: ipsOf(system.Member{}, processes), Zone: zoneOf(processes),
			Leads: v.coordinates(m, processes), Uptime: uptime(processes),
		})
	}
	for _, id := range v.idsExcluded() {
		if !slices.ContainsFunc(members, func(m system.Member) bool { return m.ID == id }) {
			listing.Entries = append(listing.Entries, memberset.Entry{Name: id, Excluded: true})
		}
	}
	return listing, nil
}

// uptime is for how long the youngest process has run; 0: it is not known.
func uptime(processes []*status.Process) time.Duration {
	var least *float64
	for _, p := range processes {
		if p.Uptime == nil {
			return 0
		}
		if least == nil || *p.Uptime < *least {
			least = p.Uptime
		}
	}
	if least == nil {
		return 0
	}
	return time.Duration(*least * float64(time.Second))
}

// byID is the exclusion of a member by its id.
func byID(id string) string { return excludedByID + id }

const excludedByID = "locality_instance_id:"

func (v *view) idsExcluded() []string {
	var all []string
	for _, entry := range v.Exclusions() {
		if id, is := strings.CutPrefix(entry, excludedByID); is {
			all = append(all, id)
		}
	}
	return all
}

// keeps says why a member may not go; "": nothing is lost with it.
func (c *cluster) keeps(v *view, m system.Member, processes []*status.Process) string {
	_, away := v.Coordinators()
	switch why := c.needed(v, m); {
	case why != "":
		return why
	case v.coordinates(m, processes):
		return "it is a coordinator"
	case len(processes) == 0 && len(away) > 0:
		return "coordinators that cannot be reached: " + text.List(away, 5)
	}
	return ""
}

// emptying is what is to be done next so that nothing is kept on a member.
type emptying int

const (
	nothing emptying = iota
	closes           // it is excluded
	moves            // another process is a coordinator in its place
)

// Empty implements system.Emptying: a member is excluded by its id, which is waited for, and then others are coordinators in its place.
func (c *cluster) Empty(ctx context.Context, member system.Member) (missing string, err error) {
	if v := c.recent(); v != nil {
		if missing, next, err := c.next(v, member); next == nothing {
			return missing, err
		}
	}
	v, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	missing, next, err := c.next(v, member)
	switch next {
	case closes:
		_, err = c.exclude(ctx, v, eviction.Preparation{Name: Exclude, Member: member.MemberRef})
	case moves:
		return missing, c.moveCoordinators(ctx, v, member)
	case nothing:
	}
	if err != nil {
		return "", err
	}
	return missing, nil
}

// next is what is to be done so that a member gets empty, and what is missing until it is.
func (c *cluster) next(v *view, member system.Member) (missing string, next emptying, err error) {
	if why := cmp.Or(v.Problem(), v.contradiction(member)); why != "" {
		return why, nothing, nil
	}
	processes := v.processes(member)
	if len(processes) > 0 && !excluded(processes) {
		missing, err = c.closable(v, member, processes)
		if missing != "" || err != nil {
			return missing, nothing, err
		}
		return "it is excluded, and its data is moved to others", closes, nil
	}
	why := c.keeps(v, member, processes)
	if why == "" || c.needed(v, member) != "" { // nothing is left to do, or its data is still to be waited for
		return why, nothing, nil
	}
	if unsettled := v.Unsettled(0); unsettled != "" {
		return unsettled, nothing, nil
	}
	return why + ": another process takes its place", moves, nil
}

// closable says why a member is not excluded now; "": it can be. By its id alone: an exclusion by an address would outlive the member, and hold for the next pod there.
func (c *cluster) closable(v *view, member system.Member, processes []*status.Process) (missing string, err error) {
	if !v.byLocality() {
		return "", fmt.Errorf("excluding %s: a process in the status is of a version that does not exclude by instance_id without a fault, as 7.1.42 and 7.3.26 do: %w", member.ID, system.ErrTerminal)
	}
	if slices.ContainsFunc(processes, func(p *status.Process) bool { return p.Instance() == "" }) {
		return "the status does not say the instance_id of its process yet", nil
	}
	if why := c.unexcludable(v, member.ID, member.Role, processes, c.now()); why != "" {
		return "it is not excluded now: " + why, nil
	}
	return "", nil
}

// Refill implements system.Emptying: the exclusion by the member's id is taken back. One by an address is another client's.
func (c *cluster) Refill(ctx context.Context, member system.Member) (missing string, err error) {
	if v := c.recent(); v != nil {
		if missing, includes := c.includable(v, member); !includes {
			return missing, nil
		}
	}
	v, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	missing, includes := c.includable(v, member)
	if includes {
		_, err = c.include(ctx, v, []string{byID(member.ID)}, nil)
	}
	return missing, err
}

// includable reports whether a member is included now, and what is missing until it is.
func (c *cluster) includable(v *view, member system.Member) (missing string, includes bool) {
	if problem := v.Problem(); problem != "" {
		return problem, false
	}
	if !slices.Contains(v.Exclusions(), byID(member.ID)) {
		return "", false
	}
	if why := v.Unsettled(c.waits.include.Seconds()); why != "" {
		return "it is not included now: " + why, false
	}
	return "it is included again", true
}
