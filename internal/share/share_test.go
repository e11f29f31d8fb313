package share

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestShares(t *testing.T) {
	s := New(2)
	first, _ := s.Try("a")
	second, _ := s.Try("a")
	if _, ok := s.Try("a"); ok {
		t.Error("a namespace has three of two")
	}
	other, ok := s.Try("b")
	if !ok {
		t.Fatal("another namespace has none")
	}
	first()
	third, ok := s.Try("a")
	if !ok {
		t.Fatal("what was given back cannot be taken")
	}
	for _, release := range []func(){second, third, other} {
		release()
	}
	if len(s.slots) > 0 {
		t.Errorf("remembered for ever: %v", s.slots)
	}
}

func TestTakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		release, _ := s.Take(t.Context(), "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Take(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		time.AfterFunc(time.Second, release)
		if _, err := s.Take(t.Context(), "a"); err != nil {
			t.Errorf("error %v", err)
		}
	})
}

// Workers that one namespace keeps for ever are not those of another.
func TestReconcilerLeavesOthersTheirWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var served atomic.Int32
		reconciler := New(2).Reconciler(func(_ context.Context, key reconcile.Request) (reconcile.Result, error) {
			if key.Namespace == "hanging" {
				<-hang
			}
			served.Add(1)
			return reconcile.Result{}, nil
		})
		key := func(namespace string) reconcile.Request {
			return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "db"}}
		}
		for range 2 {
			go reconciler(t.Context(), key("hanging")) //nolint:errcheck // it returns none
		}
		synctest.Wait()
		result, err := reconciler(t.Context(), key("hanging"))
		if err != nil || result.RequeueAfter != again {
			t.Errorf("a third worker of the namespace: %+v, %v", result, err)
		}
		if _, err := reconciler(t.Context(), key("other")); err != nil || served.Load() != 1 {
			t.Errorf("another namespace: served %d, %v", served.Load(), err)
		}
		close(hang)
	})
}
