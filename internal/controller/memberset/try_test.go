package memberset

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/snapshot"
)

// The eviction of a pod is not asked for, and is taken back, where the apiserver would refuse the pod that it would be made anew as.
func TestAPodIsEvictedOnlyIfItCanBeMadeAnew(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	kind := schema.GroupKind{Kind: "Pod"}
	for name, test := range map[string]struct {
		says  error
		code  answers.Code // of the eviction that is to be asked for
		keeps answers.Code // of the one that is asked for already
	}{
		"it is there, as it must be":  {apierrors.NewAlreadyExists(resource, "kv-server-1"), answers.Accepted, answers.Accepted},
		"a quota has no room for two": {apierrors.NewForbidden(resource, "kv-server-1", &field.Error{Detail: "exceeded quota: q, requested: pods=1"}), answers.Accepted, answers.Accepted},
		"it is wrong": {
			apierrors.NewInvalid(kind, "kv-server-1", field.ErrorList{field.NotFound(field.NewPath("spec.containers[0].volumeMounts[0].name"), "data")}),
			answers.Rejected, answers.Rejected,
		},
		"no answer": {apierrors.NewServiceUnavailable("no answer"), answers.Unavailable, answers.Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv-server-1", UID: "u1"}}
			l, evict := &look{set: plainSet()}, memberset.Action{Kind: memberset.EvictPod, Name: pod.Name, UID: pod.UID, Pod: pod}
			r, intent := tryReconciler(t, test.says)
			answer := r.do(t.Context(), l, &evict)
			if answer.Code != test.code || answer.Code != answers.Accepted && !strings.HasPrefix(answer.Message, "the pod that it would be made anew as is not accepted: ") {
				t.Errorf("asking for the eviction: %+v", answer)
			}
			if asked := intent() == lifecycle.EvictionRequestIntentEviction; asked != (test.code == answers.Accepted) {
				t.Errorf("it was asked for: %t", asked)
			}

			r, intent = tryReconciler(t, test.says)
			if asked := r.Act.AskEviction(t.Context(), snapshot.Key{Namespace: pod.Namespace, Name: pod.Name}, pod.UID); asked.Code != answers.Accepted {
				t.Fatal(asked)
			}
			evict.Kind = memberset.TryPod
			if answer := r.do(t.Context(), l, &evict); answer.Code != test.keeps {
				t.Errorf("looking at what was asked for: %+v", answer)
			}
			if stays := intent() == lifecycle.EvictionRequestIntentWithdrawn; stays != (test.keeps != answers.Accepted) {
				t.Errorf("it was taken back: %t", stays)
			}
		})
	}
}

// tryReconciler is one whose apiserver says this of pods that are tried, and what the request for an eviction asks for; "": there is none.
func tryReconciler(t *testing.T, says error) (*reconciler, func() lifecycle.EvictionRequestIntent) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := lifecycle.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, is := object.(*corev1.Pod); is && len(new(client.CreateOptions).ApplyOptions(options).DryRun) > 0 {
				return says
			}
			return c.Create(ctx, object, options...)
		},
	}).Build()
	return &reconciler{Options: Options{Act: &act.Sets{Client: store}}}, func() lifecycle.EvictionRequestIntent {
		var all lifecycle.EvictionRequestList
		if err := store.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		if len(all.Items) == 0 {
			return ""
		}
		return all.Items[0].Spec.Intent
	}
}
