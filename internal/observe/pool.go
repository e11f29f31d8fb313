package observe

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// podPool lets all feeds of an observer keep the facts of a pod once. As many feeds show a pod as there are budgets that count it: who may
// write both would else multiply the megabyte that labels may have.
type podPool struct {
	mu     sync.Mutex
	states held[podState]
	family siblings
}

// podState names a state of a pod.
type podState struct {
	uid     types.UID
	version string
}

// share returns the facts that say the same as p, where a feed holds some. All feeds show the same in one state of a pod, except in that
// with which it goes.
func (s *podPool) share(p *snapshot.Pod) *snapshot.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := podState{p.UID, p.ResourceVersion}
	first := s.states.get(state)
	if first == nil {
		p = s.family.share(p)
		s.states.put(state, p)
		return p
	}
	if reflect.DeepEqual(first, p) {
		return first
	}
	return p
}
