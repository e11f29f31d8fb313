package evictionrequest

import (
	"testing"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/internal/evictionrequest"
)

// refusedWrites asks the server, whichever it is, to take writes that the API forbids. The schema of the custom
// resources must refuse what Kubernetes' own validation refuses, except where a clock is needed.
func refusedWrites(t *testing.T, r *rig) {
	t.Helper()
	stop := r.start(t)
	pod := r.runningPod(t, "web", governed)
	request := r.ask(t, pod, "alice")
	open := r.waitEviction(t, 1, pod, "Usher's turn, and the last label", func(e *api.Eviction) bool {
		return evictionrequest.Active(e, evictionrequest.Responder) && e.Labels[evictionrequest.Evictor] != ""
	})
	stop()
	for name, write := range forbidden {
		t.Run(name, func(t *testing.T) {
			e := open.DeepCopy()
			write(e)
			r.refused(t, r.client.Status().Update(t.Context(), e, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}}))
		})
	}
	moved := open.DeepCopy()
	moved.Spec.Target.Pod.Name = "other"
	r.refused(t, r.client.Update(t.Context(), moved))
	for name, requester := range map[string]string{"requester": "bob.example.com/x", "reserved": "k8s.io/x", "plain": "x"} {
		changed := request.DeepCopy()
		if name == "requester" {
			check(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(request), changed))
			changed.Spec.Requester = requester
			r.refused(t, r.client.Update(t.Context(), changed))
			continue
		}
		r.refused(t, r.client.Create(t.Context(), evictionrequest.NewRequest(refTo(pod), requester)))
	}
}

func (r *rig) refused(t *testing.T, err error) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want a refusal as invalid", err)
	}
}

func setState(e *api.Eviction, responder string, state api.ResponderStateType) {
	for i := range e.Status.TargetResponders {
		if e.Status.TargetResponders[i].Name == responder {
			e.Status.TargetResponders[i].State = state
		}
	}
}

var forbidden = map[string]func(*api.Eviction){
	"a responder fewer": func(e *api.Eviction) {
		e.Status.TargetResponders, e.Status.Responders = e.Status.TargetResponders[:1], e.Status.Responders[:1]
	},
	"another name": func(e *api.Eviction) {
		e.Status.TargetResponders[0].Name, e.Status.Responders[0].Name = "x.example.com/y", "x.example.com/y"
	},
	"names that differ": func(e *api.Eviction) { e.Status.Responders[0].Name = "x.example.com/y" },
	"another priority":  func(e *api.Eviction) { e.Status.TargetResponders[0].Priority = new(int32(2000)) },
	"two at once": func(e *api.Eviction) {
		setState(e, evictionrequest.Evictor, api.ResponderStateActive)
		evictionrequest.Entry(e, evictionrequest.Evictor).StartTime = &metav1.Time{Time: time.Now()}
	},
	"back to Inactive":         func(e *api.Eviction) { setState(e, evictionrequest.Responder, api.ResponderStateInactive) },
	"skipped":                  func(e *api.Eviction) { setState(e, evictionrequest.Evictor, api.ResponderStateCanceled) },
	"completed without a time": func(e *api.Eviction) { setState(e, evictionrequest.Responder, api.ResponderStateCompleted) },
	"another's words":          func(e *api.Eviction) { evictionrequest.Entry(e, evictionrequest.Evictor).Message = new("mine") },
	"another start": func(e *api.Eviction) {
		evictionrequest.Entry(e, evictionrequest.Responder).StartTime.Time = time.Now().Add(time.Second * 3)
	},
	"heartbeat before the start": func(e *api.Eviction) { beat(e, -5*time.Second) },
	"completed before the start": func(e *api.Eviction) {
		entry := evictionrequest.Entry(e, evictionrequest.Responder)
		entry.CompletionTime = &metav1.Time{Time: entry.StartTime.Add(-time.Second)}
	},
	"too many words": func(e *api.Eviction) {
		evictionrequest.Entry(e, evictionrequest.Responder).Message = new(string(make([]byte, 4001)))
	},
	"final with one still active": func(e *api.Eviction) {
		meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: "Failed", Status: metav1.ConditionTrue, Reason: "NoFurtherResponder"})
	},
	"generation backwards": func(e *api.Eviction) { e.Status.ObservedGeneration = new(int64(0)) },
}

func beat(e *api.Eviction, after time.Duration) {
	entry := evictionrequest.Entry(e, evictionrequest.Responder)
	entry.HeartbeatTime = &metav1.Time{Time: entry.StartTime.Add(after)}
}
