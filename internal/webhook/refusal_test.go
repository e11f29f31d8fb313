package webhook

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

func TestRefusal(t *testing.T) {
	got := newWorld(t).post(PathLeave, evictionOf("db-0", "", noMore)).Result
	want := &metav1.Status{
		Status: "Failure", Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: got.Message,
		Details: &metav1.StatusDetails{Name: "db-0", Kind: "pods", UID: "uid-1", Causes: []metav1.StatusCause{
			{Type: "NotGreen", Field: "green", Message: "the database is not green"}, got.Details.Causes[len(got.Details.Causes)-1],
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	last := got.Details.Causes[1]
	if after, err := time.ParseDuration(last.Message); last.Type != eviction.RetryCause || err != nil || after < time.Second {
		t.Errorf("the last cause does not say when to ask again: %+v", last)
	}
}

func TestBreakGlassIsAudited(t *testing.T) {
	pod := testPod("db-0")
	pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
	w := newWorld(t)
	got := w.post(PathLeave, deletionOf(t, pod, "db-0", "jane", ""))
	if got.AuditAnnotations["break-glass"] != "fire" || got.AuditAnnotations["verdict"] != "Blocked" {
		t.Errorf("audited %v", got.AuditAnnotations)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "not green") {
		t.Errorf("warnings %q do not say what it would have been", got.Warnings)
	}
	want := []string{
		"db-0 Warning BrokenGlass: Usher would have refused this: the database is not green",
		"n1 Warning GovernedPodLeaves: pod shop/db-0 leaves, requested by jane: Usher would have refused this",
	}
	if len(w.events) != len(want) || !strings.HasPrefix(w.events[0], want[0]) || !strings.HasPrefix(w.events[1], want[1]) {
		t.Errorf("events %q, want %q", w.events, want)
	}
}

// TestDeadline: the answer is a refusal, given before the apiserver stops waiting.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.green, w.delay = true, 5*time.Second
		began := time.Now()
		got := w.post(PathLeave+"?timeout=4s", evictionOf("db-0", "", noMore))
		if got.Allowed || got.Result.Code != 429 || !strings.Contains(got.Result.Message, "still being asked") {
			t.Errorf("after %s: %+v", time.Since(began), got)
		}
		if diff := cmp.Diff([]string{"request"}, w.did); diff != "" || !strings.Contains(got.Result.Message, "An EvictionRequest was made") {
			t.Errorf("after the time was up, did %v; %s", w.did, got.Result.Message)
		}
	})
}

func TestPatience(t *testing.T) {
	for announced, want := range map[string]time.Duration{
		"10s": 9 * time.Second, "1s": 500 * time.Millisecond, "3s": 2 * time.Second, "30s": 29 * time.Second,
		"": 9 * time.Second, "x": 9 * time.Second, "-1s": 9 * time.Second, "1000h": 9 * time.Second,
	} {
		if got := patience(announced); got != want {
			t.Errorf("patience(%q) = %s, want %s", announced, got, want)
		}
	}
}

func TestPanicRefuses(t *testing.T) {
	w := newWorld(t)
	w.pods["panic"] = testPod("panic")
	if got := w.post(PathLeave, evictionOf("panic", "", noMore)); got.Allowed || got.UID != "r1" {
		t.Errorf("after a panic: %+v", got)
	}
}

// FuzzBodies: whatever comes, there is an answer, and nothing that could lose data is let through by an error.
func FuzzBodies(f *testing.F) {
	for _, path := range []string{PathLeave, PathAudit, PathCreate, PathPolicy} {
		f.Add(path, evictionOf("db-0", "", noMore))
		f.Add(path, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1","operation":"CREATE","namespace":"shop","object":`+
			`{"metadata":{"name":"a","labels":{"app":"db"}},"spec":{"tolerations":[{"key":"a"}]}}}}`)
	}
	f.Add(PathLeave, `{"request":null}`)
	f.Add(PathLeave, `{}`)
	f.Add(PathAudit, `{}`)
	f.Fuzz(func(t *testing.T, path, body string) {
		if path != PathLeave && path != PathAudit && path != PathCreate && path != PathPolicy {
			t.Skip()
		}
		w := newWorld(t)
		got := w.post(path, body)
		if got == nil {
			t.Fatal("no answer")
		}
		if path == PathLeave && got.Allowed && got.AuditAnnotations["answer"] == "" {
			t.Errorf("let through without a reason: %+v", got)
		}
	})
}
