package policy

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/internal/act"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// leaving is a system whose job goes on after it was asked to undo it.
type leaving struct{ mute }

func (leaving) Undo(context.Context, eviction.Preparation) (eviction.Undone, error) {
	return eviction.Undone{Done: true, Left: "job 7 goes on"}, nil
}

// Without the event only the system itself would show that a step which was crossed out stays in force.
func TestStepThatStaysInForceMakesAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := newMember("db-0", "db")
		asked := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		r := newRig(t, interceptor.Funcs{}, pod, newPolicy("db", func(p *v1alpha1.EvictionPolicy) {
			p.Status.Preparations = []v1alpha1.PreparationStatus{{
				MemberRef: v1alpha1.MemberRef{ID: pod.Name, PodName: pod.Name, PodUID: pod.UID}, Name: "Empty", State: v1alpha1.PreparationUndoing, StartTime: asked, LastRequestTime: asked,
			}}
		}))
		kind := func(*v1alpha1.System) (system.Kind, bool) {
			kind := rest.Kind()
			kind.Open = func(*v1alpha1.System, system.Access) (system.System, error) { return leaving{}, nil }
			return kind, true
		}
		observer := policycache.NewObserver(policycache.ObserverConfig{Kind: kind, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		r.reconciler.Act.Observer, r.reconciler.Gatherer.Observer = observer, observer
		recorder := events.NewFakeRecorder(1000)
		r.reconciler.events = recorder
		r.settled(t, 10*time.Second)
		if left := r.stored(t).Status.Preparations; len(left) > 0 {
			t.Fatalf("the step is not crossed out: %v", left)
		}
		close(recorder.Events)
		said := 0
		for event := range recorder.Events {
			if strings.Contains(event, act.NotUndone) && strings.Contains(event, "Empty of db-0") && strings.Contains(event, "job 7 goes on") {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%d events say that the job goes on, want 1", said)
		}
	})
}
