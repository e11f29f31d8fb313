package act

import (
	"context"
	"testing"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

func TestReportsAreRememberedForAMoment(t *testing.T) {
	said := func(message string) api.ResponderStatus {
		return api.ResponderStatus{Name: "responder.usher.sh/governor", Message: &message}
	}
	var r reports
	r.wrote("e1", said("the pod is gone"), present)
	for _, c := range []struct {
		uid   types.UID
		after time.Duration
		want  bool
	}{
		{"e1", time.Second, true},
		{"e2", time.Second, false},
		{"e1", betweenWords, false},
		{"e1", -time.Second, false}, // a clock was set back
	} {
		last, age, got := r.written(c.uid, present.Add(c.after))
		if got != c.want || got && (*last.Message != "the pod is gone" || age != c.after) {
			t.Errorf("of %s after %s: %t, %+v of %s ago", c.uid, c.after, got, last, age)
		}
	}
	if r.wrote("e2", said("x"), present.Add(betweenWords)); len(r.last) != 1 {
		t.Errorf("%d are remembered", len(r.last))
	}
}

// served is an eviction of the pod in which Usher's responder has begun a minute ago, and is in a state now.
func served(name string, state api.ResponderStateType) *api.Eviction {
	started := metav1.NewTime(present.Add(-time.Minute))
	return &api.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID(name)},
		Spec:       api.EvictionSpec{Target: api.EvictionTarget{Pod: &api.EvictionPodReference{Name: "db-0", UID: "pod"}}},
		Status: api.EvictionStatus{
			ObservedGeneration: new(int64(1)),
			TargetResponders:   []api.TargetResponder{{Name: evictionrequest.Responder, State: state}},
			Responders:         []api.ResponderStatus{{Name: evictionrequest.Responder, StartTime: &started}},
		},
	}
}

// A cache that does not show the last word has it written no second time, in another second neither, and is looked at again: it may be behind, or
// another write may have come late. Another word waits, and the last one does not.
func TestTellWritesAWordOnceThoughTheCacheIsBehind(t *testing.T) {
	g := governedWorld(t, served("ours", api.ResponderStateActive))
	writes, at := 0, present
	g.Now = func() time.Time { return at }
	g.Client = interceptor.NewClient(g.Client.(client.WithWatch), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.(*api.EvictionList).Items = []api.Eviction{*served("ours", api.ResponderStateActive)}
			return nil
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	})
	holds, prepares := eviction.Report{Message: "db-0 still holds data"}, eviction.Report{Message: "db-0 hands over"}
	gone := eviction.Report{Message: "the pod is gone", Completed: true}
	for _, step := range []struct {
		after  time.Duration
		report eviction.Report
		writes int
		held   time.Duration
	}{
		{0, holds, 1, 0},
		{time.Second, holds, 1, 9 * time.Second},
		{2 * time.Second, prepares, 1, 8 * time.Second},
		{9 * time.Second, holds, 1, time.Second}, // it was another meanwhile, which is no news any more
		{10 * time.Second, prepares, 2, 0},
		{11 * time.Second, gone, 3, 0},
		{12 * time.Second, gone, 3, 9 * time.Second},
	} {
		at = present.Add(step.after)
		_, answer := g.DoAll(t.Context(), []eviction.Action{{Kind: eviction.Respond, Pod: podKey, UID: "pod", Report: step.report}})
		if wantCode(t, answer, answers.Accepted); writes != step.writes || answer.RetryAfter != step.held {
			t.Errorf("%q after %s: %d writes, held back for %s", step.report.Message, step.after, writes, answer.RetryAfter)
		}
	}
}

// A write of this process that comes late undoes its last word, and nothing else has it look again: it is written once more as soon as the cache cannot
// be behind any more. A cache that shows the last word needs no other look.
func TestTellWritesAgainWhatALateWriteHasUndone(t *testing.T) {
	g := governedWorld(t, served("ours", api.ResponderStateActive))
	writes, at, shown := 0, present, served("ours", api.ResponderStateActive)
	g.Now = func() time.Time { return at }
	g.Client = interceptor.NewClient(g.Client.(client.WithWatch), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.(*api.EvictionList).Items = []api.Eviction{*shown}
			return nil
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	})
	const before, word = "db-0 still holds data", "db-0 hands over"
	for _, step := range []struct {
		after  time.Duration
		shown  string
		writes int
		held   time.Duration
	}{
		{0, before, 1, 0},
		{time.Second, word, 1, 0},
		{2 * time.Second, before, 1, 8 * time.Second},
		{10 * time.Second, before, 2, 0},
		{11 * time.Second, word, 2, 0},
	} {
		at = present.Add(step.after)
		entry := evictionrequest.Entry(shown, evictionrequest.Responder)
		entry.Message, entry.HeartbeatTime = new(step.shown), new(metav1.NewTime(present))
		answer := g.Do(t.Context(), eviction.Action{Kind: eviction.Respond, Pod: podKey, UID: "pod", Report: eviction.Report{Message: word}})
		if wantCode(t, answer, answers.Accepted); writes != step.writes || answer.RetryAfter != step.held {
			t.Errorf("%q is shown after %s: %d writes, looked at again in %s", step.shown, step.after, writes, answer.RetryAfter)
		}
	}
}

func TestTellWritesOnlyWhenItIsUshersTurn(t *testing.T) {
	g := governedWorld(t, served("ours", api.ResponderStateActive), served("over", api.ResponderStateCanceled))
	wantCode(t, g.Do(t.Context(), eviction.Action{
		Kind: eviction.Respond, Pod: podKey, UID: "pod", Report: eviction.Report{Message: "db-0 still holds data"},
	}), answers.Accepted)
	for name, want := range map[string]string{"ours": "db-0 still holds data", "over": ""} {
		found := &api.Eviction{}
		if err := g.Client.Get(t.Context(), snapshot.Key{Namespace: "db", Name: name}, found); err != nil {
			t.Fatal(err)
		}
		got := ""
		if r := evictionrequest.Entry(found, evictionrequest.Responder); r != nil && r.Message != nil {
			got = *r.Message
		}
		if got != want {
			t.Errorf("eviction %s says %q, want %q", name, got, want)
		}
	}
}
