package evictionrequest

import (
	"maps"
	"sync"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/evictionrequest"
)

// made remembers for a moment which eviction was created for a pod, by the pod's UID: who looks before the cache shows the eviction would
// create it once more. For another request of the pod that would take away the owners that it has: what one field manager applies is all
// that it wants.
type made struct {
	mu   sync.Mutex
	last map[types.UID]evictionrequest.Made
}

func newMade() *made { return &made{last: map[types.UID]evictionrequest.Made{}} }

// of is what was created last for a pod. What the cache shows is forgotten: once that is gone, another may be created at once.
func (m *made) of(pod types.UID, cached []*api.Eviction) evictionrequest.Made {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range cached {
		if e.Name == m.last[pod].Name {
			delete(m.last, pod)
		}
	}
	return m.last[pod]
}

// begin notes that an eviction is about to be created for a pod, and returns false where another worker creates it.
func (m *made) begin(pod types.UID, eviction string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.last, func(_ types.UID, one evictionrequest.Made) bool {
		return now.Sub(one.Time).Abs() >= evictionrequest.UnseenFor
	})
	if m.last[pod].Name == eviction {
		return false
	}
	m.last[pod] = evictionrequest.Made{Name: eviction, Time: now}
	return true
}

// failed forgets an eviction whose creation was not answered, or refused.
func (m *made) failed(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, pod)
}
