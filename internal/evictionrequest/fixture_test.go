package evictionrequest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apilifecycle "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/evictionrequest"
)

var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func at(after time.Duration) *metav1.Time { return &metav1.Time{Time: start.Add(after)} }

var ref = evictionrequest.Ref{Namespace: "shop", Name: "db-0", UID: "u1"}

func newPod(mutate ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}
	for _, m := range mutate {
		m(pod)
	}
	return pod
}

func governed(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.PolicyLabel: "db"} }

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func grouped(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} }

func responders(spec ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, s := range spec {
			name, text, _ := strings.Cut(s, "=")
			var priority int32
			_, _ = fmt.Sscan(text, &priority)
			p.Spec.EvictionResponders = append(p.Spec.EvictionResponders, corev1.EvictionResponder{Name: name, Priority: &priority})
		}
	}
}

type editRequest = func(*api.EvictionRequest)

// asked returns a request by a user for the pod of these tests, named after the user.
func asked(user string, edits ...editRequest) *api.EvictionRequest {
	r := evictionrequest.NewRequest(ref, "example.com/"+user)
	r.Name, r.UID, r.Generation, r.CreationTimestamp = user, types.UID("uid-"+user), 1, *at(0)
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func withdrawn(r *api.EvictionRequest) { r.Spec.Intent = api.EvictionRequestIntentWithdrawn }
func deleting(r *api.EvictionRequest)  { r.DeletionTimestamp = at(0) }
func ofPod(uid types.UID) editRequest {
	return func(r *api.EvictionRequest) { r.Spec.Target.Pod.UID = uid }
}

func requestCondition(kind string, reason api.EvictionConditionReason) editRequest {
	return func(r *api.EvictionRequest) {
		r.Status.Conditions = append(r.Status.Conditions, condition(kind, reason))
	}
}

func condition(kind string, reason api.EvictionConditionReason) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: string(reason), LastTransitionTime: *at(0)}
}

type editEviction = func(*api.Eviction)

// eviction returns the n-th eviction of the pod, made n minutes after the start.
func eviction(n int, edits ...editEviction) *api.Eviction {
	e := &api.Eviction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: fmt.Sprintf("pod-%d-%s", n, ref.Name), UID: types.UID(fmt.Sprintf("e%d", n)), Generation: 1,
			CreationTimestamp: *at(time.Duration(n) * time.Minute),
		},
		Spec: api.EvictionSpec{Target: api.EvictionTarget{Pod: &api.EvictionPodReference{Name: ref.Name, UID: ref.UID}}},
	}
	for _, edit := range edits {
		edit(e)
	}
	return e
}

func failed(reason api.EvictionConditionReason) editEviction {
	return func(e *api.Eviction) { e.Status.Conditions = append(e.Status.Conditions, condition("Failed", reason)) }
}

func succeeded(e *api.Eviction) {
	e.Status.Conditions = append(e.Status.Conditions, condition("TargetEvicted", api.EvictionConditionReasonPodDeleted))
}

func of(uid types.UID) editEviction { return func(e *api.Eviction) { e.Spec.Target.Pod.UID = uid } }

// states gives an eviction responders a, b, c … with descending priorities and the given states. Those that are or were
// active started at the start.
func states(all ...api.ResponderStateType) editEviction {
	return func(e *api.Eviction) {
		e.Status.ObservedGeneration = new(int64(1))
		for i, state := range all {
			name, priority := fmt.Sprintf("example.com/%c", 'a'+i), int32(5000-i)
			e.Status.TargetResponders = append(e.Status.TargetResponders, api.TargetResponder{Name: name, Priority: &priority, State: state})
			entry := api.ResponderStatus{Name: name}
			if state != api.ResponderStateInactive {
				entry.StartTime = at(0)
			}
			e.Status.Responders = append(e.Status.Responders, entry)
		}
	}
}

// says edits the entry of the i-th responder.
func says(i int, edit func(*api.ResponderStatus)) editEviction {
	return func(e *api.Eviction) { edit(&e.Status.Responders[i]) }
}

func completed(after time.Duration) func(*api.ResponderStatus) {
	return func(r *api.ResponderStatus) { r.CompletionTime = at(after) }
}

func beat(after time.Duration) func(*api.ResponderStatus) {
	return func(r *api.ResponderStatus) { r.HeartbeatTime = at(after) }
}

func target(now time.Duration, pod *corev1.Pod, requests []*api.EvictionRequest, evictions ...*api.Eviction) evictionrequest.Target {
	return evictionrequest.Target{
		Now: start.Add(now), Ref: ref, Version: apilifecycle.Usher, Pod: pod, Governed: evictionrequest.Governed,
		Requests: requests, Evictions: evictions,
	}
}

func requests(all ...*api.EvictionRequest) []*api.EvictionRequest { return all }

// short writes conditions as Failed/reason TargetEvicted/reason, with a ! for True.
func short(conditions []metav1.Condition) string {
	var said []string
	for _, c := range conditions {
		mark := map[metav1.ConditionStatus]string{metav1.ConditionTrue: "!"}[c.Status]
		said = append(said, mark+c.Type+"/"+c.Reason)
	}
	return strings.Join(said, " ")
}

func shortStates(all []api.TargetResponder) string {
	var said []string
	for _, r := range all {
		said = append(said, fmt.Sprintf("%s:%s", r.Name[strings.LastIndexByte(r.Name, '/')+1:], r.State))
	}
	return strings.Join(said, " ")
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

const (
	waits     = "Failed/AwaitingEviction TargetEvicted/AwaitingEviction"
	isInvalid = "!Failed/EvictionInvalid TargetEvicted/EvictionFailed"
	isCancel  = "!Failed/CanceledDueToNoRequesters TargetEvicted/EvictionFailed"
	unserved  = "!Failed/NoFurtherResponder TargetEvicted/EvictionFailed"
	isDeleted = "Failed/Succeeded !TargetEvicted/PodDeleted"
	isEnded   = "Failed/Succeeded !TargetEvicted/PodTerminal"
)
