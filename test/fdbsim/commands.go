package fdbsim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"usher.sh/usher/internal/system/foundationdb"
)

// ClusterFile is the cluster file that leads to the coordinators now.
func (c *Cluster) ClusterFile() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connection()
}

func (c *Cluster) connection() string {
	return c.name + "@" + strings.Join(c.coordinators, ",") + "\n"
}

// Version implements foundationdb.CLI.
func (*Cluster) Version(context.Context) (string, error) { return version, nil }

// Run implements foundationdb.CLI.
func (c *Cluster) Run(ctx context.Context, file, command string) (foundationdb.Output, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if takes := c.latency(); command == "status json" {
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < takes {
			return foundationdb.Output{}, fmt.Errorf("fdbcli has not ended: %w", context.DeadlineExceeded)
		}
		c.pass(takes)
	}
	if file != c.connection() && !slices.Contains(c.former, file) {
		return foundationdb.Output{}, errors.New("fdbcli has not ended: no coordinator of this cluster file answers")
	}
	words := strings.Fields(command)
	if c.joined && words[0] != "status" && !c.quorum() {
		return foundationdb.Output{}, fmt.Errorf("fdbcli has not ended: %w", context.DeadlineExceeded)
	}
	out := foundationdb.Output{ClusterFile: file}
	if file != c.connection() {
		out.ClusterFile = "# DO NOT EDIT!\n# This file is auto-generated, it is not to be edited by hand\n" + c.connection()
	}
	switch words[0] {
	case "status":
		out.Out = c.document()
	case "getrange":
		if c.mute {
			out.Err = "ERROR: Operation aborted because the transaction timed out (1031)\n"
			break
		}
		out.Out = c.inProgress()
	case "exclude":
		c.exclude(&out, words[1:])
	case "include":
		c.calls = append(c.calls, command)
		c.include(words[1:])
	case "maintenance":
		c.calls = append(c.calls, command)
		c.maintain(&out, words[1:])
	case "configure":
		c.calls = append(c.calls, command)
		c.configure(&out, words[1:])
	case "coordinators":
		c.calls = append(c.calls, command)
		c.coordinate(&out, words[1:])
	default:
		out.Err = "ERROR: Unknown command `" + words[0] + "'. Try `help'?\n"
	}
	if c.loses && slices.Contains([]string{"exclude", "include", "coordinators", "configure"}, words[0]) {
		return foundationdb.Output{}, fmt.Errorf("fdbcli has not ended: %w", context.DeadlineExceeded)
	}
	return out, nil
}

// LoseAnswers has commands that change something take effect, and not be answered.
func (c *Cluster) LoseAnswers(lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loses = lost
}

// Refuse has exclusions be refused, as where the room that is left is not known.
func (c *Cluster) Refuse(refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = refused
}

// EndFormer has the former coordinators lead to the present ones no more.
func (c *Cluster) EndFormer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.former = nil
}

// Mute has the list of exclusions in progress fail.
func (c *Cluster) Mute(mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = mute
}

// latency is how long a status takes: it waits for what is freshly dead.
func (c *Cluster) latency() time.Duration {
	if slices.ContainsFunc(c.processes, func(p *Process) bool { return !p.running && c.now.Sub(p.since) < deadFor }) {
		return 4 * time.Second
	}
	return 0
}

func (c *Cluster) inProgress() string {
	var out strings.Builder
	out.WriteString("\nRange limited to 10000 keys\n")
	for _, p := range c.processes {
		if c.draining(p) { // also of one that is down: its data is still to be moved
			fmt.Fprintf(&out, "`\\xff\\xff/management/in_progress_exclusion/%s' is `'\n", p.Address)
		}
	}
	return out.String() + "\n"
}

// excluded reports whether an entry covers the process.
func (c *Cluster) excluded(p *Process) bool {
	return slices.ContainsFunc(c.exclusions, func(entry string) bool { return covers(entry, p) })
}

func covers(entry string, p *Process) bool {
	ip, _, _ := strings.Cut(p.Address, ":")
	return entry == ip || entry == p.Address || p.ID != "" && entry == "locality_instance_id:"+p.ID || entry == "locality_zoneid:"+p.Zone
}

