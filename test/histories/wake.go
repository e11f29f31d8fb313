package histories

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimeevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/snapshot"
)

// work is an entry of a controller's queue.
type work struct {
	controller string
	key        snapshot.Key
}

func compareWork(a, b work) int {
	return cmp.Or(cmp.Compare(a.controller, b.controller), cmp.Compare(a.key.Name, b.key.Name))
}

// deliver brings a replica the next event of a kind, and has those look who watch it. Now and then the watch begins anew
// with a list, brings an event before its turn, or twice.
func (r *replica) deliver(k kind) {
	w := r.world
	if _, hung := r.cache.hung[k]; hung {
		delete(r.cache.hung, k)
		if w.dice.IntN(2) == 0 { // what the watch has missed is too old for it
			for _, e := range r.cache.relist(k) {
				r.receive(e)
			}
			return
		}
	}
	if w.calm || w.odds.reorder == 0 || w.dice.IntN(100) >= w.odds.reorder {
		r.receive(r.cache.deliver(k))
		return
	}
	switch w.dice.IntN(3) {
	case 0:
		for _, e := range r.cache.relist(k) {
			r.receive(e)
		}
	case 1:
		r.cache.overtake(k)
		r.receive(r.cache.deliver(k))
	default:
		e := r.cache.deliver(k)
		r.receive(e)
		r.receive(event{before: e.after, after: e.after})
	}
}

func (r *replica) receive(e event) {
	if e.object() == nil {
		return // a deletion that comes twice
	}
	if before, ok := e.before.(*v1alpha1.EvictionPolicy); ok && (e.after == nil || e.after.GetUID() != before.UID) {
		r.track(before, true)
	}
	if after, ok := e.after.(*v1alpha1.EvictionPolicy); ok {
		r.track(after, false)
	}
	if before, ok := e.before.(*corev1.Pod); ok {
		after, _ := e.after.(*corev1.Pod)
		r.gatherer.Ended(r.ctx, before, after)
	}
	if r.look != nil {
		r.look.see()
	}
	if r.leads {
		r.wake(e)
	}
}

// track does what the manager's own does.
func (r *replica) track(policy *v1alpha1.EvictionPolicy, gone bool) {
	if !gone {
		r.gatherer.Track(policy)
		return
	}
	r.gatherer.Forget(policy.UID)
	synctest.Wait() // what waited for its evidence goes on, and nothing else does meanwhile
	r.act.Forget(policy.UID)
}

// lead begins to lead: everything that is there is looked at.
func (r *replica) lead() {
	r.leads = true
	for _, k := range kinds {
		for _, object := range sorted(r.cache.objects[k]) {
			r.wake(event{after: object})
		}
	}
}

// wake has the controllers look whose watches pass an event.
func (r *replica) wake(e event) {
	for i := range r.controllers {
		c := &r.controllers[i]
		for at, watch := range c.Watches {
			if kindOf(watch.Object) == kindOf(e.object()) && !slices.Contains(r.world.without, watchName(c, at)) {
				r.enqueueAll(c.Name, r.keysAt(e, watch)...)
			}
		}
	}
}

// keysAt are the keys that an event gives by a watch.
func (r *replica) keysAt(e event, watch wiring.Watch) []reconcile.Request {
	if watch.When != nil && !passes(watch.When, e) {
		return nil
	}
	var keys []reconcile.Request
	for _, object := range []client.Object{e.before, e.after} {
		if object != nil {
			keys = append(keys, watch.Keys(r.ctx, object)...)
		}
	}
	return keys
}

func passes(when predicate.Predicate, e event) bool {
	switch {
	case e.after == nil:
		return when.Delete(runtimeevent.DeleteEvent{Object: e.before})
	case e.before == nil:
		return when.Create(runtimeevent.CreateEvent{Object: e.after})
	}
	return when.Update(runtimeevent.UpdateEvent{ObjectOld: e.before, ObjectNew: e.after})
}

