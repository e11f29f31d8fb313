package foundationdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
	"usher.sh/usher/internal/text"
)

var _ system.Membership = (*cluster)(nil)

// Listed implements system.Membership. FoundationDB has no list of members: a process is in the status while it runs, and its successor has the same
// instance_id. So a member has left when nothing is lost with it, and has joined when no exclusion covers its processes.
func (c *cluster) Listed(ctx context.Context, member system.Member, predecessor *v1alpha1.MemberRegistration) (system.Listing, error) {
	v, err := c.look(ctx)
	if err == nil && v.Problem() != "" {
		err = errors.New(v.Problem())
	}
	if err != nil {
		return system.Listing{}, err
	}
	return system.Listing{
		Member:      &v1alpha1.MemberRegistration{ID: member.ID},
		Predecessor: predecessor != nil && c.needed(v, member) != "",
		Joined:      v.otherInstance(member) == "" && !v.covered(member),
	}, nil
}

// covered reports whether a process of the member is excluded.
func (v *view) covered(member system.Member) bool {
	return slices.ContainsFunc(v.processes(member), (*status.Process).IsExcluded)
}

// needed says why a member may not be given up; "": nothing is lost with it.
func (c *cluster) needed(v *view, member system.Member) string {
	processes := v.processes(member)
	age := c.roster.missing(member.ID, c.now())
	switch why := v.contradiction(member); {
	case why != "":
		return why
	case len(processes) == 0 && age < c.waits.missing:
		return fmt.Sprintf("no process of it has been in the status for %.0f s, and it counts as lost after %.0f s", age.Seconds(), c.waits.missing.Seconds())
	case len(processes) > 0 && !v.empty(member, processes):
		return "it has a process in the status that is not empty"
	}
	return cmp.Or(c.notTolerant(v), v.maintained(), v.unreleased(member, processes))
}

// unreleased says that an exclusion of a member without a process in the status is in progress, or may be; "": it is not, or the member has one. A log server that
// the cluster controller does not see may still have commits that no other has.
func (v *view) unreleased(member system.Member, processes []*status.Process) string {
	switch draining, known := v.inProgress(member, processes); {
	case len(processes) > 0:
		return ""
	case draining:
		return "the list of exclusions in progress names an address at its IP"
	case v.unlisted != "":
		return "which exclusions are in progress is not known: " + v.unlisted
	case !known:
		return "the list of exclusions in progress names an address of no process in the status, and the IP of its pod is not known"
	}
	return ""
}

// maintained says that a zone is under maintenance: what is missing there is not made up for.
func (v *view) maintained() string {
	if zone := v.Cluster.MaintenanceZone; zone != "" {
		return "zone " + text.Name(zone) + " is under maintenance"
	}
	return ""
}

// Leave implements system.Membership. There is nothing to ask for: FoundationDB makes up for a lost process by itself, and this waits for it.
func (c *cluster) Leave(ctx context.Context, member system.Member, _ *v1alpha1.MemberRegistration) (missing string, err error) {
	v, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(v.Problem(), c.needed(v, member)), nil
}

// Join implements system.Membership: a process joins by itself. What excludes it is taken back with the step that has excluded it, or is another
// client's.
func (c *cluster) Join(ctx context.Context, member system.Member, _ *v1alpha1.MemberRegistration) (missing string, err error) {
	v, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	if why := cmp.Or(v.Problem(), v.contradiction(member)); why != "" {
		return why, nil
	}
	if entries := v.exclusionsOf(v.processes(member)); len(entries) > 0 {
		return "it is excluded by " + text.List(entries, 3) + "; an exclusion of Usher's own is taken back some time after the last recovery, another by fdbcli --exec 'include ...'", nil
	}
	return "", nil
}
