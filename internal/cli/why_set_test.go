package cli

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// Of a MemberSet that has not formed its system it is said what that waits for, whether a pod of it is meant or the set itself, which may have none.
func TestWhyOfASetThatHasNotFormed(t *testing.T) {
	unscheduled := waitsFor(v1alpha1.ReplacementBlocker{Reason: "PodUnscheduled", Message: "pod kv-server-1 is on no node", Remedy: "make room for it"})
	const (
		begins = "MemberSet kv has not formed its system yet, and "
		waits  = "; it waits: PodUnscheduled: pod kv-server-1 is on no node (make room for it); all that it waits for: kubectl describe memberset kv -n shop"
	)
	owner := snapshot.Owner{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberSet", Name: "kv"}
	others := owner
	others.APIVersion = "example.com/v1"
	absent, failed := unknown("namespace shop has no memberset %q that owns pods", "kv"), errors.New("the apiserver is away")
	for name, test := range map[string]struct {
		set     func(*v1alpha1.MemberSet) // nil: it has formed its system
		owner   snapshot.Owner
		subject subject
		err     error
		pod     string // what is said of the pod
		want    string // what the error becomes
	}{
		"it has":                     {owner: owner, subject: subject{kind: "memberset", name: "kv"}, err: absent, want: absent.Error()},
		"it has not":                 {set: unscheduled, owner: owner, subject: subject{kind: "memberset", name: "kv"}, err: absent, pod: begins + "no policy guards its pods before" + waits, want: begins + "it has no pods" + waits},
		"another set":                {set: unscheduled, owner: snapshot.Owner{APIVersion: owner.APIVersion, Kind: "MemberSet", Name: "kw"}, subject: subject{kind: "memberset", name: "kw"}, err: absent, want: absent.Error()},
		"another kind":               {set: unscheduled, owner: others, subject: subject{kind: "statefulset", name: "kv"}, err: absent, want: absent.Error()},
		"what is there was not read": {set: unscheduled, subject: subject{kind: "memberset", name: "kv"}, err: failed, want: failed.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			set := kvSet()
			if test.set != nil {
				test.set(set)
			}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[schema.GroupVersionResource]string{observe.MemberSetResource: "MemberSetList"}
			objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, &unstructured.Unstructured{Object: object})
			sets := func() *unformedSets {
				return &unformedSets{objects: objects, namespace: "shop", said: map[string]string{}}
			}
			if diff := cmp.Diff(test.pod, sets().of(t.Context(), &snapshot.Pod{Namespace: "shop", Owner: test.owner})); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.want, sets().among(t.Context(), []subject{test.subject}, test.err).Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
