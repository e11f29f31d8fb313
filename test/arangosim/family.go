package arangosim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// like is the collection that the place's collection is distributed like, "" if it is none.
func (c *Cluster) like(at place) string {
	return c.tree.text("Plan/Collections/" + at.db + "/" + at.collection + "/distributeShardsLike")
}

// family is a shard with those of the collections that are distributed like its own, at the same place in the order of their
// ids. They change their servers together.
func (c *Cluster) family(at place) []place {
	all := []place{at}
	index := slices.Index(c.inOrder(at.db, at.collection), at.shard)
	for _, other := range c.tree.keys("Plan/Collections/" + at.db) {
		if c.like(place{at.db, other, ""}) != at.collection {
			continue
		}
		if shards := c.inOrder(at.db, other); index >= 0 && index < len(shards) {
			all = append(all, place{at.db, other, shards[index]})
		}
	}
	return all
}

// inOrder are a collection's shards by their numbers.
func (c *Cluster) inOrder(db, collection string) []string {
	shards := c.tree.keys("Plan/Collections/" + db + "/" + collection + "/shards")
	slices.SortStableFunc(shards, func(a, b string) int { return cmp.Compare(digits(a), digits(b)) })
	return shards
}

func digits(shard string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(shard, "s"))
	if err != nil {
		return 0
	}
	return n
}

// heirs are the good servers that could lead a shard and its family, in the order of the plan, but for one.
func (c *Cluster) heirs(at place, but string) []string {
	fit := slices.DeleteFunc(bares(c.tree.strings(at.plan())), func(server string) bool {
		return server == but || c.health(server) != "GOOD" || c.tree.get("Supervision/DBServers/"+server) != nil ||
			c.tree.get("Current/MaintenanceDBServers/"+server) != nil
	})
	for _, member := range c.family(at) {
		plan, current := bares(c.tree.strings(member.plan())), c.tree.strings(member.current())
		candidates := c.tree.strings(member.candidates())
		if c.tree.get(member.candidates()) == nil {
			candidates = current
		}
		fit = slices.DeleteFunc(fit, func(server string) bool {
			return !slices.Contains(plan, server) || !slices.Contains(current, server) || !slices.Contains(candidates, server)
		})
	}
	return fit
}
