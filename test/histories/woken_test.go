package histories

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// TestRenewed checks what of a policy's status may be written without an event: who may leave, by evidence of another time, and nothing else.
func TestRenewed(t *testing.T) {
	policy := &v1alpha1.EvictionPolicy{Status: v1alpha1.EvictionPolicyStatus{
		MemberCount: 2, Roles: []v1alpha1.RoleStatus{{Role: "etcd-member", MemberCount: 2}}, Blocked: []v1alpha1.BlockedMember{{}},
	}}
	const (
		counted = `{"status": {"memberCount": 2, "roles": [{"role": "etcd-member", "memberCount": 2, "evictableCount": 1}]}}`
		more    = `{"status": {"memberCount": 3, "roles": [{"role": "etcd-member", "memberCount": 2, "evictableCount": 1}]}}`
		byRV    = `{"metadata": {"resourceVersion": "1"}, "status": {"memberCount": 2, "roles": [{"role": "etcd-member", "memberCount": 2}]}}`
	)
	then := &eviction.Evidence{Summary: "2 of 2", Observed: time.Unix(100, 0)}
	later := &eviction.Evidence{Summary: "2 of 2", Observed: time.Unix(101, 0)}
	other := &eviction.Evidence{Summary: "1 of 2", Observed: time.Unix(101, 0)}
	cases := []struct {
		name          string
		patch         string
		before, after *eviction.Evidence
		want          bool
	}{
		{"newer evidence", counted, then, later, true},
		{"the same evidence", counted, then, then, false},
		{"the system says something else", counted, then, other, false},
		{"it was reconciled without evidence", counted, nil, later, false},
		{"a member more", more, then, later, false},
		{"what lets evictions through", byRV, then, later, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := renewed(policy, []byte(c.patch), c.before, c.after); got != c.want {
				t.Errorf("renewed: %v, want %v", got, c.want)
			}
		})
	}
}

// TestOutlasts checks when the responder need not have been woken for a pod: it has waited for a step of a pod that is gone, and only for that.
func TestOutlasts(t *testing.T) {
	const ago, soon, late = 5 * time.Second, 5 * time.Second, 15 * time.Second
	responder := work{"responder", snapshot.Key{Namespace: namespace, Name: "b"}}
	cases := []struct {
		name  string
		item  work
		again time.Duration
		asked time.Duration // how long ago for the step
		of    types.UID
		want  bool
	}{
		{"it has ceased to count", responder, soon, goneStepCounts, "gone", true},
		{"it counts", responder, soon, goneStepCounts - time.Second, "gone", false},
		{"it had ceased before the last look", responder, soon, goneStepCounts + ago + time.Second, "gone", false},
		{"its pod is there", responder, soon, goneStepCounts, "u1", false},
		{"the next look is late", responder, late, goneStepCounts, "gone", false},
		{"of another controller", work{"policy", responder.key}, soon, goneStepCounts, "gone", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(time.Now)
			step := v1alpha1.PreparationStatus{LastRequestTime: metav1.NewTime(time.Now().Add(-c.asked))}
			step.PodUID = c.of
			for _, object := range []client.Object{
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}},
				&v1alpha1.EvictionPolicy{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: firstPolicy},
					Status:     v1alpha1.EvictionPolicyStatus{Preparations: []v1alpha1.PreparationStatus{step}},
				},
			} {
				if err := s.create(object); err != nil {
					t.Fatal(err)
				}
			}
			r := &replica{cache: newCache(s), looked: map[work]time.Time{c.item: time.Now().Add(-ago)}}
			if got := r.outlasts(c.item, time.Now().Add(c.again)); got != c.want {
				t.Errorf("outlasts: %v, want %v", got, c.want)
			}
		})
	}
}

