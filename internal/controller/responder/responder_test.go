package responder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.sh/usher/internal/act"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
)

func TestAbout(t *testing.T) {
	request := func(uid types.UID) *api.EvictionRequest {
		return &api.EvictionRequest{Spec: api.EvictionRequestSpec{
			Target: api.EvictionRequestTarget{Pod: &api.EvictionRequestPodReference{Name: "db-0", UID: uid}},
		}}
	}
	asked := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	refused := func(uid types.UID) *api.EvictionRequest {
		r := request(uid)
		r.Annotations, r.Spec.Requester = map[string]string{evictionrequest.LastRequestTimeAnnotation: asked.Format(time.RFC3339)}, "requester.usher.sh/jane"
		return r
	}
	one, started := int64(1), metav1.Now()
	evictionOf := func(uid types.UID, responder string, state api.ResponderStateType) *api.Eviction {
		return &api.Eviction{
			Spec: api.EvictionSpec{Target: api.EvictionTarget{Pod: &api.EvictionPodReference{Name: "db-0", UID: uid}}},
			Status: api.EvictionStatus{
				ObservedGeneration: &one,
				TargetResponders:   []api.TargetResponder{{Name: responder, State: state}},
				Responders:         []api.ResponderStatus{{Name: responder, StartTime: &started}},
			},
		}
	}
	tests := []struct {
		name      string
		requests  []*api.EvictionRequest
		evictions []*api.Eviction
		want      demand
	}{
		{name: "not wanted"},
		{name: "wanted, another's turn", requests: []*api.EvictionRequest{request("now")}, evictions: []*api.Eviction{evictionOf("now", evictionrequest.Evictor, api.ResponderStateActive)}, want: demand{wanted: true, byOthers: true}},
		{name: "wanted, our turn", requests: []*api.EvictionRequest{request("now")}, evictions: []*api.Eviction{evictionOf("now", evictionrequest.Responder, api.ResponderStateActive)}, want: demand{wanted: true, byOthers: true, active: true}},
		{name: "refused by admission", requests: []*api.EvictionRequest{refused("now")}, want: demand{wanted: true, admitted: []*api.EvictionRequest{refused("now")}}},
		{name: "our turn is over", evictions: []*api.Eviction{evictionOf("now", evictionrequest.Responder, api.ResponderStateCanceled)}},
		{name: "another pod of the name", requests: []*api.EvictionRequest{request("before")}, evictions: []*api.Eviction{evictionOf("before", evictionrequest.Responder, api.ResponderStateActive)}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, demandFor(test.requests, test.evictions, "now"), cmp.AllowUnexported(demand{})); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestDescribe(t *testing.T) {
	blocked := eviction.Verdict{Answer: eviction.Blocked, Blockers: []eviction.Blocker{
		{Rule: "empty", Reason: "HoldsData", Message: "db-0 still holds 3 shards"},
		{Rule: "safe", Reason: "Unsafe", Message: "not safe"},
	}}
	type said struct{ Kind, Reason, Key, Text string }
	tests := []struct {
		name string
		step eviction.StepResult
		want said
	}{
		{"nothing", eviction.StepResult{}, said{}},
		{"blocked", eviction.StepResult{Verdict: blocked}, said{corev1.EventTypeWarning, "EvictionBlocked", "HoldsData/empty,Unsafe/safe", "db-0 still holds 3 shards\nnot safe"}},
		{
			"prepared",
			eviction.StepResult{Verdict: blocked, Actions: []eviction.Action{
				{Kind: eviction.Respond}, {Kind: eviction.Begin}, {Kind: eviction.Prepare, Step: eviction.Preparation{Name: "CleanOut", Message: "3 shards to go"}},
			}},
			said{corev1.EventTypeNormal, "Preparing", "CleanOut", "CleanOut: 3 shards to go"},
		},
		{
			"evicted",
			eviction.StepResult{Verdict: eviction.Verdict{Answer: eviction.Allowed}, Actions: []eviction.Action{{Kind: eviction.Permit}, {Kind: eviction.Evict}}},
			said{corev1.EventTypeNormal, "Evicting", "", "its system lets it go"},
		},
	}
	for _, test := range tests {
		kind, reason, _, key, text := describe(test.step)
		if diff := cmp.Diff(test.want, said{kind, reason, key, text}); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestDescribeForNode(t *testing.T) {
	blocked := eviction.Verdict{Answer: eviction.Blocked, Blockers: []eviction.Blocker{{Rule: "empty", Reason: "HoldsData", Message: "db-0 still holds 3 shards"}}}
	type said struct{ Kind, Reason, Key, Text string }
	stays := said{corev1.EventTypeWarning, act.PodStays, "HoldsData/empty", "pod db/db-0 is wanted gone and stays: db-0 still holds 3 shards"}
	tests := map[string]struct {
		step eviction.StepResult
		want said
	}{
		"nothing":      {},
		"blocked":      {eviction.StepResult{Verdict: blocked}, stays},
		"prepared":     {eviction.StepResult{Verdict: blocked, Actions: []eviction.Action{{Kind: eviction.Prepare}}}, stays},
		"evicted":      {eviction.StepResult{Actions: []eviction.Action{{Kind: eviction.Permit}, {Kind: eviction.Evict}}}, said{corev1.EventTypeNormal, act.PodLeaves, "", "pod db/db-0 is being evicted"}},
		"not our turn": {eviction.StepResult{Verdict: eviction.Verdict{Answer: eviction.Allowed}}, said{}},
	}
	for name, test := range tests {
		kind, reason, key, text := describeForNode(snapshot.Key{Namespace: "db", Name: "db-0"}, test.step)
		if diff := cmp.Diff(test.want, said{kind, reason, key, text}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestANodeHasAnEventOfEachChangeOfReason: looks that see the same make one event on the node; another reason makes another.
func TestANodeHasAnEventOfEachChangeOfReason(t *testing.T) {
	recorder := &recorded{}
	s := &reconciler{events: recorder, nodeEvents: newEventDeduper()}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "db-0"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	look := func(reason, message string) {
		s.recordNodeEvent(pod, eviction.StepResult{Verdict: eviction.Verdict{Answer: eviction.Blocked, Blockers: []eviction.Blocker{{Reason: reason, Message: message}}}})
	}
	look("HoldsData", "3 shards")
	look("HoldsData", "2 shards")
	look("Unsafe", strings.Repeat("ü", 1000))
	pod.Spec.NodeName = ""
	look("HoldsData", "not on a node")
	if diff := cmp.Diff([]string{"n1 GovernedPodStays Evict:HoldsData", "n1 GovernedPodStays Evict:Unsafe"}, recorder.said); diff != "" {
		t.Error(diff)
	}
	if recorder.longest > 1024 {
		t.Errorf("a note of %d bytes, which the API refuses", recorder.longest)
	}
}

type recorded struct {
	said    []string
	longest int
}

// Eventf implements events.EventRecorder.
func (r *recorded) Eventf(regarding, _ runtime.Object, _, reason, action, note string, args ...any) {
	r.said = append(r.said, regarding.(*corev1.Node).Name+" "+reason+" "+action)
	r.longest = max(r.longest, len(fmt.Sprintf(note, args...)))
}

func TestAnEventIsNotRepeated(t *testing.T) {
	deduper, pod := newEventDeduper(), snapshot.Key{Namespace: "db", Name: "db-0"}
	for i, step := range []struct {
		text string
		want bool
	}{{"a", true}, {"a", false}, {"b", true}, {"a", true}} {
		if got := deduper.changed(pod, step.text); got != step.want {
			t.Errorf("step %d: news %t, want %t", i, got, step.want)
		}
	}
	deduper.forget(pod)
	if !deduper.changed(pod, "a") {
		t.Error("what was forgotten is no news")
	}
}

func TestThePauseAfterARefusalGrows(t *testing.T) {
	a, pod := newAttempts(), snapshot.Key{Name: "db-0"}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
		if got := a.pause(pod); got != want {
			t.Errorf("pause %s, want %s", got, want)
		}
	}
	a.forget(pod)
	if got := a.pause(pod); got != firstPause {
		t.Errorf("pause %s after all went well, want %s", got, firstPause)
	}
}

func TestTheNextLookIsInTimeForAHeartbeat(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := &reconciler{Options: Options{Gatherer: &policycache.Gatherer{Now: func() time.Time { return now }}}}
	for _, test := range []struct{ at, held, want time.Duration }{
		{10 * time.Second, 0, 10 * time.Second},
		{10 * time.Second, 4 * time.Second, 4 * time.Second},
		{4 * time.Second, 10 * time.Second, 4 * time.Second},
		{time.Hour, 0, evictionrequest.Beat},
		{-time.Second, 0, soon},
	} {
		if got := s.next(eviction.StepResult{NextLook: now.Add(test.at)}, test.held); got != test.want {
			t.Errorf("a look in %s, a word in %s: %s, want %s", test.at, test.held, got, test.want)
		}
	}
	if got := s.next(eviction.StepResult{}, 0); got != evictionrequest.Beat {
		t.Errorf("no look: %s, want %s", got, evictionrequest.Beat)
	}
}

// A look at one pod costs by what is asked of that pod, and not by what is asked in its namespace.
func TestALookReadsWhatIsAskedOfItsPod(t *testing.T) {
	var read []string
	faults := interceptor.Funcs{List: func(ctx context.Context, store client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
		err := store.List(ctx, list, o...)
		switch list := list.(type) {
		case *api.EvictionRequestList:
			for i := range list.Items {
				read = append(read, list.Items[i].Spec.Target.Pod.Name)
			}
		}
		return err
	}}
	var others []client.Object
	for i := range 20 {
		others = append(others, evictionrequest.NewRequest(evictionrequest.Ref{Namespace: "db", Name: fmt.Sprint("other-", i), UID: "x"}, "test.example.com/jane"))
	}
	r := newRig(t, faults, others...)
	if _, err := r.look(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"db-0"}, read); diff != "" {
		t.Errorf("requests of pods (-want +got):\n%s", diff)
	}
}
