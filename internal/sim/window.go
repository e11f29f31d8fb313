package sim

import "usher.sh/usher/internal/drain"

// window is the part of a long row of nodes at which a forecast looks: where only a
// few may drain at once, those that are done and those whose turn is far off change
// nothing, and looking at them all each time would take most of the time.
type window struct {
	size int
	rest []string // nodes whose turn is far off
}

// windowFor returns how many nodes have to be looked at, 0 for all.
func windowFor(f *forecast) int {
	if f.req.MaxParallel <= 0 {
		return 0
	}
	zones := map[string]bool{}
	for _, name := range f.req.Nodes {
		if n := f.sim.truth.Node(name); n != nil {
			zones[n.Zone] = true
		}
	}
	size := 2 * f.req.MaxParallel
	if f.req.MaxZones > 0 {
		size *= max(1, len(zones))
	}
	if size >= len(f.req.Nodes) {
		return 0
	}
	return size
}

// narrow looks at the first nodes only, once all are cordoned.
func (f *forecast) narrow(d drain.Decision) {
	f.window.size = windowFor(f)
	if f.window.size == 0 || !allCordons(d.Actions) {
		return
	}
	f.window.rest = f.req.Nodes[f.window.size:]
	f.req.Nodes = f.req.Nodes[:f.window.size:f.window.size]
}

func allCordons(actions []drain.Action) bool {
	for i := range actions {
		if actions[i].Kind != drain.Cordon {
			return false
		}
	}
	return true
}

// slide lets nodes that are done out of the window and others in. It reports whether
// the window has moved.
func (f *forecast) slide(d drain.Decision) bool {
	if len(f.window.rest) == 0 {
		return false
	}
	kept := make([]string, 0, f.window.size)
	for i := range d.Nodes {
		if s := d.Nodes[i].State; s == drain.NodePending || s == drain.NodeDraining {
			kept = append(kept, d.Nodes[i].Name)
		}
	}
	room := min(f.window.size-len(kept), len(f.window.rest))
	if room <= 0 {
		return false
	}
	f.req.Nodes = append(kept, f.window.rest[:room]...)
	f.window.rest = f.window.rest[room:]
	return true
}
