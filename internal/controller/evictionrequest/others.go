package evictionrequest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"usher.sh/usher/internal/act"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/text"
)

var standingDown = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "usher_eviction_controller_standing_down",
	Help: "1 while Usher leaves eviction requests to another evictionrequest-controller.",
})

func init() { metrics.Registry.MustRegister(standingDown) }

// others keeps the last sign of another evictionrequest-controller in each Eviction that has one.
type others struct {
	log    logr.Logger
	events events.EventRecorder
	alone  bool // no other controller can be there: none is looked for

	mu    sync.Mutex
	signs map[client.ObjectKey]evictionrequest.Other
	down  bool
	own   bool // a write of this controller was seen in an eviction
}

// headStart is what another controller gets for its first sign, where neither's was seen yet: nothing else shows that it
// is there, and two that begin at once would each make an eviction.
const headStart = 2 * time.Second

// newOthers with alone looks for no other controller.
func newOthers(log logr.Logger, recorder events.EventRecorder, alone bool) *others {
	return &others{
		log: log.WithName("evictionrequest"), events: recorder, alone: alone,
		signs: map[client.ObjectKey]evictionrequest.Other{},
	}
}

// see looks for another controller's hand in an eviction. Where there is one, Usher's own of before does not count: the
// other is given its head start again when its signs are gone.
func (o *others) see(eviction *api.Eviction, now time.Time) {
	if o.alone {
		return
	}
	found, ok := evictionrequest.FindOther(eviction, now)
	o.mu.Lock()
	defer o.mu.Unlock()
	key := client.ObjectKeyFromObject(eviction)
	if !ok {
		delete(o.signs, key)
		o.own = o.own || isOurs(eviction)
		return
	}
	o.signs[key], o.own = found, false
}

// forget drops the signs in an eviction that is gone: what cannot be read again is not believed.
func (o *others) forget(eviction client.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.signs, client.ObjectKeyFromObject(eviction))
}

// isOurs reports whether Usher's controller has written the eviction's status.
func isOurs(eviction *api.Eviction) bool {
	return slices.ContainsFunc(eviction.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == evictionrequest.FieldManager && m.Subresource == "status"
	})
}

// first returns how long to wait with the first eviction of all, for a request of a certain age.
func (o *others) first(request client.Object, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.own || o.alone {
		return 0
	}
	return min(headStart, request.GetCreationTimestamp().Add(headStart).Sub(now))
}

// running returns the other controller, and how long to leave everything to it, at most evictionrequest.OtherMemory; 0 when
// there is none.
func (o *others) running(now time.Time) (evictionrequest.Other, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var last evictionrequest.Other
	for _, sign := range o.signs {
		if sign.Seen.After(last.Seen) {
			last = sign
		}
	}
	left := time.Duration(0)
	if last.Manager != "" {
		left = min(evictionrequest.OtherMemory, max(0, last.Seen.Add(evictionrequest.OtherMemory).Sub(now)))
	}
	o.say(left > 0, last)
	return last, left
}

// say reports a change once.
func (o *others) say(down bool, last evictionrequest.Other) {
	if down == o.down {
		return
	}
	o.down = down
	if down {
		standingDown.Set(1)
		o.log.Info("another evictionrequest-controller is at work; Usher's stands down until it has been silent for some time",
			"manager", last.Manager, "seen", last.Seen, "silence", evictionrequest.OtherMemory)
		return
	}
	standingDown.Set(0)
	o.log.Info("the other evictionrequest-controller is silent; Usher's takes over", "manager", last.Manager, "seen", last.Seen)
}

// announce says on a request who serves it. The other's name is what a client called itself.
func (o *others) announce(request client.Object, other evictionrequest.Other) {
	note := fmt.Sprintf("evictions are run by %s, seen at %s; Usher's own controller stands down",
		text.Line(other.Manager), other.Seen.UTC().Format(time.RFC3339))
	o.events.Eventf(request, nil, corev1.EventTypeNormal, "ServedByAnother", "StandDown", "%s", act.EventNote(note))
}
