package foundationdb

import (
	"maps"
	"slices"

	"usher.sh/usher/internal/system"
)

var _ system.Resumer = (*cluster)(nil)

// Resume implements system.Resumer: of the same cluster, since when what is missing, which exclusions were asked for, and the coordinators that were found
// hold on. It is the same where an earlier cluster file has the same description and id.
func (c *cluster) Resume(before system.System) {
	from, ok := before.(*cluster)
	if !ok || from == c {
		return
	}
	from.mu.Lock()
	file, names, begun := from.file, slices.Clone(from.names), maps.Clone(from.begun)
	from.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(names, c.names[0])
	if at < 0 {
		return
	}
	c.roster, c.begun = from.roster, begun
	newest, err := admitted(file, c.admit)
	if at == len(names)-1 || err != nil { // the policy's file is the newest
		return
	}
	c.file, c.names, c.moved = newest.String(), names, true
}
