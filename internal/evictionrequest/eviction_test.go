package evictionrequest_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"

	"usher.sh/usher/internal/evictionrequest"
)

const (
	inactive = api.ResponderStateInactive
	active   = api.ResponderStateActive
	done     = api.ResponderStateCompleted
)

func TestPlanEviction(t *testing.T) {
	const min = time.Minute
	wanted := requests(asked("alice"))
	cases := []struct {
		name     string
		now      time.Duration
		pod      *corev1.Pod
		requests []*api.EvictionRequest
		ended    time.Duration // since when the pod has ended
		others   []*api.Eviction
		eviction *api.Eviction
		want     string
		states   string
		again    time.Duration
		quiet    bool
	}{
		{name: "first look", pod: newPod(), requests: wanted, eviction: eviction(1), want: waits, states: "evictor:Active", again: 20 * min},
		{name: "first look, governed", pod: newPod(governed), requests: wanted, eviction: eviction(1), want: waits, states: "governor:Active evictor:Inactive", again: 20 * min},
		{name: "nothing new", now: min, pod: newPod(), requests: wanted, eviction: eviction(1, states(active, inactive)), want: waits, states: "a:Active b:Inactive", again: 19 * min},
		{name: "a heartbeat counts", now: 21 * min, pod: newPod(), requests: wanted, eviction: eviction(1, states(active, inactive), says(0, beat(10*min))), want: waits, states: "a:Active b:Inactive", again: 9 * min},
		{name: "a second before the deadline", now: 20*min - time.Second, pod: newPod(), requests: wanted, eviction: eviction(1, states(active, inactive)), want: waits, states: "a:Active b:Inactive", again: time.Second},
		{name: "silent for too long", now: 20 * min, pod: newPod(), requests: wanted, eviction: eviction(1, states(active, inactive)), want: waits, states: "a:Interrupted b:Active", again: 20 * min},
		{name: "completed", now: min, pod: newPod(), requests: wanted, eviction: eviction(1, states(active, inactive), says(0, completed(min))), want: waits, states: "a:Completed b:Active", again: 20 * min},
		{name: "the last completed", now: min, pod: newPod(), requests: wanted, eviction: eviction(1, states(done, active), says(0, completed(0)), says(1, completed(min))), want: unserved, states: "a:Completed b:Completed"},
		{name: "the last was silent", now: 20 * min, pod: newPod(), requests: wanted, eviction: eviction(1, states(active)), want: unserved, states: "a:Interrupted"},
		{name: "withdrawn", now: min, pod: newPod(), requests: requests(asked("alice", withdrawn)), eviction: eviction(1, states(active, inactive)), want: isCancel, states: "a:Canceled b:Inactive"},
		{name: "request gone", now: min, pod: newPod(), eviction: eviction(1, states(active, inactive)), want: isCancel, states: "a:Canceled b:Inactive"},
		{name: "request being deleted", now: min, pod: newPod(), requests: requests(asked("alice", deleting)), eviction: eviction(1, states(active, inactive)), want: isCancel, states: "a:Canceled b:Inactive"},
		{name: "request is for another pod of the name", now: min, pod: newPod(), requests: requests(asked("alice", ofPod("u2"))), eviction: eviction(1, states(active, inactive)), want: isCancel, states: "a:Canceled b:Inactive"},
		{name: "one of two withdrew", now: min, pod: newPod(), requests: requests(asked("alice", withdrawn), asked("bob")), eviction: eviction(1, states(active)), want: waits, states: "a:Active", again: 19 * min},
		{name: "withdrawn before the first look", pod: newPod(), eviction: eviction(1), want: isCancel},
		{name: "pod gone, a last word still possible", now: min, ended: min - 2*time.Second, requests: wanted, eviction: eviction(1, states(active, inactive)), want: waits, states: "a:Active b:Inactive", again: 3 * time.Second},
		{name: "pod gone just now", now: min, requests: wanted, eviction: eviction(1, states(active)), want: waits, states: "a:Active", again: 5 * time.Second},
		{name: "pod gone for long", now: min, ended: min - 5*time.Second, requests: wanted, eviction: eviction(1, states(active, inactive)), want: isDeleted, states: "a:Interrupted b:Inactive"},
		{name: "pod gone, the last word said", now: min, ended: min, requests: wanted, eviction: eviction(1, states(active, inactive), says(0, completed(min))), want: isDeleted, states: "a:Completed b:Inactive"},
		{name: "pod gone before the first look", requests: wanted, eviction: eviction(1), want: isDeleted},
		{name: "pod gone and withdrawn", now: min, ended: min, eviction: eviction(1, states(active), says(0, completed(min))), want: isDeleted, states: "a:Completed"},
		{name: "pod terminal", now: min, pod: newPod(phase(corev1.PodSucceeded)), ended: min - 5*time.Second, requests: wanted, eviction: eviction(1, states(active)), want: isEnded, states: "a:Interrupted"},
		{name: "pod terminal, failed", now: min, pod: newPod(phase(corev1.PodFailed)), ended: min, requests: wanted, eviction: eviction(1, states(active), says(0, completed(min))), want: isEnded, states: "a:Completed"},
		{name: "pod shutting down is not gone", now: min, pod: newPod(func(p *corev1.Pod) { p.DeletionTimestamp = at(0) }), requests: wanted, eviction: eviction(1, states(active)), want: waits, states: "a:Active", again: 19 * min},
		{name: "a second one", now: min, pod: newPod(), requests: wanted, others: []*api.Eviction{eviction(1, states(active))}, eviction: eviction(2, states(active, inactive)), want: isInvalid, states: "a:Canceled b:Inactive"},
		{name: "one after success", now: min, requests: wanted, others: []*api.Eviction{eviction(1, succeeded)}, eviction: eviction(2), want: isInvalid},
		{name: "the next after a failure", pod: newPod(), requests: wanted, others: []*api.Eviction{eviction(1, failed("NoFurtherResponder"))}, eviction: eviction(2), want: waits, states: "evictor:Active", again: 20 * min},
		{name: "PodGroup", pod: newPod(grouped), requests: wanted, eviction: eviction(1), want: isInvalid},
		{name: "names no pod", eviction: eviction(1, func(e *api.Eviction) { e.Spec.Target.Pod = nil }), want: isInvalid},
		{name: "failed stays", pod: newPod(), requests: wanted, eviction: eviction(1, failed("NoFurtherResponder"), states(done)), want: "!Failed/NoFurtherResponder", states: "a:Completed", quiet: true},
		{name: "evicted stays", pod: newPod(), requests: wanted, eviction: eviction(1, succeeded), want: "!TargetEvicted/PodDeleted", quiet: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			to := target(c.now, c.pod, c.requests, append(c.others, c.eviction)...)
			if c.ended != 0 {
				to.EndedSince = start.Add(c.ended)
			}
			before := c.eviction.DeepCopy()
			plan := evictionrequest.PlanEviction(to, c.eviction)
			same(t, "the input", before, c.eviction)
			same(t, "conditions", c.want, short(plan.Status.Conditions))
			same(t, "states", c.states, shortStates(plan.Status.TargetResponders))
			same(t, "again", c.again, plan.Again)
			same(t, "changed", !c.quiet, plan.Changed)
			if c.quiet {
				return
			}
			same(t, "the server's objections", nil, refusals(&before.Status, &plan.Status, to.Now))
			c.eviction.Status = plan.Status
			if evictionrequest.PlanEviction(to, c.eviction).Changed {
				t.Error("the same facts change the status twice")
			}
		})
	}
}

