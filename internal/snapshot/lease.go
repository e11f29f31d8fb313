package snapshot

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// LeaseNamespace holds the Leases of drains. Every cluster has it, and it holds no other Leases: a right to write Leases cannot be limited
// to names that are not known yet, so that in kube-system or kube-node-lease it would be one over those of the control plane and of nodes.
const LeaseNamespace = "kube-public"

// leasePrefix begins the names of the Leases of drains.
const leasePrefix = "usher-drain-"

// UnreadFor is how long after its record was written a drain has to be taken for one that may still be running whose Lease cannot be read.
const UnreadFor = 15 * time.Minute

// MarkEvery is how often a drain with a Lease gives a sign of life on its nodes as well, for clients that cannot read the Lease: before
// UnreadFor is over, with time for a few tries.
const MarkEvery = 10 * time.Minute

// LeaseName is the name of a drain's Lease.
func LeaseName(id string) string { return leasePrefix + id }

// Lease is the sign of life of one drain, for all nodes on which it works.
type Lease struct {
	ID              string // of the drain
	UID             types.UID
	ResourceVersion string
	Holder          string    // the process that runs the drain
	Acquired        time.Time // since when the lease has been in force without a gap
	Renewed         time.Time
}

// LeaseID returns the id of the drain whose Lease has this name, "" and false where it is no drain's.
func LeaseID(name string) (string, bool) {
	id, found := strings.CutPrefix(name, leasePrefix)
	if !found || id == "" {
		return "", false
	}
	return id, true
}

// LiveAt reports whether the drain may still be running. For how long a Lease says that it counts is not asked: any client that may write
// it could say for ever.
func (l *Lease) LiveAt(now time.Time) bool { return now.Before(Believed(l.Renewed, now).Add(LiveFor)) }

// Holder names the process of a drain in its Lease.
func (d Drainer) Holder() string { return d.By + "/" + strconv.Itoa(d.PID) }

// SameProcess reports whether two drainers are one process.
func (d Drainer) SameProcess(other Drainer) bool {
	return d.By == other.By && d.PID == other.PID && d.Boot == other.Boot
}

// SetLease adds or replaces a Lease.
func (c *Cluster) SetLease(l *Lease) { c.leases[l.ID] = l }

// DeleteLease forgets the Lease of a drain.
func (c *Cluster) DeleteLease(id string) { delete(c.leases, id) }

// SetLeasesRead notes whether the Lease of a drain, or that of every drain where id is "", is read: one that is missing does not exist.
func (c *Cluster) SetLeasesRead(id string, read bool) { c.leasesRead[id] = read }

// LeaseOf returns the Lease of a drain as it was last seen, nil if it has none, and whether that is so now.
func (c *Cluster) LeaseOf(id string) (lease *Lease, known bool) {
	return c.leases[id], c.leasesRead[id] || c.leasesRead[""]
}

// Leases returns the Leases of all drains, sorted by their ids.
func (c *Cluster) Leases() []*Lease {
	return sortedBy(c.leases, func(a, b *Lease) int { return cmp.Compare(a.ID, b.ID) })
}
