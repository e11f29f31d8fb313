package eviction

import (
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// Held is a request of a maintenance for the judged pod.
type Held struct {
	Requester string
	// Since is when the request was made, by the apiserver's word.
	Since time.Time
}

// hold is the oldest request of a maintenance and the shortest limit, false where there is not one of each.
func (in *Input) hold() (first Held, least snapshot.HoldLimit, limited bool) {
	least, limited = snapshot.ShortestHold(in.HoldLimits)
	if len(in.Holds) == 0 || !limited {
		return first, least, false
	}
	first = slices.MinFunc(in.Holds, func(a, b Held) int { return a.Since.Compare(b.Since) })
	return first, least, !first.Since.IsZero()
}

// holdExpired says by which limit blockers hold the pod no longer, "" where they do.
func (in *Input) holdExpired() string {
	first, least, limited := in.hold()
	if !limited || in.Now.Before(first.Since.Add(least.MaxHold)) {
		return ""
	}
	return text.Line(fmt.Sprintf("%s has waited since %s, longer than maxHold %s of ClusterEvictionPolicy %s",
		first.Requester, first.Since.UTC().Format(time.RFC3339), least.MaxHold, least.Policy))
}

// nextExpiry is when the first hold ends, zero where none does.
func (in *Input) nextExpiry() time.Time {
	first, least, limited := in.hold()
	if !limited {
		return time.Time{}
	}
	return first.Since.Add(least.MaxHold)
}
