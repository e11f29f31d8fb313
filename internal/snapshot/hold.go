package snapshot

import (
	"cmp"
	"slices"
	"time"
)

// HoldLimit is how long what a namespace declares may hold a maintenance, by a ClusterEvictionPolicy.
type HoldLimit struct {
	Policy  string
	MaxHold time.Duration
}

// ShortestHold returns the shortest of several limits, false where there is none, or one that says nothing.
func ShortestHold(limits []HoldLimit) (HoldLimit, bool) {
	if len(limits) == 0 {
		return HoldLimit{}, false
	}
	least := slices.MinFunc(limits, func(a, b HoldLimit) int { return cmp.Compare(a.MaxHold, b.MaxHold) })
	return least, least.MaxHold > 0
}
