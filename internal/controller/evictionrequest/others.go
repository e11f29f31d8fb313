package evictionrequest

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
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
}

func newOthers(log logr.Logger, recorder events.EventRecorder) *others {
	return &others{log: log.WithName("evictionrequest"), events: recorder}
}

// see looks for another controller's hand in an object.
func (o *others) see(object client.Object) {
	found, ok := lifecycle.FindOther(object.GetManagedFields())
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if found.Seen.After(o.last.Seen) {
		o.last = found
	}
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
