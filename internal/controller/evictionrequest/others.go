package evictionrequest

import (
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"usher.sh/usher/internal/lifecycle"
)

var standingDown = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "usher_eviction_controller_standing_down",
	Help: "1 while Usher leaves eviction requests to another evictionrequest-controller.",
})

func init() { metrics.Registry.MustRegister(standingDown) }

// others keeps the last sign of another evictionrequest-controller.
type others struct {
	log    logr.Logger
	events events.EventRecorder

	mu   sync.Mutex
	last lifecycle.Other
	down bool
	own  bool // our own hand was seen in an eviction
}

// headStart is what another controller gets for its first sign, where neither's was seen yet: nothing else tells that it
// is there, and two that begin at once would each make an eviction.
const headStart = 2 * time.Second

// newOthers with alone knows that there can be none but those that were seen.
func newOthers(log logr.Logger, recorder events.EventRecorder, alone bool) *others {
	return &others{own: alone, log: log.WithName("evictionrequest"), events: recorder}
}

// see looks for another controller's hand in an object.
func (o *others) see(object client.Object) {
	found, ok := lifecycle.FindOther(object)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.own = o.own || isOurs(object)
	if ok && found.Seen.After(o.last.Seen) {
		o.last = found
	}
}

// isOurs: requests do not count, whose status is written before anything else.
func isOurs(object client.Object) bool {
	_, eviction := object.(*api.Eviction)
	return eviction && slices.ContainsFunc(object.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == lifecycle.FieldManager && m.Subresource == "status"
	})
}

// first returns how long to wait with the first eviction of all, for a request of a certain age.
func (o *others) first(request client.Object, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.own {
		return 0
	}
	return min(headStart, request.GetCreationTimestamp().Add(headStart).Sub(now))
}

// running returns the other controller, and how long to leave everything to it; 0 when there is none.
func (o *others) running(now time.Time) (lifecycle.Other, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := max(0, o.last.Seen.Add(lifecycle.OtherMemory).Sub(now))
	if o.last.Manager == "" {
		left = 0
	}
	o.say(left > 0)
	return o.last, left
}

// say reports a change once.
func (o *others) say(down bool) {
	if down == o.down {
		return
	}
	o.down = down
	if down {
		standingDown.Set(1)
		o.log.Info("another evictionrequest-controller is at work; Usher's stands down until it has been silent for some time",
			"manager", o.last.Manager, "seen", o.last.Seen, "silence", lifecycle.OtherMemory)
		return
	}
	standingDown.Set(0)
	o.log.Info("the other evictionrequest-controller is silent; Usher's takes over", "manager", o.last.Manager, "seen", o.last.Seen)
}

// tell says on a request who serves it.
func (o *others) tell(request client.Object, other lifecycle.Other) {
	o.events.Eventf(request, nil, corev1.EventTypeNormal, "ServedByAnother", "StandDown",
		"evictions are run by %s, seen at %s; Usher's own controller stands down", other.Manager, other.Seen.UTC().Format(time.RFC3339))
}
