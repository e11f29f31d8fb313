package observe_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// A MemberSet has no number of replicas of its own, and no subresource scale: how many there are is said of its groups, and who is of which by its status.
func TestTheWorkloadOfAMemberSet(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	set := &v1alpha1.MemberSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv", UID: "set"},
		Spec: v1alpha1.MemberSetSpec{Groups: []v1alpha1.MemberGroup{
			{Name: "a", Template: runtime.RawExtension{Raw: []byte(`{}`)}}, {Name: "b", Template: runtime.RawExtension{Raw: []byte(`{}`)}},
		}},
		Status: v1alpha1.MemberSetStatus{Groups: []v1alpha1.MemberGroupStatus{{Name: "a", Replicas: 3}, {Name: "b", Replicas: 1}}, Members: []v1alpha1.SetMember{
			{ID: "kv-a-1", Group: "a", State: v1alpha1.MemberWhole},
			{ID: "kv-a-2", Group: "a", State: v1alpha1.MemberJoining},
			{ID: "kv-b-1", Group: "b", State: v1alpha1.MemberWhole, Removal: &v1alpha1.MemberRemoval{Step: v1alpha1.RemovalGrowing}},
		}},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv-a-1", UID: "p", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MemberSet")),
	}}}
	r := &observe.Workloads{
		Client: fake.NewClientset(pod), Dynamic: dynamicfake.NewSimpleDynamicClient(scheme, set), Mapper: meta.NewDefaultRESTMapper(nil), Now: time.Now,
		Node: func(context.Context, string) (*snapshot.Node, error) { return nil, nil },
	}
	view, err := r.Read(t.Context(), "shop", func(*snapshot.Pod) bool { return true }, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := view.Cluster.WorkloadOf(view.Cluster.Pod("p").OwnerKey())
	if found == nil || found.Replicas >= 0 {
		t.Fatalf("%+v", found)
	}
	want := map[string]snapshot.SetMember{
		"kv-a-1": {Group: "a", Replicas: 3, Stays: true}, "kv-a-2": {Group: "a", Replicas: 3}, "kv-b-1": {Group: "b", Replicas: 1},
	}
	if diff := cmp.Diff(want, found.Members); diff != "" {
		t.Error(diff)
	}
}
