package evictionrequest_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/evictionrequest"
)

// history is a namespace with one pod name, its requests and evictions, and clocks that do not agree.
type history struct {
	now        time.Time     // the server's clock
	controller time.Duration // how far the controller's clock is ahead
	responder  time.Duration // and the responders'
	pods       int           // how many had the name
	pod        *corev1.Pod   // the present one
	ended      map[types.UID]time.Time
	requests   map[string]*api.EvictionRequest
	evictions  map[string]*api.Eviction
	made       int
	prompt     bool // the controller keeps up with everything
}

var genSkew = rapid.Map(rapid.IntRange(-20, 20), func(s int) time.Duration { return time.Duration(s) * time.Second })

func newHistory(t *rapid.T) *history {
	h := &history{
		now: start, controller: genSkew.Draw(t, "controller's clock"), responder: genSkew.Draw(t, "responders' clock"),
		ended: map[types.UID]time.Time{}, requests: map[string]*api.EvictionRequest{}, evictions: map[string]*api.Eviction{},
		prompt: rapid.Bool().Draw(t, "prompt"),
	}
	h.newPod(t)
	return h
}

func (h *history) newPod(t *rapid.T) {
	h.pods++
	h.pod = newPod(rapid.SampledFrom([]func(*corev1.Pod){
		func(*corev1.Pod) {}, governed, responders("x.io/a=5000", "y.io/b=5000", "z.io/c=1000"),
		func(p *corev1.Pod) { governed(p); responders("x.io/a=20000")(p) },
	}).Draw(t, "pod"))
	h.pod.UID = types.UID(fmt.Sprintf("u%d", h.pods))
}

// end makes the present pod one of the past.
func (h *history) end() {
	if _, ok := h.ended[h.pod.UID]; !ok {
		h.ended[h.pod.UID] = h.now.Add(h.controller)
	}
}

func (h *history) target(uid types.UID) evictionrequest.Target {
	to := target(0, nil, slices.Collect(maps.Values(h.requests)), slices.Collect(maps.Values(h.evictions))...)
	to.Now, to.Ref.UID, to.EndedSince = h.now.Add(h.controller), uid, h.ended[uid]
	if h.pod != nil && h.pod.UID == uid {
		to.Pod = h.pod
	}
	return to
}

// request lets the controller look at one request.
func (h *history) request(t *rapid.T, r *api.EvictionRequest) (changed bool) {
	uid := r.Spec.Target.Pod.UID
	plan := evictionrequest.PlanRequest(h.target(uid), r)
	if plan.Changed {
		r.Status = plan.Status
	}
	if plan.Create == nil {
		return plan.Changed
	}
	if h.evictions[plan.Create.Name] != nil {
		t.Fatalf("eviction %s is created twice", plan.Create.Name)
	}
	for _, e := range h.of(uid) {
		if !evictionrequest.Failed(e.Status.Conditions) {
			t.Fatalf("eviction %s is created beside %s", plan.Create.Name, e.Name)
		}
	}
	plan.Create.Generation, plan.Create.CreationTimestamp.Time = 1, h.now
	h.evictions[plan.Create.Name] = plan.Create
	return true
}

func (h *history) of(uid types.UID) []*api.Eviction {
	var found []*api.Eviction
	for _, name := range slices.Sorted(maps.Keys(h.evictions)) {
		if e := h.evictions[name]; e.Spec.Target.Pod.UID == uid {
			found = append(found, e)
		}
	}
	return found
}

// eviction lets the controller look at one eviction, and the server judge what it writes.
func (h *history) eviction(t *rapid.T, e *api.Eviction) (changed bool) {
	uid := e.Spec.Target.Pod.UID
	plan := evictionrequest.PlanEviction(h.target(uid), e)
	if !plan.Changed {
		return false
	}
	if said := refusals(&e.Status, &plan.Status, h.now); len(said) > 0 {
		t.Fatalf("the server refuses the status of %s: %v\nfrom %+v\n  to %+v", e.Name, said, e.Status, plan.Status)
	}
	if alive := h.pod != nil && h.pod.UID == uid && h.pod.Status.Phase == ""; alive && evictionrequest.Evicted(plan.Status.Conditions) {
		t.Fatalf("%s says that the pod is evicted, but it runs", e.Name)
	}
	e.Status = plan.Status
	return true
}

// settle turns the controller until it has nothing to write; it must come to rest.
func (h *history) settle(t *rapid.T) {
	for range 50 {
		changed := false
		for _, name := range slices.Sorted(maps.Keys(h.requests)) {
			changed = h.request(t, h.requests[name]) || changed
		}
		for _, name := range slices.Sorted(maps.Keys(h.evictions)) {
			changed = h.eviction(t, h.evictions[name]) || changed
		}
		if !changed {
			return
		}
	}
	t.Fatal("the controller writes for ever")
}

// speak lets the active responder of an eviction report, and the server judge it.
func (h *history) speak(t *rapid.T, e *api.Eviction, report evictionrequest.Report) {
	for _, r := range e.Status.TargetResponders {
		now := h.now.Add(h.responder)
		entry, write, _ := evictionrequest.NextEntry(e, r.Name, report, now)
		if !write {
			continue
		}
		said := *e.Status.DeepCopy()
		*entryOf(&said, r.Name) = entry
		if no := refusals(&e.Status, &said, h.now); len(no) > 0 {
			t.Fatalf("the server refuses the words of %s: %v\n%+v", r.Name, no, entry)
		}
		e.Status = said
	}
}

