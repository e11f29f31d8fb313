package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
)

// mostWhile bounds what may happen until everything has been seen.
const mostWhile = 1000

// checkWoken looks whether a leading replica that has seen everything has something to write: then an event has not woken the controller
// for it, or the controller has given too late a time to look again. The system is asked anew before, since no event shows it.
func (w *world) checkWoken() {
	r := w.onlyLeader()
	if r == nil || w.tight || w.odds.jumps > 0 || r.cache.hangs() {
		return
	}
	w.note("---- for a moment nothing goes wrong ----")
	was := w.calm
	w.calm = true
	defer func() { w.calm = was; w.note("---- that was the moment ----") }()
	if !w.finish(r) || !w.await(func() { r.observe() }) || !w.finish(r) || r.dead {
		return
	}
	for i := range r.controllers {
		c := &r.controllers[i]
		for _, key := range r.keysOf(c) {
			if w.failed() || r.looksSoon(work{c.Name, key.NamespacedName}) {
				continue
			}
			ctx := context.WithValue(r.ctx, taskKey, fmt.Sprintf("(unwoken) %s/%s: ", c.Name, key.Name))
			ctx = context.WithValue(ctx, unwokenKey, true)
			if !w.await(func() { _, _ = c.Reconcile(ctx, key) }) {
				return
			}
		}
	}
}

// looksSoon reports whether a controller pauses before it looks at a key again: after a failure, or because a write must take effect.
func (r *replica) looksSoon(item work) bool {
	at, queued := r.queue[item]
	r.world.mu.Lock()
	failed := time.Since(r.failed[item]) <= writePause
	r.world.mu.Unlock()
	return queued && (time.Until(at) <= pause || failed) || time.Since(r.refused[item.key.Name]) <= evictPause
}

const (
	// pause is the longest between two writes that follow each other.
	pause = time.Second
	// writePause is the longest after a write that failed, from when on it is tried again.
	writePause = 10 * time.Second
	// evictPause is the longest after an eviction that was refused, from when on it is tried again.
	evictPause = time.Minute
)

// onlyLeader is the replica that leads, nil where several do or none.
func (w *world) onlyLeader() *replica {
	leaders := slices.DeleteFunc(w.alive(), func(r *replica) bool { return !r.leads })
	if len(leaders) != 1 {
		return nil
	}
	return leaders[0]
}

// finish lets everything happen that can without a clock, and reports whether the replica has come to rest.
func (w *world) finish(r *replica) bool {
	for range mostWhile {
		synctest.Wait()
		if w.failed() || !w.settleOne() {
			return !w.failed() && len(r.running) == 0 && len(r.due()) == 0
		}
	}
	return false
}

// await runs something of a replica's while calls arrive, and reports whether it has ended.
func (w *world) await(run func()) bool {
	done := make(chan struct{})
	w.spawn(func() { defer close(done); run() })
	for range mostWhile {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
		}
		waiters := w.waiters()
		if len(waiters) == 0 {
			return false // it waits for time to pass
		}
		w.open(waiters[0], arrives)
	}
	return false
}

// observe asks the systems of all policies that the replica knows.
func (r *replica) observe() {
	for _, policy := range cached[*v1alpha1.EvictionPolicy](r, policies) {
		source := r.gatherer.Policies.Source(policy)
		r.gatherer.Observer.Evidence(r.ctx, source, source.Epoch, 0)
	}
}

// keysOf are all keys that a controller may have by what the replica sees.
func (r *replica) keysOf(c *wiring.Controller) []reconcile.Request {
	all := map[reconcile.Request]bool{}
	for _, watch := range c.Watches {
		for _, object := range r.cache.objects[kindOf(watch.Object)] {
			for _, key := range watch.Keys(r.ctx, object) {
				all[key] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b reconcile.Request) int {
		return compareWork(work{key: a.NamespacedName}, work{key: b.NamespacedName})
	})
}

// unwoken fails a history in which a controller writes for which nothing has woken it.
func (r *replica) unwoken(ctx context.Context, what string) {
	if is, _ := ctx.Value(unwokenKey).(bool); is {
		r.world.fail("WAKE", "%s%s: nothing has woken the controller for that", taskOf(ctx), what)
	}
}

// unchanged reports whether a patch of a policy's status says only anew what is seen: with other words and times, which are written when
// there is something else to write or after some time.
func unchanged(object client.Object, p part, body []byte) bool {
	policy, ok := object.(*v1alpha1.EvictionPolicy)
	if !ok || p != status {
		return false
	}
	var patch struct {
		Metadata struct{ ResourceVersion string }
		Status   v1alpha1.EvictionPolicyStatus
	}
	if json.Unmarshal(body, &patch) != nil || patch.Metadata.ResourceVersion != "" {
		return false
	}
	return cmp.Diff(seen(&policy.Status), seen(&patch.Status)) == ""
}

// seen is the part of a status that says what is seen, but for words and times.
func seen(of *v1alpha1.EvictionPolicyStatus) v1alpha1.EvictionPolicyStatus {
	s := v1alpha1.EvictionPolicyStatus{ObservedGeneration: of.ObservedGeneration, MemberCount: of.MemberCount, Roles: of.Roles}
	for _, c := range of.Conditions {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason})
	}
	for _, b := range of.Blocked {
		b.Message = ""
		s.Blocked = append(s.Blocked, b)
	}
	return s
}

// beats reports whether a responder that applies its entry says nothing new but that it is alive, and that what it expected has not come.
func beats(old *api.Eviction, content map[string]any) bool {
	var applied api.Eviction
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &applied) != nil || len(applied.Status.Responders) != 1 || len(applied.Status.TargetResponders) > 0 {
		return false
	}
	said := applied.Status.Responders[0]
	before := evictionrequest.Entry(old, said.Name)
	if before == nil {
		return false
	}
	was := *before
	was.StartTime, was.HeartbeatTime, said.HeartbeatTime = nil, nil, nil
	if said.ExpectedCompletionTime == nil {
		was.ExpectedCompletionTime = nil
	}
	return equality.Semantic.DeepEqual(was, said)
}
