package repair

import (
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Limits of what is kept of StatefulSets, in bytes as the apiserver sends them: of those of a policy, and of all.
const (
	mostKeptOfOne = 256 << 10
	mostKept      = 16 << 20
)

// keptSets are the StatefulSets of a policy's namespace as they were read once. Those that are too large are read whenever they are looked at.
type keptSets struct {
	at    time.Time
	sets  []appsv1.StatefulSet
	bytes int
}

func (k *keptSets) add(sets []appsv1.StatefulSet) {
	for i := range sets {
		k.bytes += sets[i].Size()
	}
	if k.bytes > mostKeptOfOne {
		k.sets = nil
		return
	}
	k.sets = append(k.sets, sets...)
}

// setStore keeps StatefulSets between two looks at a policy: every event of a member is one, and what is missing is missing for minutes before
// anything is done about it.
type setStore struct {
	mu    sync.Mutex
	all   map[client.ObjectKey]keptSets // by policy
	bytes int
}

// get returns the sets that were read less than unwatched before now; false: they have to be read.
func (s *setStore) get(policy client.ObjectKey, now time.Time) ([]appsv1.StatefulSet, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, known := s.all[policy]
	return kept.sets, known && now.Sub(kept.at) < unwatched
}

func (s *setStore) keep(policy client.ObjectKey, sets *keptSets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(policy)
	if sets.bytes > mostKeptOfOne || s.bytes+sets.bytes > mostKept {
		return
	}
	if s.all == nil {
		s.all = map[client.ObjectKey]keptSets{}
	}
	s.all[policy] = *sets
	s.bytes += sets.bytes
}

func (s *setStore) forget(policy client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(policy)
}

// drop forgets what is kept for a policy. The caller holds mu.
func (s *setStore) drop(policy client.ObjectKey) {
	s.bytes -= s.all[policy].bytes
	delete(s.all, policy)
}
