package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// controlled is a controller of so many workers.
type controlled struct {
	queue priorityqueue.PriorityQueue[reconcile.Request]
	share *Workers

	mu     sync.Mutex
	looks  int      // calls of the share's Reconciler
	served []string // in the order in which they began
}

// control starts a controller whose keys, which are there at its start, were listed.
func control(t *testing.T, workers, each int, work func(reconcile.Request) error, listed ...reconcile.Request) *controlled {
	t.Helper()
	c := &controlled{share: NewWorkers(each)}
	reconciler := c.share.Reconciler(func(_ context.Context, key reconcile.Request) (reconcile.Result, error) {
		c.mu.Lock()
		c.served = append(c.served, key.String())
		c.mu.Unlock()
		return reconcile.Result{}, work(key)
	})
	running, err := controller.NewUnmanaged("share", controller.Options{
		MaxConcurrentReconciles: workers, SkipNameValidation: new(true),
		RateLimiter:    workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Hour),
		LogConstructor: func(*reconcile.Request) logr.Logger { return logr.Discard() },
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			made := c.share.NewQueue(name, limiter)
			c.queue, _ = made.(priorityqueue.PriorityQueue[reconcile.Request])
			c.queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, listed...)
			return made
		},
		Reconciler: reconcile.Func(func(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
			c.mu.Lock()
			c.looks++
			c.mu.Unlock()
			return reconciler(ctx, key)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- running.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return c
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
	})
}

// What comes while a worker is kept for a key that was called does not go before that key.
func TestWorkersAreHandedOn(t *testing.T) {
	w, queue := NewWorkers(1), workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	w.Into(queue)
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
	})
}

// A key that fails waits longer each time also where others take its namespace's share in between; one that succeeds does not.
func TestWorkersWhereAKeyFailsAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails, slow := keyOf("shop", "fails"), keyOf("shop", "slow")
		var mended atomic.Bool
		c := control(t, 2, 1, func(key reconcile.Request) error {
			if key == slow {
				<-time.After(time.Minute)
			} else if !mended.Load() {
				return errors.New("it fails")
			}
			return nil
		}, fails)
		tries := func() int {
			_, served := c.seen()
			return len(slices.DeleteFunc(served, func(key string) bool { return key != fails.String() }))
		}
		for range 30 {
			c.queue.Add(slow)
			<-time.After(time.Minute)
			if tried, counted := tries(), c.queue.NumRequeues(fails); counted != tried {
				t.Fatalf("%d failures count after %d", counted, tried)
			}
		}
		mended.Store(true)
		<-time.After(2 * time.Hour)
		if counted := c.queue.NumRequeues(fails); tries() < 3 || counted != 0 {
			t.Errorf("tried %d times; %d failures count after it has succeeded", tries(), counted)
		}
	})
}

// What a namespace has beyond its share when a controller starts goes after what others have, though it waits in their way.
func TestWorkersAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var listed []reconcile.Request
		for _, namespace := range []string{"a1", "a2", "a3"} {
			for i := range 5 {
				listed = append(listed, keyOf(namespace, fmt.Sprint(i)))
			}
		}
		c := control(t, 3, 1, func(reconcile.Request) error { <-time.After(time.Minute); return nil }, append(listed, keyOf("b", "0"))...)
		<-time.After(time.Hour)
		_, served := c.seen()
		if place := slices.Index(served, "b/0"); len(served) != 16 || place < 0 || place >= 6 {
			t.Errorf("served %v, want b/0 among the first six of sixteen", served)
		}
	})
}

// An event about a key that waits has it go before what was listed.
func TestWorkersKeepTheHighestPriority(t *testing.T) {
	w := NewWorkers(1)
	queue, _ := w.NewQueue("share", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()).(priorityqueue.PriorityQueue[reconcile.Request])
	defer queue.ShutDown()
	first, second := keyOf("shop", "first"), keyOf("shop", "second")
	next := func(want reconcile.Request, begins bool) int {
		key, priority, _ := queue.GetWithPriority()
		if got := w.begin(key); key != want || got != begins {
			t.Errorf("%s begins: %t, want %t of %s", key, got, begins, want)
		}
		queue.Done(key)
		return priority
	}
	for _, came := range []struct {
		key      reconcile.Request
		priority int
		begins   bool
	}{{first, handler.LowPriority, true}, {second, handler.LowPriority, false}, {second, 0, false}, {second, handler.LowPriority, false}} {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: &came.priority}, came.key)
		next(came.key, came.begins)
	}
	w.end("shop")
	if priority := next(second, true); priority != 0 {
		t.Errorf("called with priority %d", priority)
	}
	if w.end("shop"); len(w.priorities)+len(w.namespaces) > 0 {
		t.Errorf("remembered for ever: %v, %v", w.priorities, w.namespaces)
	}
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
