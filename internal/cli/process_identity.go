package cli

import (
	"cmp"
	"crypto/rand"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/snapshot"
)

// host is what is known of the processes of this machine.
type host struct {
	name  string
	boot  string               // of the kernel and of the process namespace; "" where unknown
	start func(pid int) string // when that process started; "" when there is none
}

// thisHost looks at /proc. Elsewhere than on Linux nothing is known.
func thisHost() host {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return host{name: name, boot: bootOf("/proc"), start: func(pid int) string { return startOf("/proc", pid) }}
}

// bootOf names the kernel's run and the process namespace. Two machines can share a
// name, and two containers a name and a kernel: a PID means the same process only
// where both are the same.
func bootOf(proc string) string {
	id, err := os.ReadFile(proc + "/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink(proc + "/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id)) + "/" + space
}

// startOf returns when a process started, in the kernel's ticks since its boot.
func startOf(proc string, pid int) string {
	stat, err := os.ReadFile(proc + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The second field, the name, may hold spaces and brackets; the start is the 22nd.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// self identifies this process as a drainer, by words that are read as they were written.
func (h host) self(now time.Time) snapshot.Drainer {
	who := snapshot.Drainer{ID: strings.ToLower(rand.Text()[:10]), By: text.Line(userName() + "@" + h.name), PID: os.Getpid(), Beat: now}
	if start := h.start(who.PID); h.boot != "" && start != "" {
		who.Boot = h.boot + "/" + start
	}
	return who
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), "unknown")
}

// ended reports whether a drainer certainly runs no more: it was a process of this
// very machine, and that process is gone. For all others only their sign of life shows it.
func (h host) ended(d snapshot.Drainer) bool {
	boot, start, ok := text.CutLast(d.Boot, "/")
	if !ok || h.boot == "" || boot != h.boot || d.PID <= 0 {
		return false
	}
	return h.start(d.PID) != start
}

// abandoned reports whether a killed drain left the node as it is.
func (h host) abandoned(n *snapshot.Node, v snapshot.View) bool {
	return n.Drain != nil && n.Drain.Working() && !mayRun(v, h.dead(v.Cluster), n.Drain.Drainer)
}

// killed reports whether a drain has ended with its process: no other one has gone on with it, as its Lease would say.
func (h host) killed(c *snapshot.Cluster, who snapshot.Drainer) bool {
	lease, _ := c.LeaseOf(who.ID)
	return h.ended(who) && (lease == nil || lease.Holder == who.Holder())
}

// dead returns the ids of all recorded drains that certainly run no more. A record on a workload or an autoscaler, which its
// namespace's users can write, counts only for a drain that has none on a node, so not where there may be nodes that were not read.
func (h host) dead(c *snapshot.Cluster) map[string]bool {
	found, onNodes := map[string]bool{}, map[string]bool{}
	for _, n := range c.Nodes() {
		if n.Drain == nil {
			continue
		}
		onNodes[n.Drain.ID] = true
		if h.killed(c, n.Drain.Drainer) {
			found[n.Drain.ID] = true
		}
	}
	if !c.NodesRead(snapshot.DrainLabel) {
		return found
	}
	note := func(d snapshot.Drainer) {
		if !onNodes[d.ID] && h.ended(d) {
			found[d.ID] = true
		}
	}
	for _, w := range c.Workloads() {
		if w.Surge != nil {
			note(w.Surge.Drainer)
		}
	}
	for _, a := range c.Autoscalers() {
		if a.Surge != nil {
			note(a.Surge.Drainer)
		}
	}
	return found
}
