package governed

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/governed"
	"usher.sh/usher/internal/lifecycle"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// controllers are those of a leading replica in the order in which they are set up.
var controllers = []string{"policy", "labels", "responder", "evictionrequest", "eviction", "eviction-metadata", "imperative-eviction", "expiry"}

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
	if w.calm || w.odds.reorder == 0 || w.dice.IntN(100) >= w.odds.reorder {
		r.hear(r.cache.deliver(k))
		return
	}
	switch w.dice.IntN(3) {
	case 0:
		for _, e := range r.cache.relist(k) {
			r.hear(e)
		}
	case 1:
		r.cache.overtake(k)
		r.hear(r.cache.deliver(k))
	default:
		e := r.cache.deliver(k)
		r.hear(e)
		r.hear(event{before: e.after, after: e.after})
	}
}

func (r *replica) hear(e event) {
	if e.object() == nil {
		return // a deletion that comes twice
	}
	if before, ok := e.before.(*v1alpha1.EvictionPolicy); ok && e.after == nil {
		r.track(before, true)
	}
	if after, ok := e.after.(*v1alpha1.EvictionPolicy); ok {
		r.track(after, false)
	}
	if r.leads {
		r.wake(e)
	}
}

// track does what the manager's own does.
func (r *replica) track(policy *v1alpha1.EvictionPolicy, gone bool) {
	if !gone {
		r.gatherer.Keeper.Track(r.gatherer.Book.Source(policy))
		return
	}
	r.gatherer.Keeper.Forget(policy.UID)
	synctest.Wait() // who waited for its evidence goes on, and nobody else does meanwhile
	r.gatherer.Book.Forget(policy.UID)
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

// wake is the controllers' wiring, written down once more.
func (r *replica) wake(e event) {
	switch object := e.object().(type) {
	case *corev1.Namespace:
		r.enqueue("labels", object.Name)
	case *corev1.Pod:
		r.wakeForPod(e, object)
	case *v1alpha1.EvictionPolicy:
		r.enqueue("policy", object.Name)
		r.enqueue("labels", namespace)
		r.wakeWanted()
	case *api.EvictionRequest:
		r.wakePolicies()
		r.enqueue("evictionrequest", object.Name)
		if _, drains := observe.RequestFacts(object).Drainer(); drains {
			r.enqueue("expiry", object.Name)
		}
		r.enqueue("responder", podName(object))
		r.wakeEvictions(podName(object), "eviction", "eviction-metadata")
	case *api.Eviction:
		for _, name := range []string{"eviction", "eviction-metadata", "imperative-eviction"} {
			r.enqueue(name, object.Name)
		}
		r.enqueue("responder", podName(object))
		for _, request := range cached[*api.EvictionRequest](r, requests) {
			if podName(request) == podName(object) {
				r.enqueue("evictionrequest", request.Name)
			}
		}
	}
}

func (r *replica) wakeForPod(e event, pod *corev1.Pod) {
	before, _ := e.before.(*corev1.Pod)
	_, labelled := pod.Labels[v1alpha1.PolicyLabel]
	_, audited := pod.Labels[v1alpha1.AuditLabel]
	if labelled || audited || len(r.cache.objects[policies]) > 0 {
		r.enqueue("labels", namespace)
	}
	r.wakePolicies()
	r.wakeEvictions(pod.Name, "imperative-eviction")
	if labelled && (before == nil || e.after == nil || !governed.SamePod(before, pod)) {
		r.enqueue("responder", pod.Name)
		r.wakeWanted()
	}
	if e.after == nil {
		r.wakeEvictions(pod.Name, "eviction")
	}
}

// told takes note of a system that says something new, at a moment when others may run too.
func (r *replica) told(policy *v1alpha1.EvictionPolicy) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.news = append(r.news, policy.Name)
}

// spread has the controllers look that wait for what systems say.
func (r *replica) spread() {
	r.world.mu.Lock()
	news := r.news
	r.news = nil
	r.world.mu.Unlock()
	for _, policy := range news {
		if r.leads {
			r.enqueue("policy", policy)
			r.wakeWanted()
		}
	}
}

func (r *replica) wakeWanted() {
	for _, request := range cached[*api.EvictionRequest](r, requests) {
		r.enqueue("responder", podName(request))
	}
}

func (r *replica) wakePolicies() {
	for _, policy := range sorted(r.cache.objects[policies]) {
		r.enqueue("policy", policy.GetName())
	}
}

func (r *replica) wakeEvictions(pod string, names ...string) {
	for _, e := range cached[*api.Eviction](r, evictions) {
		if podName(e) != pod {
			continue
		}
		for _, name := range names {
			r.enqueue(name, e.Name)
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

func podName(object client.Object) string {
	var ref lifecycle.Ref
	switch object := object.(type) {
	case *api.EvictionRequest:
		ref, _ = lifecycle.RequestRef(object)
	case *api.Eviction:
		ref, _ = lifecycle.EvictionRef(object)
	}
	return ref.Name
}

func (r *replica) enqueue(controller, name string) {
	item := work{controller, snapshot.Key{Namespace: namespace, Name: name}}
	if controller == "labels" {
		item.key.Namespace = ""
	}
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
	r.running[item] = true
	r.world.tasks++
	ctx := context.WithValue(context.WithValue(r.ctx, beganKey, time.Now()), taskKey, fmt.Sprintf("#%d %s/%s: ", r.world.tasks, item.controller, item.key.Name))
	r.world.note("%s looks at %s/%s (#%d)", r.name, item.controller, item.key.Name, r.world.tasks)
	r.world.spawn(func() {
		result, err := r.controllers[item.controller].Reconcile(ctx, reconcile.Request{NamespacedName: item.key})
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
