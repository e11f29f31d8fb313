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

// A key that is urgent is served although what its namespace has before it was listed, and others' events go before what was listed
// without end: whether it comes behind a key that was called already, or one is called before it later.
func TestWorkersServeAnUrgentKeyBehindListedOnes(t *testing.T) {
	for _, listed := range []int{2, 3, 5} {
		t.Run(fmt.Sprintf("%d listed", listed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c *controlled
				var ended atomic.Bool
				keys := make([]reconcile.Request, listed)
				for i := range keys {
					keys[i] = keyOf("shop", fmt.Sprint(i))
				}
				c = control(t, 2, 1, func(key reconcile.Request) error {
					<-time.After(time.Second)
					if key.Namespace != "shop" && !ended.Load() {
						c.queue.Add(key)
					}
					return nil
				}, keys...)
				for i := range 4 {
					c.queue.Add(keyOf(fmt.Sprint("noise-", i), "x"))
				}
				<-time.After(10 * time.Second)
				c.queue.Add(keyOf("shop", "urgent"))
				<-time.After(time.Minute)
				if _, served := c.seen(); !slices.Contains(served, "shop/urgent") {
					t.Errorf("not served in a minute, among %d others", len(served))
				}
				ended.Store(true)
				<-time.After(time.Minute)
				if len(c.share.namespaces) > 0 {
					t.Errorf("remembered for ever: %v", c.share.namespaces)
				}
			})
		})
	}
}

// A key is called with the highest priority of what waits in its namespace, and anew where a higher one comes; not with that of
// a key that waits no longer.
func TestWorkersCallWithTheHighestPriorityThatWaits(t *testing.T) {
	w := NewWorkers(2)
	limiter := workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()
	queue := &calls{TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(limiter)}
	defer queue.ShutDown()
	w.Into(queue)
	begin := func(name string, priority int, want bool) {
		t.Helper()
		key := keyOf("shop", name)
		w.came(key, priority)
		if got := w.begin(key); got != want {
			t.Errorf("%s begins: %t, want %t", name, got, want)
		}
		w.left(key)
	}
	made := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, queue.made); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		queue.made = nil
	}
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		begin(name, -100, i < 2)
	}
	begin("g", -50, false)
	made()
	w.end("shop")
	w.end("shop")
	made("c -50", "d -50")
	begin("e", -100, false)
	made()
	begin("e", 0, false) // an event about what waits
	made("c 0", "d 0")
	begin("h", 0, false)
	made()
	begin("c", 0, true)
	begin("i", 7, false)
	made("d 7")
	for _, called := range []struct {
		name, next string
		priority   int
	}{{"d", "e 7", 7}, {"e", "f 7", 7}, {"f", "g 7", 7}, {"g", "h 7", 7}, {"h", "i 7", 7}} {
		begin(called.name, called.priority, true)
		w.end("shop")
		made(called.next)
	}
	begin("j", -100, false)
	begin("i", 7, true)
	w.end("shop")
	made("j -100")
	begin("j", -100, true)
	w.end("shop")
	w.end("shop")
	if len(w.priorities)+len(w.namespaces) > 0 {
		t.Errorf("remembered for ever: %v, %v", w.priorities, w.namespaces)
	}
}

// calls notes what is added, and with which priority.
type calls struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	made []string
}

func (c *calls) AddWithOpts(o priorityqueue.AddOpts, keys ...reconcile.Request) {
	for _, key := range keys {
		c.made = append(c.made, fmt.Sprint(key.Name, " ", *o.Priority))
	}
}

func (c *calls) GetWithPriority() (key reconcile.Request, priority int, shutdown bool) {
	key, shutdown = c.Get()
	return key, 0, shutdown
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