func pick[T any](t *rapid.T, from map[string]T, what string) (T, bool) {
	if len(from) == 0 {
		var none T
		return none, false
	}
	return from[rapid.SampledFrom(slices.Sorted(maps.Keys(from))).Draw(t, what)], true
}

func (h *history) actions() map[string]func(*rapid.T) {
	onRequest := func(do func(*api.EvictionRequest)) func(*rapid.T) {
		return func(t *rapid.T) {
			if r, ok := pick(t, h.requests, "request"); ok {
				do(r)
			}
		}
	}
	onEviction := func(do func(*rapid.T, *api.Eviction)) func(*rapid.T) {
		return func(t *rapid.T) {
			if e, ok := pick(t, h.evictions, "eviction"); ok {
				do(t, e)
			}
		}
	}
	setIntent := func(intent api.EvictionRequestIntent) func(*rapid.T) {
		return onRequest(func(r *api.EvictionRequest) {
			if r.Spec.Intent != intent {
				r.Spec.Intent = intent
				r.Generation++
			}
		})
	}
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if h.prompt {
				h.settle(t)
				h.check(t)
			}
		},
		"ask": h.ask,
		"look at a request": func(t *rapid.T) {
			if r, ok := pick(t, h.requests, "request"); ok {
				h.request(t, r)
			}
		},
		"look at an eviction": onEviction(func(t *rapid.T, e *api.Eviction) { h.eviction(t, e) }),
		"settle":              h.settle,
		"withdraw":            setIntent(api.EvictionRequestIntentWithdrawn),
		"ask anew":            setIntent(api.EvictionRequestIntentEviction),
		"begin to delete":     onRequest(func(r *api.EvictionRequest) { r.DeletionTimestamp = at(0) }),
		"delete":              onRequest(func(r *api.EvictionRequest) { delete(h.requests, r.Name) }),
		"report": onEviction(func(t *rapid.T, e *api.Eviction) {
			h.speak(t, e, evictionrequest.Report{
				Message:  rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "message"),
				Expected: h.now.Add(time.Duration(rapid.IntRange(-30, 60).Draw(t, "expected")) * time.Second),
			})
		}),
		"complete": onEviction(func(t *rapid.T, e *api.Eviction) { h.speak(t, e, evictionrequest.Report{Done: true}) }),
		"time": func(t *rapid.T) {
			h.now = h.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
		},
		"much time": func(t *rapid.T) {
			h.now = h.now.Add(time.Duration(rapid.SampledFrom([]int{2, 9, 11, 19, 20, 21}).Draw(t, "minutes")) * time.Minute)
		},
		"pod ends":  func(*rapid.T) { h.pod.Status.Phase = corev1.PodFailed; h.end() },
		"pod goes":  func(t *rapid.T) { h.end(); h.newPod(t) },
		"stranger":  h.stranger,
		"collector": func(t *rapid.T) { h.collect() },
	}
}

func (h *history) ask(t *rapid.T) {
	h.made++
	uid := types.UID(fmt.Sprintf("u%d", rapid.IntRange(max(1, h.pods-1), h.pods).Draw(t, "of pod")))
	r := asked(rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "user"), ofPod(uid), named(fmt.Sprintf("r%d", h.made)))
	r.UID, r.CreationTimestamp.Time = types.UID(r.Name), h.now
	h.requests[r.Name] = r
}

// stranger makes an eviction by hand, which no user should do.
func (h *history) stranger(*rapid.T) {
	e := eviction(100+h.made, of(h.pod.UID))
	h.made++
	e.CreationTimestamp.Time = h.now
	h.evictions[e.Name] = e
}

// collect is the garbage collector: an eviction goes with the last of its requests.
func (h *history) collect() {
	maps.DeleteFunc(h.evictions, func(_ string, e *api.Eviction) bool {
		owned := slices.ContainsFunc(e.OwnerReferences, func(o metav1.OwnerReference) bool { return h.requests[o.Name] != nil })
		return len(e.OwnerReferences) > 0 && !owned
	})
}

// check is what must hold whenever the controller has come to rest.
func (h *history) check(t *rapid.T) {
	perPod := map[types.UID]int{}
	for _, e := range h.evictions {
		if !evictionrequest.Final(e) {
			perPod[e.Spec.Target.Pod.UID]++
		}
	}
	for uid, n := range perPod {
		if n > 1 {
			t.Fatalf("%d evictions of pod %s go on", n, uid)
		}
		wanted := false
		for _, r := range h.requests {
			wanted = wanted || r.Spec.Target.Pod.UID == uid && r.DeletionTimestamp == nil && r.Spec.Intent == api.EvictionRequestIntentEviction
		}
		_, ended := h.ended[uid]
		if !wanted && !ended {
			t.Fatalf("pod %s is being evicted although no request wants it", uid)
		}
	}
}

func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		t.Repeat(h.actions())
		h.settle(t)
		h.check(t)
		// In the end every request has its result: the pods go, and the responders have had their time.
		h.end()
		h.pod = nil
		h.now = h.now.Add(time.Minute)
		h.settle(t)
		for _, r := range h.requests {
			if evictionrequest.Failed(r.Status.Conditions) || evictionrequest.Evicted(r.Status.Conditions) {
				continue
			}
			if r.Spec.Intent == api.EvictionRequestIntentEviction && r.DeletionTimestamp == nil {
				t.Fatalf("request %s waits for a pod that is gone: %+v", r.Name, r.Status)
			}
		}
		for _, e := range h.evictions {
			if !evictionrequest.Final(e) {
				t.Fatalf("eviction %s goes on without a pod: %+v", e.Name, e.Status)
			}
		}
	})
}
