package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwnerDaemonSet(t *testing.T) {
	for name, c := range map[string]struct {
		owner metav1.OwnerReference
		want  bool
	}{
		"of apps":                    {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: new(true)}, true},
		"of apps, another version":   {metav1.OwnerReference{APIVersion: "apps/v1beta2", Kind: "DaemonSet", Controller: new(true)}, true},
		"of another group":           {metav1.OwnerReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet", Controller: new(true)}, false},
		"of the core group":          {metav1.OwnerReference{APIVersion: "v1", Kind: "DaemonSet", Controller: new(true)}, false},
		"without a version":          {metav1.OwnerReference{Kind: "DaemonSet", Controller: new(true)}, false},
		"with a version of no shape": {metav1.OwnerReference{APIVersion: "apps/v1/x", Kind: "DaemonSet", Controller: new(true)}, false},
		"another kind of apps":       {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Controller: new(true)}, false},
		"owns it, and controls not":  {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{c.owner}}}
			if got := OwnerOf(pod).DaemonSet(); got != c.want {
				t.Errorf("a DaemonSet: %t, want %t", got, c.want)
			}
		})
	}
}
