package evictionrequest

import (
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.sh/usher/internal/evictionrequest"
)

// made remembers for a moment which eviction was created for a pod: who looks before the cache shows the eviction would create it once more.
// For another request of the pod that would take away the owners that it has: what one field manager applies is all that it wants.
type made struct {
	mu   sync.Mutex
	last map[evictionrequest.Ref]evictionrequest.Made
}

func newMade() *made { return &made{last: map[evictionrequest.Ref]evictionrequest.Made{}} }

// of is what was created last for a pod. What the cache shows is forgotten: once that is gone, another may be created at once.
func (m *made) of(pod evictionrequest.Ref, cached []*api.Eviction) evictionrequest.Made {
	m.mu.Lock()
	defer m.mu.Unlock()
	if shows(cached, pod, m.last[pod].Name) {
		delete(m.last, pod)
	}
	return m.last[pod]
}

// shows reports whether the cache shows an eviction of a pod under a name.
func shows(cached []*api.Eviction, pod evictionrequest.Ref, name string) bool {
	for _, e := range cached {
		if of, ok := evictionrequest.EvictionRef(e); ok && of == pod && e.Name == name {
			return true
		}
	}
	return false
}

// begin notes that an eviction is about to be created for a pod, and returns false where another worker creates one.
func (m *made) begin(pod evictionrequest.Ref, eviction string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.last, func(_ evictionrequest.Ref, one evictionrequest.Made) bool {
		return now.Sub(one.Time).Abs() >= evictionrequest.UnseenFor
	})
	if m.last[pod].Name != "" {
		return false
	}
	m.last[pod] = evictionrequest.Made{Name: eviction, Time: now}
	return true
}

// ended notes what has become of a creation. One that was refused is forgotten, one that was not answered may have taken effect.
func (m *made) ended(pod evictionrequest.Ref, eviction string, now time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if refused(err) {
		delete(m.last, pod)
		return
	}
	m.last[pod] = evictionrequest.Made{Name: eviction, Time: now}
}

// refused reports whether an error says that a write had no effect.
func refused(err error) bool {
	said, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	code := said.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
