package foundationdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
)

// The API's defaults, for what was declared without them.
const (
	defaultTimeout     = 15 * time.Second
	defaultExclude     = 2 * time.Minute
	defaultInclude     = 10 * time.Minute
	defaultMissing     = 5 * time.Minute
	programBytes       = 32 << 20 // what fdbcli itself takes of the manager's memory
	bytesForEachStatus = 3        // what a byte of the status takes while it is read
)

// cluster is a FoundationDB cluster behind the port.
type cluster struct {
	cli     CLI
	admit   func(address string) error
	timeout time.Duration
	now     func() time.Time
	version string
	least   string // redundancy mode
	waits   waits
	roster  *roster

	mu     sync.Mutex
	file   string          // the newest cluster file
	names  []string        // of the cluster in all cluster files so far, DESCRIPTION:ID: another id with each change of the coordinators
	moved  bool            // it is another one than the policy names
	asked  bool            // the program's version was found to be that of the policy
	begun  map[string]bool // exclusions that were asked for, also where the answer was lost
	newest seen
}

// waits are how long is waited for what.
type waits struct{ exclude, include, missing time.Duration }

// Open makes a System that asks the cluster through fdbcli.
func Open(spec *v1alpha1.System, access system.Access) (system.System, error) {
	return Over(program{access.FDBCLI, access.Namespace}, time.Now, spec, access)
}

// Over makes a System that asks through any CLI.
func Over(cli CLI, now func() time.Time, spec *v1alpha1.System, access system.Access) (system.System, error) {
	own := spec.FoundationDB
	if own == nil {
		return nil, errors.New("opening FoundationDB: the policy has no spec.system.foundationdb")
	}
	if err := supported(own.Version); err != nil {
		return nil, err
	}
	file, err := admitted(content(&own.ClusterFile, access), access.Admit)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster file that the policy names: %w", err)
	}
	w := own.Waits
	return &cluster{
		cli: cli, admit: access.Admit, timeout: cmp.Or(access.Timeout, defaultTimeout), now: now, version: own.Version, least: string(own.Redundancy),
		waits: waits{
			exclude: orDefault(w.ExcludeAfterRecovery, defaultExclude), include: orDefault(w.IncludeAfterRecovery, defaultInclude),
			missing: orDefault(w.Missing, defaultMissing),
		},
		roster: &roster{}, begun: map[string]bool{}, file: file.String(), names: []string{file.name},
	}, nil
}

func orDefault(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}

func content(file *v1alpha1.ClusterFile, access system.Access) string {
	switch {
	case file.ConfigMap != nil:
		return access.ConfigMaps[*file.ConfigMap]
	case file.Secret != nil:
		return string(access.Secrets[*file.Secret])
	}
	return ""
}

// Close implements system.System: nothing outlives a call.
func (*cluster) Close() {}

// Observe implements system.System.
func (c *cluster) Observe(ctx context.Context, members []system.Member) (*eviction.Evidence, error) {
	c.roster.know(members)
	v, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	return c.evidence(v, members), nil
}

// notTolerant says why the cluster does not stand the loss of as many zones as its redundancy promises; "": it does. What has left the status counts,
// also for as long as FoundationDB has not found that out.
func (c *cluster) notTolerant(v *view) string { return c.notTolerantBeside(v, "") }

// notTolerantBeside is the same for what is in a zone: while that is under maintenance, what is missing there does not count, since no data has two copies
// in a zone.
func (c *cluster) notTolerantBeside(v *view, zone string) string {
	if zone != v.Cluster.MaintenanceZone {
		zone = ""
	}
	return cmp.Or(v.NotTolerantBeside(c.least, zone), c.roster.uncounted(zone, c.now()))
}

// view is what was seen at one time.
type view struct {
	*status.Status

	// draining are the addresses IP:PORT that are excluded and still have data; unlisted is why they are not known, "" where they are.
	draining []string
	unlisted string
}

// look reads the status, and then which of what it says to be excluded still has data: whatever that list does not have was excluded before.
func (c *cluster) look(ctx context.Context) (*view, error) {
	if err := system.Take(ctx, programBytes); err != nil {
		return nil, err
	}
	if err := c.fits(ctx); err != nil {
		return nil, err
	}
	out, err := c.run(ctx, "status json")
	if err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	if err := system.Take(ctx, int64(len(out.Out))*bytesForEachStatus); err != nil {
		return nil, err
	}
	if strings.TrimSpace(out.Out) == "" {
		return nil, fmt.Errorf("reading the status: fdbcli says %q", said(out.Err))
	}
	s, err := status.Parse([]byte(out.Out))
	if err != nil {
		return nil, err
	}
	v := &view{Status: s}
	if v.Problem() == "" && v.anyExcluded() {
		v.draining, err = c.drainingNow(ctx)
	}
	if err != nil {
		v.unlisted = err.Error()
	}
	c.roster.look(v, c.now())
	if v.Problem() == "" {
		c.forget(v)
	}
	c.keep(v)
	return v, nil
}

func (c *cluster) drainingNow(ctx context.Context) ([]string, error) {
	out, err := c.run(ctx, inProgress)
	if err != nil {
		return nil, err
	}
	return out.draining()
}

// fits reports an error unless the program speaks the cluster's protocol.
func (c *cluster) fits(ctx context.Context) error {
	c.mu.Lock()
	asked := c.asked
	c.mu.Unlock()
	if asked {
		return nil
	}
	own, err := c.cli.Version(ctx)
	if err != nil {
		return err
	}
	if minor(own) != minor(c.version) {
		return fmt.Errorf("the manager's fdbcli is of version %s, and the cluster runs %s as the policy has it: only one of the same minor version can ask it", own, c.version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
	return nil
}

// run runs a command with the newest cluster file, and takes over the one that it leaves behind.
func (c *cluster) run(ctx context.Context, command string) (Output, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.mu.Lock()
	file := c.file
	c.mu.Unlock()
	out, err := c.cli.Run(ctx, file, command)
	if err != nil {
		return Output{}, err
	}
	return out, c.follow(file, out.ClusterFile)
}

// follow goes on with the cluster file that a run has left behind: the coordinators have moved, and have been found where the old ones led. One
// that names coordinators which may not be asked ends it.
func (c *cluster) follow(before, after string) error {
	if after == "" || after == before {
		return nil
	}
	file, err := admitted(after, c.admit)
	if err != nil {
		return fmt.Errorf("reading the cluster file that the cluster's coordinators have led to: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == before && file.String() != before {
		c.file, c.moved, c.names = file.String(), true, append(c.names, file.name)
	}
	return nil
}
