package foundationdb

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"usher.sh/usher/internal/text"
)

// Maintain implements system.Emptying. FoundationDB has one zone under maintenance and replaces it in silence, so another client's stays; and what is missing looks
// whole meanwhile, so nothing may be at its begin.
func (c *cluster) Maintain(ctx context.Context, zone string, timeout time.Duration) (missing string, err error) {
	v, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	switch now := v.Cluster.MaintenanceZone; {
	case v.Problem() != "":
		return v.Problem(), nil
	case now == zone:
		return "", nil
	case now != "":
		return "zone " + text.Name(now) + " is under maintenance", nil
	}
	if why := cmp.Or(v.Unsettled(0), c.notTolerant(v)); why != "" {
		return "the maintenance of zone " + text.Name(zone) + " does not begin now: " + why, nil
	}
	command, err := commandOf("maintenance on", []string{zone, strconv.Itoa(int(timeout.Seconds()))})
	if err != nil {
		return "", err
	}
	return "the maintenance of zone " + text.Name(zone) + " begins", c.change(ctx, command)
}

// EndMaintenance implements system.Emptying.
func (c *cluster) EndMaintenance(ctx context.Context, zone string) (missing string, err error) {
	v, err := c.look(ctx)
	switch {
	case err != nil:
		return "", err
	case v.Problem() != "":
		return v.Problem(), nil
	case v.Cluster.MaintenanceZone != zone:
		return "", nil
	}
	if why := v.Behind(); why != "" {
		return "the maintenance of zone " + text.Name(zone) + " does not end yet: " + why, nil
	}
	return "the maintenance of zone " + text.Name(zone) + " ends", c.change(ctx, "maintenance off")
}

// change runs a command whose effect is looked for in the next status.
func (c *cluster) change(ctx context.Context, command string) error {
	out, err := c.run(ctx, command)
	if err == nil {
		err = out.failed()
	}
	if err != nil {
		return fmt.Errorf("asking for %q: %w", command, err)
	}
	return nil
}
