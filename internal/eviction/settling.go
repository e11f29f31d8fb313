package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Settling is a member that may leave and then counts as leaving for longer than its pod is seen, by its policy's status alone.
type Settling struct {
	Pod string
	// Within is how long it counts after its pod was seen gone, or was removed by force, Until when that ends; zero: it was not
	// seen gone yet.
	Within time.Duration
	Until  time.Time
}

// SettlingMembers are those of a policy at a time, by what the process knows of its permits, as in StatusInput. A permit whose pod stays counts until ReconcileStatus has crossed it out by a live look: a cache may show
// a pod that terminates, or is gone.
func SettlingMembers(policy *Declared, now time.Time, known map[types.UID]KnownFor) []Settling {
	var members []Settling
	for i := range statusOf(policy).Leaving {
		if member, counts := settlingOf(policy.Policy, &policy.Status.Leaving[i], now, known); counts {
			members = append(members, member)
		}
	}
	return members
}

func settlingOf(policy *Policy, entry *v1alpha1.Leaving, now time.Time, known map[types.UID]KnownFor) (_ Settling, counts bool) {
	member := Settling{Pod: entry.PodName, Within: policy.settle(entry.Role)}
	linger := snapshot.Seconds(entry.LingerSeconds)
	switch {
	case entry.GoneTime != nil:
		member.Until = entry.GoneTime.Add(member.Within + time.Second) // the API keeps whole seconds
		if left := unsettled(known, entry, member.Within); left > 0 && now.Add(left).After(member.Until) {
			member.Until = now.Add(left)
		}
	case linger > 0:
		member.Within += linger
	}
	return member, member.Within > 0
}

// unsettled is how much of within is left by the process's own clock.
func unsettled(known map[types.UID]KnownFor, entry *v1alpha1.Leaving, within time.Duration) time.Duration {
	if known == nil {
		return 0
	}
	permit := known[entry.PodUID]
	return within - min(permit.Gone, permit.Permit-snapshot.Seconds(entry.LingerSeconds))
}
