package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/snapshot"
)

// mostWhile bounds what may happen until everything has been seen.
const mostWhile = 1000

// checkWoken looks whether a leading replica that has seen everything has something to write: then an event has not woken the controller
// for it, or the controller has given too late a time to look again.
func (w *world) checkWoken() {
	r := w.onlyLeader()
	if r == nil || w.tight || w.odds.jumps > 0 || r.cache.hangs() {
		return
	}
	w.note("---- for a moment nothing goes wrong ----")
	was := w.calm
	w.calm = true
	defer func() { w.calm = was; w.note("---- that was the moment ----") }()
	if w.finish(r) {
		w.reconcileUnwoken(r)
	}
}

// reconcileUnwoken reconciles every key that controllers may have by what the replica sees. Policies come first, by the evidence that is
// kept. Then their systems are observed anew, since no event shows what changes there, and policies whose systems say something else
// come again.
func (w *world) reconcileUnwoken(r *replica) {
	byKept := func(controller string, _ reconcile.Request) bool { return controller == policyController }
	if !w.reconcileAll(r, byKept) {
		return
	}
	var news map[types.NamespacedName]bool
	if !w.await(func() { news = r.observe() }) || !w.finish(r) {
		return
	}
	w.reconcileAll(r, func(controller string, key reconcile.Request) bool {
		return controller != policyController || news[key.NamespacedName]
	})
}

// policyController is the name of the controller that goes by evidence that is kept.
const policyController = "policy"

// reconcileAll reconciles the keys that are to be, and reports whether the replica lives and has ended all of it.
func (w *world) reconcileAll(r *replica, which func(controller string, key reconcile.Request) bool) bool {
	for i := range r.controllers {
		c := &r.controllers[i]
		for _, key := range r.keysOf(c) {
			if w.failed() || !which(c.Name, key) || r.looksSoon(work{c.Name, key.NamespacedName}) {
				continue
			}
			ctx := context.WithValue(r.ctx, taskKey, fmt.Sprintf("(unwoken) %s/%s: ", c.Name, key.Name))
			ctx = context.WithValue(ctx, unwokenKey, &unwokenLook{})
			item := work{c.Name, key.NamespacedName}
			if c.Name == repairController { // what it sees counts
				ctx = context.WithValue(ctx, workKey, item)
				r.beginsRepair(item)
			}
			look := func() {
				_, err := c.Reconcile(ctx, key)
				r.endsRepair(item, err)
			}
			if !w.await(look) || r.dead {
				return false
			}
		}
	}
	return true
}

// looksSoon reports whether a controller pauses before it looks at a key again: after a failure, or because a write must take effect. A
// policy's status shows what has become of labels, and they are written again after a failure.
func (r *replica) looksSoon(item work) bool {
	at, queued := r.queue[item]
	labels := work{"labels", client.ObjectKey{Name: item.key.Namespace}}
	r.world.mu.Lock()
	failed := time.Since(r.failed[item]) <= writePause
	relabels := item.controller == policyController && time.Since(r.failed[labels]) <= writePause
	r.world.mu.Unlock()
	return queued && (time.Until(at) <= pause || failed || r.expires(item, at) || r.outlasts(item, at) || polls(item, at) || r.renews(item, at) || r.asksFDB(item, at) || r.retries(item, at) || r.locksSaid(item, at) || r.bringsBack(item, at)) || relabels || time.Since(r.refused[item.key.Name]) <= evictPause
}

// deny takes note of the deletion of a pod that was refused to a controller.
func (r *replica) deny(ctx context.Context, err error) {
	item, works := ctx.Value(workKey).(work)
	if refusal, refused := errors.AsType[*apierrors.StatusError](err); works && refused && !apierrors.IsConflict(refusal) && !apierrors.IsNotFound(refusal) {
		r.world.mu.Lock()
		defer r.world.mu.Unlock()
		r.denied[item] = time.Now()
	}
}

// retries reports whether a controller looks at a key again since the deletion of a pod was refused to it: another replica may let it at once, which is no event.
func (r *replica) retries(item work, at time.Time) bool {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	return time.Since(r.denied[item]) <= deniedPause && time.Until(at) <= deniedPause
}

