package responder

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/snapshot"
)

func TestAPreparationBeginsOnceThePolicyIsHeld(t *testing.T) {
	r := newRig(t, interceptor.Funcs{})
	for range 3 {
		if _, err := r.look(t); err != nil {
			t.Fatal(err)
		}
	}
	policy := r.policy(t)
	if !slices.Contains(policy.Finalizers, v1alpha1.UndoFinalizer) || len(policy.Status.Preparations) != 1 || r.database.prepared != 1 {
		t.Errorf("finalizers %v, preparations %v, the system was asked %d times", policy.Finalizers, policy.Status.Preparations, r.database.prepared)
	}
	if said := r.message(t, "pod-9-db-0"); !strings.Contains(said, "it holds data") {
		t.Errorf("the eviction says %q", said)
	}
}

// TestAPolicyThatCannotBeHeld: a policy engine or a schema may refuse the finalizer, or take it off without an error. Nothing is
// prepared then, the Eviction says why, and the apiserver is not asked twenty times a second.
func TestAPolicyThatCannotBeHeld(t *testing.T) {
	for name, patched := range map[string]func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error{
		"refused": func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return forbidden("no finalizers here")
		},
		"taken off": func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption) error {
			if err := c.Patch(ctx, o, p); err != nil {
				return err
			}
			o.SetFinalizers(nil)
			return c.Update(ctx, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				patches := 0
				r := newRig(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
					patches++
					return patched(ctx, c, o, p, options...)
				}})
				for range 3 {
					result, err := r.look(t)
					if err != nil || result.RequeueAfter != afterRefusal {
						t.Errorf("looks again in %s, %v", result.RequeueAfter, err)
					}
				}
				said := r.message(t, "pod-9-db-0")
				for _, part := range []string{"it holds data", "cannot be held", v1alpha1.UndoFinalizer} {
					if !strings.Contains(said, part) {
						t.Errorf("the eviction says %q, without %q", said, part)
					}
				}
				if policy := r.policy(t); len(policy.Status.Preparations) > 0 || r.database.prepared > 0 {
					t.Errorf("prepared %d times, %v", r.database.prepared, policy.Status.Preparations)
				}
				if patches != 3 {
					t.Errorf("asked for the finalizer %d times in 3 looks", patches)
				}
			})
		})
	}
}

func TestAPermitThatCannotBeWrittenIsReported(t *testing.T) {
	r := newRig(t, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return forbidden("the status is ours")
	}})
	r.database.empty = true
	result, err := r.look(t)
	if err != nil || result.RequeueAfter != afterRefusal {
		t.Errorf("looks again in %s, %v", result.RequeueAfter, err)
	}
	if said := r.message(t, "pod-9-db-0"); !strings.Contains(said, "the status is ours") {
		t.Errorf("the eviction says %q", said)
	}
}

// TestARefusedLastReportHoldsNothingUp: the entry of a pod that is gone may not be writable any more; the pod that has its name now
// is served all the same.
func TestARefusedLastReportHoldsNothingUp(t *testing.T) {
	refused := interceptor.Funcs{SubResourceApply: func(ctx context.Context, c client.Client, resource string, o runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
		if named, ok := o.(interface{ GetName() string }); ok && named.GetName() == "pod-1-db-0" {
			return forbidden("the entry is closed")
		}
		return c.SubResource(resource).Apply(ctx, o, options...)
	}}
	r := newRig(t, refused, servedEviction("pod-1-db-0", "before"), servedEviction("pod-2-db-0", "earlier"))
	_, err := r.look(t)
	if err == nil || !strings.Contains(err.Error(), "the entry is closed") {
		t.Errorf("error %v, want the refusal, so that it is tried again", err)
	}
	if said := r.message(t, "pod-2-db-0"); said != "the pod is gone" {
		t.Errorf("the entry of the next pod that is gone says %q", said)
	}
	if policy := r.policy(t); !slices.Contains(policy.Finalizers, v1alpha1.UndoFinalizer) {
		t.Error("the pod that has the name now is not served")
	}
}

// TestACallerIsLeftItsPod: a caller that was refused a moment ago takes the pod away itself: it asks by name, and would hit the pod's
// successor if the pod were evicted before.
func TestACallerIsLeftItsPod(t *testing.T) {
	r := newRig(t, interceptor.Funcs{})
	r.database.empty = true
	var requests api.EvictionRequestList
	if err := r.store.List(t.Context(), &requests); err != nil {
		t.Fatal(err)
	}
	asked := time.Now().Add(-30 * time.Second).Truncate(time.Second)
	requests.Items[0].Annotations = map[string]string{evictionrequest.LastRequestTimeAnnotation: asked.Format(time.RFC3339)}
	if err := r.store.Update(t.Context(), &requests.Items[0]); err != nil {
		t.Fatal(err)
	}
	result, err := r.look(t)
	if said := r.message(t, "pod-9-db-0"); err != nil || !strings.Contains(said, "test.example.com/jane was refused before") {
		t.Errorf("the eviction says %q, %v", said, err)
	}
	if policy := r.policy(t); len(policy.Status.Leaving) > 0 || result.RequeueAfter > 45*time.Second {
		t.Errorf("permits %v, looks again in %s", policy.Status.Leaving, result.RequeueAfter)
	}
}

// The cache may show a pod as it was before its eviction.
func TestAnAcceptedEvictionIsNotRepeated(t *testing.T) {
	evictions := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		evictions++
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	}))
	t.Cleanup(server.Close)
	r := newRig(t, interceptor.Funcs{})
	r.reconciler.Act.Writer = &act.Writer{Client: kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})}
	r.database.empty = true
	for range 2 {
		if result, err := r.look(t); err != nil || result.RequeueAfter > 10*time.Second {
			t.Errorf("looks again in %s, error %v", result.RequeueAfter, err)
		}
	}
	if evictions != 1 {
		t.Errorf("evicted %d times, want 1", evictions)
	}
}

// TestALabelWithoutPolicies: whoever may create pods can write the label of governed ones. In a namespace without policies it keeps no pod
// from the next responder.
func TestALabelWithoutPolicies(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db"}})
	if err := r.store.Delete(t.Context(), r.policy(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.look(t); err != nil {
		t.Fatal(err)
	}
	if said := r.message(t, "pod-9-db-0"); said != "no policy governs the pod" {
		t.Errorf("the eviction says %q", said)
	}
}

// TestAConflictOfAnEviction: a word that meets another version of the Eviction is said again, without a look at a policy.
func TestAConflictOfAnEviction(t *testing.T) {
	r := newRig(t, interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return apierrors.NewConflict(schema.GroupResource{Group: "lifecycle.k8s.io", Resource: "evictions"}, "pod-9-db-0", errors.New("it has changed"))
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if key.Name == "" {
				return errors.New("resource name may not be empty")
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	pod := snapshot.Pod{Namespace: "db", Name: "db-0", UID: "now"}
	step := eviction.StepResult{Actions: []eviction.Action{{
		Kind: eviction.Respond, Pod: pod.Key(), UID: pod.UID, Report: eviction.Report{Message: "done", Completed: true},
	}}}
	wait, err := r.reconciler.carryOut(t.Context(), eviction.Input{Pod: &pod}, step)
	if err != nil || wait != soon {
		t.Errorf("looks again in %s, %v", wait, err)
	}
}