// TestRetries checks when the controller of a set need not have been woken: the deletion of a pod was refused to it a moment ago, and it tries again soon.
func TestRetries(t *testing.T) {
	set, other := work{setController, setKey}, work{policyController, setKey}
	busy := apierrors.NewTooManyRequests("another replica says so", 0)
	for _, c := range []struct {
		name   string
		by     work
		err    error
		ago    time.Duration
		again  time.Duration
		wanted bool
	}{
		{"it was refused", set, busy, time.Second, 9 * time.Second, true},
		{"long ago", set, busy, deniedPause + time.Second, 9 * time.Second, false},
		{"it tries again late", set, busy, time.Second, deniedPause + time.Second, false},
		{"another controller was refused something", other, busy, time.Second, 9 * time.Second, false},
		{"the pod was another by then", set, apierrors.NewConflict(schema.GroupResource{}, "a", errModified), time.Second, 9 * time.Second, false},
		{"it was gone", set, notFound(pods, "a"), time.Second, 9 * time.Second, false},
		{"it was let", set, nil, time.Second, 9 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &replica{world: newWorld(t.Context(), 1), denied: map[work]time.Time{}}
			r.deny(context.WithValue(t.Context(), workKey, c.by), c.err)
			for item, at := range r.denied {
				r.denied[item] = at.Add(-c.ago)
			}
			if got := r.retries(set, time.Now().Add(c.again)); got != c.wanted {
				t.Errorf("retries: %t, want %t", got, c.wanted)
			}
		})
	}
}

// TestTaintedInTime checks what of a policy's status repair may write without an event: that a member is tainted by now, where that leads to nothing.
func TestTaintedInTime(t *testing.T) {
	policy := func(conditions string, request string) *v1alpha1.EvictionPolicy {
		p := &v1alpha1.EvictionPolicy{Spec: v1alpha1.EvictionPolicySpec{Repair: &v1alpha1.Repair{}}}
		if conditions != "" {
			p.Spec.Repair.UnhealthyConditions = []v1alpha1.MemberConditionType{v1alpha1.MemberConditionType(conditions)}
		}
		p.Status.Unhealthy = []v1alpha1.UnhealthyMember{{Role: "m", ID: "a", Request: request}}
		return p
	}
	const (
		tainted = `{"status": {"unhealthy": [{"role": "m", "id": "a", "conditions": [{"type": "NodeTainted", "startTime": "2026-01-01T00:00:26Z"}]}]}}`
		same    = `{"status": {"unhealthy": [{"role": "m", "id": "a", "request": "q", "conditions": [{"type": "NodeTainted", "startTime": "2026-01-01T00:00:26Z"}]}]}}`
		failing = `{"status": {"unhealthy": [{"role": "m", "id": "a", "request": "q", "conditions": [{"type": "PodFailing", "startTime": "2026-01-01T00:00:26Z"}]}]}}`
		another = `{"status": {"unhealthy": [{"role": "m", "id": "a", "request": "q"}, {"role": "m", "id": "b"}]}}`
	)
	for _, c := range []struct {
		name   string
		policy *v1alpha1.EvictionPolicy
		patch  string
		want   bool
	}{
		{"it counts", policy("", ""), tainted, false},
		{"it does not count", policy("PodFailing", ""), tainted, true},
		{"a request stands", policy("", "q"), same, true},
		{"something else is wrong", policy("", "q"), failing, false},
		{"another member is unhealthy", policy("", "q"), another, false},
	} {
		if got := taintedInTime(c.policy, status, []byte(c.patch)); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestReworded checks when a set may say something else of what it waits for though nothing has woken its controller.
func TestReworded(t *testing.T) {
	set := &v1alpha1.MemberSet{Status: v1alpha1.MemberSetStatus{Blockers: []v1alpha1.ReplacementBlocker{{Reason: "PodNotReady", Message: "a"}, {Reason: "PodNotReady", Message: "b"}}}}
	for _, c := range []struct {
		name, body string
		made       bool
		want       bool
	}{
		{"other words", `{"status":{"blockers":[{"reason":"PodNotReady","message":"c"},{"reason":"PodNotReady"}]}}`, false, true},
		{"another reason", `{"status":{"blockers":[{"reason":"PodNotReady"},{"reason":"PodUnscheduled"}]}}`, false, false},
		{"fewer", `{"status":{"blockers":[{"reason":"PodNotReady"}]}}`, false, false},
		{"fewer, and a Service was made anew", `{"status":{"blockers":[{"reason":"PodNotReady"}]}}`, true, true},
		{"and a member, and a Service was made anew", `{"status":{"blockers":[],"memberCount":3}}`, true, false},
		{"something else, and a Service was made anew", `{"status":{"members":[]}}`, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reworded(set, status, []byte(c.body), &unwokenLook{made: c.made}); got != c.want {
				t.Errorf("it is excused: %t, want %t", got, c.want)
			}
		})
	}
}
