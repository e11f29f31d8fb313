package snapshot

import "maps"

// Clone returns a store of its own with the same facts: what is set or deleted in
// one is not seen in the other.
func (c *Cluster) Clone() *Cluster {
	return &Cluster{
		nodes:       maps.Clone(c.nodes),
		pods:        maps.Clone(c.pods),
		podsByName:  maps.Clone(c.podsByName),
		podsByNode:  cloneSets(c.podsByNode),
		podsByOwner: cloneSets(c.podsByOwner),
		podsBySpace: cloneSets(c.podsBySpace),
		marked:      maps.Clone(c.marked),
		surged:      maps.Clone(c.surged),
		unsettled:   maps.Clone(c.unsettled),
		budgets:     c.budgets.clone(),
		workloads:   maps.Clone(c.workloads),
		workloadsOf: cloneInner(c.workloadsOf),
		scalers:     maps.Clone(c.scalers),

		surgedScalers: maps.Clone(c.surgedScalers),

		claims:      maps.Clone(c.claims),
		volumes:     maps.Clone(c.volumes),
		attachments: maps.Clone(c.attachments),
		attachedTo:  cloneInner(c.attachedTo),
		requests:    maps.Clone(c.requests),
		evictions:   maps.Clone(c.evictions),
		policies:    cloneInner(c.policies),
		leases:      maps.Clone(c.leases),
		leasesRead:  maps.Clone(c.leasesRead),
		gaps:        maps.Clone(c.gaps),
		partial:     maps.Clone(c.partial),
		nodesRead:   maps.Clone(c.nodesRead),
	}
}

func cloneSets[K comparable](index map[K]*podSet) map[K]*podSet {
	clone := make(map[K]*podSet, len(index))
	for key, set := range index {
		clone[key] = &podSet{byUID: maps.Clone(set.byUID), sorted: set.sorted}
	}
	return clone
}

func cloneInner[K, L comparable, V any](index map[K]map[L]V) map[K]map[L]V {
	clone := make(map[K]map[L]V, len(index))
	for key, inner := range index {
		clone[key] = maps.Clone(inner)
	}
	return clone
}
