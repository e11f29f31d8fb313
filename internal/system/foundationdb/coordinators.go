package foundationdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
	"usher.sh/usher/internal/text"
)

// eligible are the classes of processes that may be coordinators, the best first.
var eligible = []string{"coordinator", "storage", "log", "transaction", "unset"}

// moveCoordinators has other processes be coordinators in the place of a member's, if it is of any, and of those that cannot be reached.
func (c *cluster) moveCoordinators(ctx context.Context, v *view, member system.Member) error {
	if why := v.Unsettled(0); why != "" {
		return errors.New(why)
	}
	if unfamiliar := v.Unfamiliar(); unfamiliar != "" {
		return errors.New(unfamiliar)
	}
	if why := v.contradiction(member); why != "" {
		return errors.New(why)
	}
	leaves := v.processes(member)
	if _, away := v.Coordinators(); !v.coordinates(member, leaves) && len(away) == 0 {
		return nil
	}
	addresses, err := v.newCoordinators(leaves, podIP(member), c.roster.leaving(v))
	if err != nil {
		return err
	}
	command, err := commandOf("coordinators", addresses)
	if err != nil {
		return err
	}
	out, err := c.run(ctx, command)
	if err == nil {
		err = out.failed()
	}
	return err
}

// newCoordinators chooses as many coordinators as there are, each in another zone: those that may stay, and then others by their class; those that are about to
// leave only where there are too few others, since each would cost another change, and a recovery. A process that speaks TLS is none: the cluster file would name
// what Usher cannot ask.
func (v *view) newCoordinators(leaves []*status.Process, ip string, leaving []*status.Process) ([]string, error) {
	now, _ := v.Coordinators()
	candidates := slices.DeleteFunc(v.Processes(), func(p *status.Process) bool {
		return p.TLS() || p.IsExcluded() || p.UnderMaintenance || p.Zone() == "" || slices.Contains(leaves, p) || ip != "" && p.IP() == ip || !slices.Contains(eligible, p.Class)
	})
	slices.SortStableFunc(candidates, func(a, b *status.Process) int {
		return cmp.Or(
			-cmp.Compare(first(slices.Contains(leaving, a)), first(slices.Contains(leaving, b))),
			cmp.Compare(first(v.IsCoordinator(a)), first(v.IsCoordinator(b))),
			cmp.Compare(slices.Index(eligible, a.Class), slices.Index(eligible, b.Class)),
			cmp.Compare(a.HostPort(), b.HostPort()),
		)
	})
	var chosen, zones []string
	inHall := map[string]int{}
	for _, p := range candidates {
		if address, err := netip.ParseAddrPort(p.HostPort()); err != nil || address.Addr().Zone() != "" || slices.Contains(zones, p.Zone()) || len(chosen) == len(now) {
			continue
		}
		if v.InHalls() && (p.DataHall() == "" || inHall[p.DataHall()] >= (len(now)+2)/3) {
			continue // a third of them in each data hall
		}
		chosen, zones = append(chosen, p.HostPort()), append(zones, p.Zone())
		inHall[p.DataHall()]++
	}
	if len(chosen) < len(now) {
		return nil, fmt.Errorf("%s in as many zones are needed, and without it only %d processes may be: %s", text.Count(len(now), "coordinator"), len(chosen), text.List(chosen, 9))
	}
	return chosen, nil
}

// first orders what is so before what is not.
func first(is bool) int {
	if is {
		return 0
	}
	return 1
}
