package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/foundationdb/status"
)

// neverCreated is where a recovery stands when the coordinators, of which a quorum answers, have no record of a database.
const neverCreated = "configuration_never_created"

// engine is the storage engine of a database that is made: that of FoundationDB's own documentation.
const engine = "ssd"

// foundBy is what the cluster is found by, without the members.
func (c *cluster) foundBy(v *view) memberset.Listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	listing := memberset.Listing{Cluster: description(c.file), File: c.file}
	_, away := v.Coordinators()
	for _, address := range away {
		listing.Away = append(listing.Away, (&status.Process{Address: address}).IP())
	}
	return listing
}

// description is what does not change in a cluster file; "": it is none.
func description(file string) string {
	f, err := parseClusterFile(file)
	if err != nil {
		return ""
	}
	described, _, _ := strings.Cut(f.name, ":")
	return described
}

// unformed says what is missing until the database can be made: that the cluster itself says that there never was one, and that the processes of all members are in
// its status. "": nothing.
func (v *view) unformed(members []system.Member) string {
	if v.Available() || v.Cluster.Recovery.Name != neverCreated {
		return "whether there is a database is not known: " + v.Problem()
	}
	for _, m := range members {
		if len(v.processes(m)) == 0 {
			return fmt.Sprintf("no process of %s is in the status, and the database is made once all are", m.ID)
		}
	}
	return ""
}

// unknown is why nothing can be built on a status, of which it names the problem.
func (v *view) unknown(members []system.Member, problem string) error {
	if v.Cluster.Recovery.Name != neverCreated {
		return errors.New(problem)
	}
	if missing := v.unformed(members); missing != "" {
		return errors.New(missing)
	}
	return fmt.Errorf("the database is not made: %w", system.ErrNotFormed)
}

// Form implements system.Emptying. FoundationDB itself refuses to make a second database.
func (c *cluster) Form(ctx context.Context, members []system.Member) (missing string, err error) {
	v, err := c.look(ctx)
	switch {
	case err != nil:
		return "", err
	case v.Available():
		return "", nil
	}
	if missing := v.unformed(members); missing != "" {
		return missing, nil
	}
	command, err := commandOf("configure new", []string{c.least, engine})
	if err != nil {
		return "", err
	}
	out, err := c.run(ctx, command)
	if err == nil {
		err = out.failed()
	}
	return "the database is made", err
}

// Lead implements system.Emptying.
func (c *cluster) Lead(ctx context.Context) (missing string, err error) {
	v, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	if why := v.Unsettled(0); why != "" {
		return why, nil
	}
	if _, away := v.Coordinators(); len(away) == 0 {
		return "", nil
	}
	return "other processes become coordinators", c.moveCoordinators(ctx, v, system.Member{})
}
