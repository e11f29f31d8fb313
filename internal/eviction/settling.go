package eviction

import (
	"slices"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// Settling is a member on its way that counts as leaving for longer than its pod is seen, by its policy's status alone.
type Settling struct {
	Pod string
	// Within is how long it counts after its pod was seen gone, or was removed by force, Until when that ends; zero: it was not
	// seen gone yet.
	Within time.Duration
	Until  time.Time
}

// SettlingMembers are those of a policy. A permit whose pod stays is none: it was not used, and ends by itself.
func SettlingMembers(policy *Declared, pods []*snapshot.Pod) []Settling {
	var members []Settling
	for i := range statusOf(policy).Leaving {
		entry := &policy.Status.Leaving[i]
		at := slices.IndexFunc(pods, func(pod *snapshot.Pod) bool { return pod.UID == entry.UID })
		if at >= 0 && !pods[at].Terminating() && entry.GoneTime == nil {
			continue
		}
		if member, counts := settlingOf(policy.Policy, entry); counts {
			members = append(members, member)
		}
	}
	return members
}

func settlingOf(policy *Policy, entry *v1alpha1.Leaving) (_ Settling, counts bool) {
	member := Settling{Pod: entry.Pod, Within: policy.settle(entry.Role)}
	linger := time.Duration(entry.LingerSeconds) * time.Second
	switch {
	case entry.GoneTime != nil:
		member.Until = entry.GoneTime.Add(member.Within + time.Second) // the API keeps whole seconds
	case linger > 0:
		member.Within += linger
	}
	return member, member.Within > 0
}