// expires reports whether a key is the request of a drain, at which the manager looks again when the drain's last sign of life is over. That a
// drain ends before is no event: no watch shows Leases.
func (r *replica) expires(item work, at time.Time) bool {
	request, ok := r.cache.objects[requests][item.key].(*api.EvictionRequest)
	if !ok || item.controller != "expiry" {
		return false
	}
	_, drains := observe.RequestFacts(request).Drainer()
	return drains && time.Until(at) <= snapshot.LiveFor
}

// polls reports whether a key is a replacement, at which the manager looks again since no watch shows claims, volumes, StatefulSets and Leases.
func polls(item work, at time.Time) bool {
	return item.controller == "replacement" && time.Until(at) <= blockedPause || item.controller == setController && time.Until(at) <= setPause
}

// renews reports whether a key is a policy whose members are repaired, at which the manager looks again after the least pause, or within a
// minute where what its system had said was too old to count at the last look: that it says the same again is no event. Nor is it that a set has a member which has
// no pod yet.
func (r *replica) renews(item work, at time.Time) bool {
	return item.controller == repairController && (time.Until(at) <= repairPause || (r.outdated || r.world.setSite() != nil) && time.Until(at) <= time.Minute)
}

// outlasts reports whether a key is a pod at which the responder looks again since it is blocked, and that it has waited for a step of a pod that
// is gone, which has ceased to count since it was looked at last. That is no event: the step stays in the status until its member is back.
func (r *replica) outlasts(item work, at time.Time) bool {
	if item.controller != "responder" || time.Until(at) > blockedPause {
		return false
	}
	there := map[types.UID]bool{}
	for _, pod := range cached[*corev1.Pod](r, pods) {
		there[pod.UID] = true
	}
	for _, policy := range cached[*v1alpha1.EvictionPolicy](r, policies) {
		for i := range policy.Status.Preparations {
			step := &policy.Status.Preparations[i]
			ends := step.LastRequestTime.Add(goneStepCounts)
			if !there[step.PodUID] && r.looked[item].Before(ends) && !time.Now().Before(ends) {
				return true
			}
		}
	}
	return false
}

