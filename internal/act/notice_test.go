package act

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/notice"
)

// What is changed and deleted carries the version that was decided upon: at another one the notice may stand until later.
func TestNoticesInsistOnWhatWasSeen(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "notice-n1", UID: "uid", Annotations: map[string]string{notice.BeginAnnotation: "a"}}, Spec: v1alpha1.NodeMaintenanceSpec{Suspend: true}}
	var patched map[string]any
	var deleted []client.DeleteOption
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			body, err := patch.Data(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(body, &patched); err != nil {
				t.Fatal(err)
			}
			return c.Patch(ctx, o, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			deleted = options
			return c.Delete(ctx, o, options...)
		},
	}).Build()
	w := &Notices{Client: c, Instance: "usher-manager-0", Now: func() time.Time { return time.Unix(0, 0) }}
	var seen v1alpha1.NodeMaintenance
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), &seen); err != nil {
		t.Fatal(err)
	}
	if answer := w.Begin(t.Context(), m.DeepCopy()); answer.Code == answers.Accepted {
		t.Error("made again")
	}
	fresh := m.DeepCopy()
	fresh.ResourceVersion = ""
	if answer := w.Begin(t.Context(), fresh); answer.Code != answers.Conflict {
		t.Errorf("one of the name is there: %+v", answer)
	}
	to := seen.DeepCopy()
	to.Spec.Suspend, to.Annotations = false, nil
	if answer := w.Change(t.Context(), notice.Change{Seen: &seen, To: to}); answer.Code != answers.Accepted {
		t.Fatalf("changing: %+v", answer)
	}
	meta, _ := patched["metadata"].(map[string]any)
	if meta["resourceVersion"] != seen.ResourceVersion {
		t.Errorf("the patch %v does not insist on version %s", patched, seen.ResourceVersion)
	}
	if answer := w.Change(t.Context(), notice.Change{Seen: &seen, To: to}); answer.Code != answers.Conflict {
		t.Errorf("changing what has changed: %+v", answer)
	}
	w.Withdraw(t.Context(), &seen)
	options := (&client.DeleteOptions{}).ApplyOptions(deleted)
	if p := options.Preconditions; p == nil || p.UID == nil || *p.UID != "uid" || p.ResourceVersion == nil || *p.ResourceVersion != seen.ResourceVersion {
		t.Errorf("deleted with preconditions %+v", options.Preconditions)
	}
	for range 2 {
		if answer := w.Record(t.Context(), notice.Event{Name: "notice-n1", Node: "n1", Reason: "NoticeRebalance", Note: "a\x1b[31mb"}); answer.Code != answers.Accepted {
			t.Errorf("recording: %+v", answer)
		}
	}
	var event eventsv1.Event
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "notice-n1"}, &event); err != nil {
		t.Fatal(err)
	}
	if event.Regarding.Name != "n1" || event.Note != "ab" || event.ReportingInstance != "usher-manager-0" {
		t.Errorf("%+v", event)
	}
}