// Watches names all watches of all controllers.
func Watches() []string {
	r := &replica{act: &act.Governed{}}
	var names []string
	for _, c := range r.declare(&process{replica: r}) {
		for at := range c.Watches {
			names = append(names, watchName(&c, at))
		}
		if c.Observed != nil {
			names = append(names, observedName(&c))
		}
	}
	return names
}

func watchName(c *wiring.Controller, at int) string {
	kind := kindOf(c.Watches[at].Object)
	name := c.Name + " watches " + string(kind)
	if slices.ContainsFunc(c.Watches[:at], func(w wiring.Watch) bool { return kindOf(w.Object) == kind }) {
		name += " again"
	}
	return name
}

func observedName(c *wiring.Controller) string { return c.Name + " watches systems" }

// changed takes note of a system whose evidence is new, at a moment when other goroutines may run too.
func (r *replica) changed(policy *v1alpha1.EvictionPolicy) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.news = append(r.news, policy)
}

// spread has the controllers look that wait for what systems say.
func (r *replica) spread() {
	r.world.mu.Lock()
	news := r.news
	r.news = nil
	r.world.mu.Unlock()
	for _, policy := range news {
		for i := range r.controllers {
			if c := &r.controllers[i]; r.leads && c.Observed != nil && !slices.Contains(r.world.without, observedName(c)) {
				r.enqueueAll(c.Name, c.Observed(r.ctx, policy)...)
			}
		}
	}
}

func cached[T client.Object](r *replica, k kind) []T {
	var all []T
	for _, object := range sorted(r.cache.objects[k]) {
		if typed, ok := object.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

func (r *replica) enqueueAll(controller string, keys ...reconcile.Request) {
	for _, key := range keys {
		r.enqueue(controller, key.NamespacedName)
	}
}

func (r *replica) enqueue(controller string, key snapshot.Key) {
	item := work{controller, key}
	if r.running[item] {
		r.again[item] = true
		return
	}
	r.queue[item] = time.Now()
}

// due is what may be worked on now, in order.
func (r *replica) due() []work {
	var all []work
	now := time.Now()
	for item, at := range r.queue {
		if !at.After(now) && !r.running[item] {
			all = append(all, item)
		}
	}
	slices.SortFunc(all, compareWork)
	return all
}

// soonest is when the next work is due, or the time given if none is before.
func (r *replica) soonest(at time.Time) time.Time {
	for _, due := range slices.Collect(maps.Values(r.queue)) {
		if due.Before(at) {
			at = due
		}
	}
	return at
}

// retryPause stands for the queue's growing one.
const retryPause = time.Second

// reconcile runs a controller on one entry of its queue, as its own task.
func (r *replica) reconcile(item work) {
	delete(r.queue, item)
	r.running[item], r.looked[item] = true, time.Now()
	r.judgedBy(item)
	r.world.tasks++
	ctx := context.WithValue(context.WithValue(r.ctx, beganKey, time.Now()), taskKey, fmt.Sprintf("#%d %s/%s: ", r.world.tasks, item.controller, item.key.Name))
	ctx = context.WithValue(ctx, workKey, item)
	r.world.note("%s looks at %s/%s (#%d)", r.name, item.controller, item.key.Name, r.world.tasks)
	r.beginsRepair(item)
	r.world.spawn(func() {
		result, err := r.reconcilers[item.controller](ctx, reconcile.Request{NamespacedName: item.key})
		r.endsRepair(item, err)
		r.done(item, result, err)
	})
}

func (r *replica) done(item work, result reconcile.Result, err error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	delete(r.running, item)
	switch {
	case r.again[item]:
		delete(r.again, item)
		r.queue[item] = time.Now()
	case err != nil:
		r.queue[item] = time.Now().Add(retryPause)
	case result.RequeueAfter > 0:
		r.queue[item] = time.Now().Add(result.RequeueAfter)
	}
}
