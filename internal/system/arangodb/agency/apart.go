package agency

import "slices"

// Apart separates the answers of one agency from those of others. Two answers belong together if one names the other's id in its
// pool, or if an answer that belongs to both does. The agency is the one to which more than half of the answers belong; where none
// has so many, all are kept, so that their disagreement shows.
func Apart(configs []Config) (ours, others []Config) {
	for _, config := range configs {
		kin := kindred(configs, config)
		stranger := func(c Config) bool { return !slices.Contains(kin, c.ID) }
		ours = slices.DeleteFunc(slices.Clone(configs), stranger)
		if 2*len(ours) > len(configs) {
			return ours, slices.DeleteFunc(slices.Clone(configs), func(c Config) bool { return !stranger(c) })
		}
	}
	return configs, nil
}

// kindred are the ids of the agents that answer for the same agency as this one, itself included.
func kindred(configs []Config, first Config) []string {
	ids, found := []string{first.ID}, []Config{first}
	for at := 0; at < len(found); at++ {
		for _, other := range configs {
			if !slices.Contains(ids, other.ID) && (names(found[at], other) || names(other, found[at])) {
				ids, found = append(ids, other.ID), append(found, other)
			}
		}
	}
	return ids
}

func names(c, other Config) bool {
	_, known := c.Pool[other.ID]
	return known
}
