package policycache

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// DefaultMemory is for all evidence together, that which is kept and that which is being made, in bytes: with it a manager of
	// a cluster of 20,000 pods stays well below the limit in config/manager.
	DefaultMemory = 160 << 20
	// floor is what no namespace gives up for another, however many there are.
	floor = 1 << 20
)

// holding is memory that is taken: by an observation, or by the evidence that it brought.
type holding struct {
	namespace string
	bytes     int64
	kept      bool // evidence: dropped at once. An observation is broken off, and has its memory until it has ended
	going     bool // it is being broken off
	former    bool // evidence of the policy that asks
}

// ask is what an observation wants beside what it has.
type ask struct {
	namespace string
	bytes     int64
	// rest is how much more it will want in the end, bytes included, as far as the last observation of the policy shows.
	rest int64
}

// answer says what becomes of an ask. It fits once the holdings of drop have gone, and those that were going.
type answer struct {
	fits  bool
	drop  []int
	share int64
}

// plan shares memory out so that it is max-min fair. What is free is for the first that asks; where nothing is, a namespace within
// its share gets what others have above theirs. A policy that is known to need more than the share in the end takes nothing away:
// what it displaced would come back and displace it, without end.
func (a ask) plan(total int64, held []holding) answer {
	free, by := total, map[string]int64{}
	for i := range held {
		if !held[i].going {
			free -= held[i].bytes
			by[held[i].namespace] += held[i].bytes
		}
	}
	var drop []int
	for i := range held {
		if held[i].former && free < a.bytes {
			drop, free = append(drop, i), free+held[i].bytes
			by[a.namespace] -= held[i].bytes
		}
	}
	by[a.namespace] += max(a.bytes, a.rest)
	share := max(level(total, by), min(floor, total))
	if by[a.namespace] <= share {
		excess, freed := above(share, a.bytes-free, held, by, a.namespace)
		drop, free = append(drop, excess...), free+freed
	}
	if free < a.bytes {
		return answer{share: share}
	}
	return answer{fits: true, drop: drop, share: share}
}

// above returns holdings of namespaces above the share that are enough for what is missing, if there are so many, and their size.
func above(share, missing int64, held []holding, by map[string]int64, but string) (drop []int, freed int64) {
	for _, i := range largest(held, by) {
		h := &held[i]
		if freed >= missing {
			break
		}
		if h.namespace != but && !h.going && by[h.namespace] > share {
			drop, freed = append(drop, i), freed+h.bytes
			by[h.namespace] -= h.bytes
		}
	}
	return drop, freed
}

// largest orders holdings by what their namespaces have, then evidence before observations, then by size.
func largest(held []holding, by map[string]int64) []int {
	order, of := make([]int, len(held)), maps.Clone(by)
	for i := range held {
		order[i] = i
	}
	rank := func(h *holding) int {
		if h.kept {
			return 0
		}
		return 1
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &held[i], &held[j]
		return cmp.Or(cmp.Compare(of[b.namespace], of[a.namespace]), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(rank(a), rank(b)), cmp.Compare(b.bytes, a.bytes))
	})
	return order
}

// level is the share: the most that a namespace may have so that each has all that it wants, or as much as any other.
func level(total int64, wanted map[string]int64) int64 {
	left, namespaces := total, int64(len(wanted))
	for _, bytes := range slices.Sorted(maps.Values(wanted)) {
		if bytes > left/namespaces {
			return left / namespaces
		}
		left -= bytes
		namespaces--
	}
	return total
}
