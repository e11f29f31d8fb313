package notice

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// MachineHook is the annotation by which Cluster API waits before it drains the node of a Machine that is being deleted, until it is taken off.
const MachineHook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/usher"

// Machine is a Machine of Cluster API as notices see it.
type Machine struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	Node            string    // "": it has none, or none yet
	DeletedSince    time.Time // zero: it is not being deleted
	Hooked          bool      // it has MachineHook
}

// notice is the notice of a Machine that is being deleted.
func (m *Machine) notice() Notice {
	name := m.Namespace + "/" + m.Name
	return Notice{Source: ClusterAPI, Kind: Termination, Event: name + "@" + string(m.UID), Node: m.Node, Message: "Machine " + name + " is being deleted"}
}

// ByMachines returns the notices of Machines that are being deleted and wait for Usher, or did: what their nodes were drained for stands until they are gone.
func ByMachines(machines []Machine, all []*v1alpha1.NodeMaintenance) (found []Reported) {
	known := map[string]bool{}
	for _, m := range all {
		known[m.Name] = true
	}
	for i := range machines {
		m := &machines[i]
		n := m.notice()
		if !m.DeletedSince.IsZero() && m.Node != "" && (m.Hooked || known[n.Name()]) {
			found = append(found, Reported{Notice: n})
		}
	}
	return found
}

// Release is a Machine that is to be waited for no longer, and why.
type Release struct {
	Machine Machine
	Why     string
}

// Releases returns the Machines that are to be waited for no longer, and when time alone adds one; zero: never. That is when their nodes are drained, where there is
// nothing to drain, and at last when they were held for as long as the configuration says.
func (c *Config) Releases(machines []Machine, nodes []Node, all []*v1alpha1.NodeMaintenance, now time.Time) (found []Release, next time.Time) {
	there, standing := map[string]bool{}, map[string]*v1alpha1.NodeMaintenance{}
	for i := range nodes {
		there[nodes[i].Name] = true
	}
	for _, m := range all {
		standing[m.Name] = m
	}
	for i := range machines {
		m := &machines[i]
		if m.DeletedSince.IsZero() || !m.Hooked {
			continue
		}
		n := m.notice()
		until := m.DeletedSince.Add(c.MachineHold)
		switch {
		case !there[m.Node]:
			found = append(found, Release{*m, "it has no node"})
		case c.action(&Reported{Notice: n}) == Report:
			found = append(found, Release{*m, "by the configuration of notices nothing is done about its node"})
		case standing[n.Name()] != nil && hasDone(standing[n.Name()], n):
			found = append(found, Release{*m, fmt.Sprintf("NodeMaintenance %s has done with node %s", n.Name(), m.Node)})
		case !until.After(now):
			found = append(found, Release{*m, fmt.Sprintf("it was held for %s (machineHold), and node %s is not drained: Cluster API goes on", c.MachineHold, m.Node)})
		default:
			next = earliest(next, until)
		}
	}
	return found, next
}

// hasDone reports whether a maintenance has done what its notice leads to.
func hasDone(m *v1alpha1.NodeMaintenance, n Notice) bool {
	s := standingOf(m, n)
	return s.State == s.done()
}