// While the active responder may have its last word, nothing else is written: the end is one write.
func TestRequestersStayUntilTheLastWord(t *testing.T) {
	e := eviction(1, states(active))
	e.Status = evictionrequest.PlanEviction(target(0, newPod(), requests(asked("alice")), e), e).Status
	if plan := evictionrequest.PlanEviction(target(time.Minute, nil, nil, e), e); plan.Changed || plan.Again != 5*time.Second {
		t.Errorf("requesters %+v, looked at again after %s", plan.Status.Requesters, plan.Again)
	}
	completed(time.Minute)(&e.Status.Responders[0])
	plan := evictionrequest.PlanEviction(target(time.Minute, nil, nil, e), e)
	same(t, "conditions", isDeleted, short(plan.Status.Conditions))
	same(t, "requesters", "alice=Withdrawn", shortRequesters(plan.Status.Requesters))
}

// Kubernetes' own API refuses times that are not the present; the custom resource takes any.
func TestASignOfLifeFromTheFuture(t *testing.T) {
	const far = 70 * 365 * 24 * time.Hour
	began := func(after time.Duration) func(*api.ResponderStatus) {
		return func(r *api.ResponderStatus) { r.StartTime, r.HeartbeatTime = at(after), at(after) }
	}
	for name, c := range map[string]struct {
		now    time.Duration
		says   func(*api.ResponderStatus)
		states string
		again  time.Duration
	}{
		"a clock that runs ahead":               {10 * time.Minute, beat(11 * time.Minute), "a:Active b:Inactive", 21 * time.Minute},
		"not believed, its start is":            {10 * time.Minute, beat(far), "a:Active b:Inactive", 10 * time.Minute},
		"not believed, and it began long ago":   {20 * time.Minute, beat(far), "a:Interrupted b:Active", 20 * time.Minute},
		"not believed, and nor is its start":    {10 * time.Minute, began(far), "a:Interrupted b:Active", 20 * time.Minute},
		"the furthest that is believed":         {10 * time.Minute, beat(30 * time.Minute), "a:Active b:Inactive", 40 * time.Minute},
		"further ahead than a deadline":         {20 * time.Minute, beat(40*time.Minute + time.Second), "a:Interrupted b:Active", 20 * time.Minute},
		"completed, whatever its heartbeat was": {10 * time.Minute, func(r *api.ResponderStatus) { beat(far)(r); completed(time.Minute)(r) }, "a:Completed b:Active", 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			e := eviction(1, states(active, inactive), says(0, c.says))
			plan := evictionrequest.PlanEviction(target(c.now, newPod(), requests(asked("alice")), e), e)
			same(t, "states", c.states, shortStates(plan.Status.TargetResponders))
			same(t, "again", c.again, plan.Again)
		})
	}
}

