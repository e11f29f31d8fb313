package policy

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// knownPermits remembers by policy since when this process knows each permit, and that its pod is gone. Its times are the machine's, with
// the monotonic reading that the apiserver's time lacks. A process that was restarted counts from its start.
type knownPermits struct {
	mu    sync.Mutex
	since map[snapshot.Key]map[types.UID]knownPermit
}

type knownPermit struct {
	startTime    time.Time // of the permit: a later one for the same pod is another
	permit, gone time.Time
}

func newKnownPermits() *knownPermits {
	return &knownPermits{since: map[snapshot.Key]map[types.UID]knownPermit{}}
}

// forget is for a policy that is gone.
func (k *knownPermits) forget(policy snapshot.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.since, policy)
}

// known notes a policy's permits, and which of their pods are gone, and returns for how long that has been known.
func (k *knownPermits) known(policy *v1alpha1.EvictionPolicy, gone map[types.UID]time.Time, now time.Time) map[types.UID]eviction.KnownFor {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := client.ObjectKeyFromObject(policy)
	before, noted := k.since[key], map[types.UID]knownPermit{}
	all := map[types.UID]eviction.KnownFor{}
	for i := range policy.Status.Leaving {
		entry := &policy.Status.Leaving[i]
		one, ok := before[entry.PodUID]
		if !ok || !one.startTime.Equal(entry.StartTime.Time) {
			one = knownPermit{startTime: entry.StartTime.Time, permit: now}
		}
		if _, seen := gone[entry.PodUID]; one.gone.IsZero() && (seen || entry.GoneTime != nil) {
			one.gone = now
		}
		noted[entry.PodUID] = one
		known := eviction.KnownFor{Permit: now.Sub(one.permit)}
		if !one.gone.IsZero() {
			known.Gone = now.Sub(one.gone)
		}
		all[entry.PodUID] = known
	}
	k.since[key] = noted
	if len(noted) == 0 {
		delete(k.since, key)
	}
	return all
}
