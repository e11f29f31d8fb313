package memberset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// A pod wakes the set that controls it, whatever its labels say: those of a namespace without a policy are not kept.
func TestSetOfPod(t *testing.T) {
	set := &v1alpha1.MemberSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv", UID: "s"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kv-member-1"}}
	if keys := setOfPod(t.Context(), pod); len(keys) > 0 {
		t.Errorf("of none: %v", keys)
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MemberSet"))}
	if keys := setOfPod(t.Context(), pod); len(keys) != 1 || keys[0].String() != "shop/kv" {
		t.Errorf("of the set: %v", keys)
	}
	pod.OwnerReferences[0].APIVersion = "example.com/v1"
	if keys := setOfPod(t.Context(), pod); len(keys) > 0 {
		t.Errorf("of another kind of the name: %v", keys)
	}
}