func TestInvalidSaysWhy(t *testing.T) {
	second := eviction(2)
	plan := evictionrequest.PlanEviction(target(0, newPod(), requests(asked("alice")), eviction(1), second), second)
	same(t, "message", "eviction pod-1-db-0 of the same pod came first", plan.Status.Conditions[0].Message)
}

func TestOldestOfTheSameSecond(t *testing.T) {
	second, tenth := eviction(2), eviction(10)
	tenth.CreationTimestamp = second.CreationTimestamp
	to := target(0, newPod(), requests(asked("alice")), tenth, second)
	if plan := evictionrequest.PlanEviction(to, second); short(plan.Status.Conditions) != waits {
		t.Errorf("number 2: %s", short(plan.Status.Conditions))
	}
	if plan := evictionrequest.PlanEviction(to, tenth); short(plan.Status.Conditions) != isInvalid {
		t.Errorf("number 10: %s", short(plan.Status.Conditions))
	}
}

func TestConditionsOfOthersStay(t *testing.T) {
	e := eviction(1, func(e *api.Eviction) { e.Status.Conditions = append(e.Status.Conditions, condition("Noticed", "Seen")) })
	plan := evictionrequest.PlanEviction(target(0, newPod(), requests(asked("alice")), e), e)
	same(t, "conditions", "!Noticed/Seen "+waits, short(plan.Status.Conditions))
}

func TestResponders(t *testing.T) {
	many := make([]string, 10)
	for i := range many {
		many[i] = string(rune('a'+i)) + ".example.com/x=" + strings.Repeat("1", 4)
	}
	cases := []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"none named", newPod(), "imperative-eviction.k8s.io/evictor=100"},
		{"governed", newPod(governed), "responder.usher.sh/governor=10000 imperative-eviction.k8s.io/evictor=100"},
		{"by priority", newPod(responders("a.io/x=1000", "b.io/x=3000", "c.io/x=2000")), "b.io/x=3000 c.io/x=2000 a.io/x=1000 imperative-eviction.k8s.io/evictor=100"},
		{"top-level domain decides first", newPod(responders("a.z.org/x=1000", "z.com/x=1000", "b.z.com/x=1000")), "z.com/x=1000 b.z.com/x=1000 a.z.org/x=1000 imperative-eviction.k8s.io/evictor=100"},
		{"key decides last", newPod(responders("a.com/y=1000", "a.com/x=1000")), "a.com/x=1000 a.com/y=1000 imperative-eviction.k8s.io/evictor=100"},
		{"named by the pod: its priority wins", newPod(governed, responders("responder.usher.sh/governor=2000", "b.io/x=3000")), "b.io/x=3000 responder.usher.sh/governor=2000 imperative-eviction.k8s.io/evictor=100"},
		{"named, but not governed", newPod(responders("responder.usher.sh/governor=10000")), "responder.usher.sh/governor=10000 imperative-eviction.k8s.io/evictor=100"},
		{"twice, and the default one", newPod(responders("a.com/x=1000", "a.com/x=2000", "imperative-eviction.k8s.io/evictor=7")), "a.com/x=1000 imperative-eviction.k8s.io/evictor=100"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := eviction(1)
			plan := evictionrequest.PlanEviction(target(0, c.pod, requests(asked("alice")), e), e)
			same(t, "responders", c.want, withPriorities(plan.Status.TargetResponders))
		})
	}
	e := eviction(1)
	refused := asked("alice", func(r *api.EvictionRequest) {
		r.Annotations = map[string]string{evictionrequest.LastRequestTimeAnnotation: "just now"}
	})
	same(t, "for a caller that was refused", "responder.usher.sh/governor=10000 imperative-eviction.k8s.io/evictor=100",
		withPriorities(evictionrequest.PlanEviction(target(0, newPod(), requests(refused), e), e).Status.TargetResponders))
	plan := evictionrequest.PlanEviction(target(0, newPod(governed, responders(many...)), requests(asked("alice")), e), e)
	got := withPriorities(plan.Status.TargetResponders)
	if len(plan.Status.TargetResponders) != 11 || !strings.HasPrefix(got, "responder.usher.sh/governor=10000 a.example.com/x=1111") ||
		!strings.HasSuffix(got, "i.example.com/x=1111 imperative-eviction.k8s.io/evictor=100") {
		t.Errorf("ten named by a governed pod: %s", got)
	}
}

func withPriorities(all []api.TargetResponder) string {
	said := make([]string, len(all))
	for i, r := range all {
		said[i] = r.Name + "=" + strconv.Itoa(int(*r.Priority))
	}
	return strings.Join(said, " ")
}