const (
	// pause is the longest between two writes that follow each other.
	pause = time.Second
	// writePause is the longest after a write that failed, from when on it is tried again.
	writePause = 10 * time.Second
	// evictPause is the longest after an eviction that was refused, from when on it is tried again.
	evictPause = time.Minute
	// deniedPause is the longest after the deletion of a pod that was refused, from when on it is tried again.
	deniedPause = 10 * time.Second
	// repairPause is the least between two looks at the members of a policy.
	repairPause = 2 * time.Second
	// setPause is the longest between two looks at a set that members join or leave.
	setPause = 2 * time.Second
	// blockedPause is the longest between two looks at a pod that is blocked.
	blockedPause = 10 * time.Second
	// goneStepCounts is for how long a step counts whose pod is gone, from when it was asked for last.
	goneStepCounts = 2 * time.Minute
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

// observe observes the systems of all policies that the replica knows, and returns the policies whose systems say something else.
func (r *replica) observe() map[types.NamespacedName]bool {
	news := map[types.NamespacedName]bool{}
	for _, policy := range cached[*v1alpha1.EvictionPolicy](r, policies) {
		source := r.gatherer.Policies.Source(policy)
		before := r.gatherer.Observer.Known(source)
		after := r.gatherer.Observer.Evidence(r.ctx, source, source.Epoch, 0)
		news[client.ObjectKeyFromObject(policy)] = !saysTheSame(before, after)
	}
	return news
}

// saysTheSame reports whether two observations differ in their times only.
func saysTheSame(before, after *eviction.Evidence) bool {
	if before == nil || after == nil {
		return before == after
	}
	then := *before
	then.Observed = after.Observed
	return reflect.DeepEqual(&then, after)
}

// judgedBy notes the evidence by which a policy is reconciled, and the policy by which nodes are locked.
func (r *replica) judgedBy(item work) {
	policy, ok := r.cache.objects[policies][item.key].(*v1alpha1.EvictionPolicy)
	if item.controller == "nodelock" {
		r.locksBy[item.key] = policy
	}
	if ok && item.controller == policyController {
		r.evidence[item.key] = r.gatherer.Observer.Known(r.gatherer.Policies.Source(policy))
	}
}

// ages reports whether a policy's status changes only because the evidence is newer than what it was reconciled by.
func (r *replica) ages(key client.ObjectKey, p part, body []byte) bool {
	policy, ok := r.world.store.get(policies, key).(*v1alpha1.EvictionPolicy)
	if !ok || p != status {
		return false
	}
	return renewed(policy, body, r.evidence[key], r.gatherer.Observer.Known(r.gatherer.Policies.Source(policy)))
}

// renewed reports whether a patch of a policy's status counts anew who may leave, by evidence that says later what was said before: who may
// leave depends on its time, which is no event. A look after 30 s at the latest writes it.
func renewed(policy *v1alpha1.EvictionPolicy, patch []byte, before, after *eviction.Evidence) bool {
	if before == nil || after == nil || !after.Observed.After(before.Observed) || !saysTheSame(before, after) {
		return false
	}
	return sameStatus(policy, patch, func(s *v1alpha1.EvictionPolicyStatus) {
		s.Blocked = nil
		for i := range s.Roles {
			s.Roles[i].EvictableCount = 0
		}
	})
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

// unwokenLook is what a controller is made to do that nothing has woken.
type unwokenLook struct {
	made bool // an object that is not watched
}

// unwokenLookOf is the look that a call belongs to; nil: something has woken the controller.
func unwokenLookOf(ctx context.Context) *unwokenLook {
	look, _ := ctx.Value(unwokenKey).(*unwokenLook)
	return look
}

// woken has a call count as one of a controller that something has woken.
func woken(ctx context.Context) context.Context {
	return context.WithValue(ctx, unwokenKey, (*unwokenLook)(nil))
}

// unwoken fails a history in which a controller writes for which nothing has woken it.
func (r *replica) unwoken(ctx context.Context, what string) {
	if unwokenLookOf(ctx) != nil {
		r.world.fail("WAKE", "%s%s: nothing has woken the controller for that", taskOf(ctx), what)
	}
}

// unchanged reports whether a patch of a policy's status says only anew what is seen: with other words and times, which are written when
// there is something else to write or after some time.
func unchanged(object client.Object, p part, body []byte) bool {
	policy, ok := object.(*v1alpha1.EvictionPolicy)
	return ok && p == status && sameStatus(policy, body, func(*v1alpha1.EvictionPolicyStatus) {})
}

// sameStatus reports whether a patch that goes by no version leaves what a policy's status says of what is seen, but for what is left out.
func sameStatus(policy *v1alpha1.EvictionPolicy, body []byte, leaveOut func(*v1alpha1.EvictionPolicyStatus)) bool {
	var patch struct {
		Metadata struct{ ResourceVersion string }
		Status   v1alpha1.EvictionPolicyStatus
	}
	if json.Unmarshal(body, &patch) != nil || patch.Metadata.ResourceVersion != "" {
		return false
	}
	before, after := seen(&policy.Status), seen(&patch.Status)
	leaveOut(&before)
	leaveOut(&after)
	return cmp.Diff(before, after) == ""
}

// taintedInTime reports whether a patch of a policy's status says only that members have been on tainted nodes for long enough for which that leads to
// nothing: it does not count, or a request stands. The manager looks for that within a minute.
func taintedInTime(object client.Object, p part, body []byte) bool {
	policy, ok := object.(*v1alpha1.EvictionPolicy)
	var patch struct {
		Status struct{ Unhealthy []v1alpha1.UnhealthyMember }
	}
	if !ok || p != status || policy.Spec.Repair == nil || json.Unmarshal(body, &patch) != nil || len(patch.Status.Unhealthy) == 0 {
		return false
	}
	without := func(all []v1alpha1.UnhealthyMember) map[string]v1alpha1.UnhealthyMember {
		members := map[string]v1alpha1.UnhealthyMember{}
		for _, u := range all {
			if u.Request != "" || !counts(policy.Spec.Repair, replacement.NodeTainted) {
				u.Conditions = slices.DeleteFunc(slices.Clone(u.Conditions), func(c v1alpha1.MemberCondition) bool {
					return c.Type == v1alpha1.MemberConditionType(replacement.NodeTainted)
				})
			}
			members[u.ID] = u
		}
		return members
	}
	return equality.Semantic.DeepEqual(without(policy.Status.Unhealthy), without(patch.Status.Unhealthy))
}

// seen is the part of a status that says what is seen, but for words and times.
func seen(of *v1alpha1.EvictionPolicyStatus) v1alpha1.EvictionPolicyStatus {
	s := v1alpha1.EvictionPolicyStatus{ObservedGeneration: of.ObservedGeneration, MemberCount: of.MemberCount, Roles: slices.Clone(of.Roles)}
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
