package defaultresponder

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/evictionrequest"
)

var (
	now = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	key = reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "n", Name: "pod-1-p"}}
)

// ourTurn is an eviction whose last responder is active, and was last written to by the manager.
func ourTurn(manager string) *api.Eviction {
	e := &api.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "pod-1-p", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: manager, Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:responders":{"k:{\"name\":\"` + evictionrequest.Evictor + `\"}":{"f:message":{}}}}}`),
		}}},
		Spec: api.EvictionSpec{Target: api.EvictionTarget{Pod: &api.EvictionPodReference{Name: "p", UID: "a"}}},
	}
	e.Status.ObservedGeneration = new(int64(1))
	e.Status.TargetResponders = []api.TargetResponder{{Name: evictionrequest.Evictor, State: api.ResponderStateActive}}
	e.Status.Responders = []api.ResponderStatus{{Name: evictionrequest.Evictor, StartTime: &metav1.Time{Time: now}}}
	return e
}

var errAsked = errors.New("asked for the pod")

// cluster knows one eviction, and returns an error when its pod is read.
type cluster struct {
	client.Client
	eviction *api.Eviction
}

func (c cluster) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *api.Eviction:
		c.eviction.DeepCopyInto(into)
		return nil
	case *corev1.Pod:
		return errAsked
	}
	return errors.New("unexpected kind")
}

func TestLeavesAnEvictionToAnotherResponder(t *testing.T) {
	ended := ourTurn(FieldManager)
	ended.Status.Responders[0].CompletionTime = &metav1.Time{Time: now}
	cases := []struct {
		name     string
		eviction *api.Eviction
		goesOn   bool
	}{
		{"ours", ourTurn(FieldManager), true},
		{"another responder reports", ourTurn("theirs"), false},
		{"done", ended, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &reconciler{client: cluster{eviction: c.eviction}, attempts: newAttempts()}
			if _, err := s.reconcile(t.Context(), key); errors.Is(err, errAsked) != c.goesOn {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestBackoffIsForgottenWithItsTurn(t *testing.T) {
	a := newAttempts()
	a.refused(key, answers.Answer{Message: "no"}, now)
	second := a.refused(key, answers.Answer{Message: "wait", RetryAfter: time.Minute}, now)
	if second.Count != 2 || !second.NotBefore.Equal(now.Add(time.Minute)) || second.Answer != "wait" {
		t.Errorf("%+v", second)
	}
	ended := ourTurn(FieldManager)
	ended.Status.Responders[0].CompletionTime = &metav1.Time{Time: now}
	s := &reconciler{client: cluster{eviction: ended}, attempts: a}
	if _, err := s.reconcile(t.Context(), key); err != nil || a.of(key).Count != 0 {
		t.Errorf("error %v, still %+v", err, a.of(key))
	}
}
