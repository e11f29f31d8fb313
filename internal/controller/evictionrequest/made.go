package evictionrequest

import (
	"maps"
	"sync"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/evictionrequest"
)

// made remembers for a moment which eviction was created for a request, by the request's UID: what the creation's own writes wake looks again
// before the cache shows the eviction, and would create it once more.
type made struct {
	mu   sync.Mutex
	last map[types.UID]evictionrequest.Made
}

func newMade() *made { return &made{last: map[types.UID]evictionrequest.Made{}} }

// of is what was created last for a request. What the cache shows is forgotten: once that is gone, another may be created at once.
func (m *made) of(request types.UID, cached []*api.Eviction) evictionrequest.Made {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range cached {
		if e.Name == m.last[request].Name {
			delete(m.last, request)
		}
	}
	return m.last[request]
}

func (m *made) note(request types.UID, eviction string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.last, func(_ types.UID, one evictionrequest.Made) bool {
		return now.Sub(one.Time).Abs() >= evictionrequest.UnseenFor
	})
	m.last[request] = evictionrequest.Made{Name: eviction, Time: now}
}