// exclude refuses hardly anything: what is excluded that no process has, and what leaves too few, are both excluded.
func (c *Cluster) exclude(out *foundationdb.Output, words []string) {
	if len(words) == 0 {
		out.Out = fmt.Sprintf("There are currently %d servers or localities being excluded from the database:\n  %s\n", len(c.exclusions), strings.Join(c.exclusions, "\n  "))
		return
	}
	c.calls = append(c.calls, "exclude "+strings.Join(words, " "))
	unmeasured := c.refuses || c.unmeasured()
	for _, entry := range words {
		_, notIP := netip.ParseAddr(entry)
		_, notAddress := netip.ParseAddrPort(entry)
		switch {
		case entry == "no_wait" || slices.Contains(c.exclusions, entry):
			continue
		case notIP != nil && notAddress != nil && !strings.HasPrefix(entry, "locality_"):
			out.Err += "ERROR: '" + entry + "' is neither a valid network endpoint address nor a locality\n"
			return
		case unmeasured:
			out.Err += "ERROR: Could not calculate the impact of this exclude on the total available space in the cluster.\nPlease try the exclude again in 30 seconds.\nType `exclude FORCE failed <ADDRESS...>' to exclude without performing safety checks.\n"
			return
		}
		c.exclusions = append(c.exclusions, entry)
		warning := "Exclusion in progress! It is not safe to remove this process from the cluster"
		if !slices.ContainsFunc(c.processes, func(p *Process) bool { return p.running && covers(entry, p) }) {
			warning = "Missing from cluster! Be sure that you excluded the correct processes before removing them from the cluster!"
		}
		out.Err += "  " + entry + "  ---- WARNING: " + warning + "\n"
		c.recover()
	}
}

// unmeasured reports whether it is not known how much room the cluster has: moments after a recovery, and after a process has ended.
func (c *Cluster) unmeasured() bool {
	return c.sinceRecovery() < incompleteFor || slices.ContainsFunc(c.processes, func(p *Process) bool { return !p.running && c.now.Sub(p.since) < goneAfter })
}

// include takes each IP:PORT of an IP off the list with the IP.
func (c *Cluster) include(words []string) {
	c.exclusions = slices.DeleteFunc(c.exclusions, func(entry string) bool {
		address, _ := netip.ParseAddrPort(entry)
		return slices.Contains(words, entry) || slices.Contains(words, "all") || address.IsValid() && slices.Contains(words, address.Addr().String())
	})
	c.recover()
}

// configure makes a database once.
func (c *Cluster) configure(out *foundationdb.Output, words []string) {
	switch {
	case len(words) != 3 || words[0] != "new" || words[1] != redundancy[c.copies]:
		out.Err = "ERROR: configure takes new, the redundancy mode that the simulator was made for, and an engine\n"
	case !c.unformed:
		out.Err = "ERROR: Database already exists! To change configuration, don't say `new'\n"
	default:
		c.form()
		out.Out = "Database created\n"
	}
}

// maintain replaces another zone's maintenance without a word.
func (c *Cluster) maintain(out *foundationdb.Output, words []string) {
	switch {
	case len(words) == 1 && words[0] == "off":
		c.setMaintenance("")
	case len(words) == 3 && words[0] == "on":
		if seconds, err := strconv.Atoi(words[2]); err == nil {
			c.setMaintenance(words[1])
			c.maintainedTo = c.now.Add(time.Duration(seconds) * time.Second)
		}
	default:
		out.Err = "ERROR: maintenance takes on ZONEID SECONDS, or off\n"
	}
}

func (c *Cluster) coordinate(out *foundationdb.Output, words []string) {
	for _, address := range words {
		if p := c.find(address); p == nil || !p.running {
			out.Err = "ERROR: Could not communicate with all of the new coordinators\n"
			return
		}
	}
	c.former = append(c.former, c.connection())
	c.clusterID++
	c.coordinated = c.now
	description, _, _ := strings.Cut(c.name, ":")
	c.name = fmt.Sprintf("%s:id%d", description, c.clusterID)
	c.coordinators = slices.Clone(words)
	c.recover()
	out.Out = "Coordination state changed\n"
}
