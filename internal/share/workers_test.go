package share

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// controlled is a controller of so many workers.
type controlled struct {
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	share *Workers

	mu     sync.Mutex
	looks  int      // calls of the share's Reconciler
	served []string // in the order in which they began
}

func control(t *testing.T, workers, each int, work func(reconcile.Request) error) *controlled {
	t.Helper()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
	c := &controlled{queue: workqueue.NewTypedRateLimitingQueue(limiter), share: NewWorkers(each)}
	if err := c.share.Source().Start(t.Context(), c.queue); err != nil {
		t.Fatal(err)
	}
	reconciler := c.share.Reconciler(func(_ context.Context, key reconcile.Request) (reconcile.Result, error) {
		c.mu.Lock()
		c.served = append(c.served, key.String())
		c.mu.Unlock()
		return reconcile.Result{}, work(key)
	})
	for range workers {
		go c.run(t.Context(), reconciler)
	}
	return c
}

func (c *controlled) run(ctx context.Context, reconciler reconcile.Func) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		c.mu.Lock()
		c.looks++
		c.mu.Unlock()
		switch result, err := reconciler(ctx, key); {
		case err != nil:
			c.queue.AddRateLimited(key)
		case result.RequeueAfter > 0:
			c.queue.AddAfter(key, result.RequeueAfter)
		}
		c.queue.Done(key)
	}
}

// seen returns what was done until all goroutines wait.
func (c *controlled) seen() (looks int, served []string) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks, slices.Clone(c.served)
}

func keyOf(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
}

// Workers that one namespace keeps for long are not those of another. What waits for them is not looked at again and again, and
// is served in the order in which it came, once.
func TestWorkersLeaveOthersTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := control(t, 4, 2, func(key reconcile.Request) error {
			if key.Namespace == "hanging" {
				<-time.After(time.Hour)
			}
			return nil
		})
		for i := range 6 {
			c.queue.Add(keyOf("hanging", fmt.Sprint(i)))
			synctest.Wait()
		}
		c.queue.Add(keyOf("hanging", "3")) // an event about what waits already
		c.queue.Add(keyOf("other", "a"))
		if _, served := c.seen(); !cmp.Equal(served, []string{"hanging/0", "hanging/1", "other/a"}) {
			t.Errorf("served %v", served)
		}
		<-time.After(30 * time.Minute)
		if looks, _ := c.seen(); looks != 8 {
			t.Errorf("%d looks at 8 events", looks)
		}
		<-time.After(4 * time.Hour)
		_, served := c.seen()
		want := []string{"hanging/0", "hanging/1", "other/a", "hanging/2", "hanging/3", "hanging/4", "hanging/5"}
		slices.Sort(served[3:5]) // two are called at the same time
		slices.Sort(served[5:])
		if !cmp.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
		if len(c.share.namespaces) > 0 {
			t.Errorf("remembered for ever: %v", c.share.namespaces)
		}
		c.queue.ShutDown()
	})
}

// What comes while a worker is kept for a key that was called does not go before that key.
func TestWorkersAreHandedOn(t *testing.T) {
	w, queue := NewWorkers(1), workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := w.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	first, second, late := keyOf("shop", "first"), keyOf("shop", "second"), keyOf("shop", "late")
	if !w.begin(first) || w.begin(second) {
		t.Error("not one at a time")
	}
	w.end("shop")
	if w.begin(late) || queue.Len() != 1 {
		t.Errorf("a key goes before the one that has waited; %d are called", queue.Len())
	}
	for _, key := range []reconcile.Request{second, late} {
		if !w.begin(key) {
			t.Errorf("%s was called and may not begin", key)
		}
		w.end("shop")
	}
	if len(w.namespaces) > 0 {
		t.Errorf("remembered for ever: %v", w.namespaces)
	}
}

// One that fails is tried again, after those that waited.
func TestWorkersWhereAKeyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		c := control(t, 2, 1, func(key reconcile.Request) error {
			<-time.After(time.Minute)
			if key.Name == "fails" && !failed {
				failed = true
				return fmt.Errorf("it fails once")
			}
			return nil
		})
		for _, name := range []string{"fails", "waits"} {
			c.queue.Add(keyOf("shop", name))
			synctest.Wait()
		}
		<-time.After(10 * time.Minute)
		if _, served := c.seen(); !cmp.Equal(served, []string{"shop/fails", "shop/waits", "shop/fails"}) {
			t.Errorf("served %v", served)
		}
		c.queue.ShutDown()
	})
}

// Where no queue was handed over, to which a key could go back, none waits.
func TestWorkersWithoutAQueue(t *testing.T) {
	w := NewWorkers(1)
	for _, key := range []reconcile.Request{keyOf("shop", "first"), keyOf("shop", "second")} {
		if !w.begin(key) {
			t.Errorf("%s waits for ever", key)
		}
	}
	w.end("shop")
	w.end("shop")
	if len(w.namespaces) > 0 {
		t.Errorf("remembered for ever: %v", w.namespaces)
	}
}

// What it costs to wait does not grow with how many wait.
func BenchmarkWorkersWaiting(b *testing.B) {
	w := NewWorkers(1)
	w.Into(workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()))
	for i := 0; b.Loop(); i++ {
		w.begin(keyOf("shop", fmt.Sprint(i)))
	}
}
