package observe_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

func TestLimitsOfHolds(t *testing.T) {
	policy := func(name string, maxHold time.Duration, tier string, suspend bool) *v1alpha1.ClusterEvictionPolicy {
		return &v1alpha1.ClusterEvictionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.ClusterEvictionPolicySpec{
				NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}, MaxHold: metav1.Duration{Duration: maxHold}, Suspend: suspend,
			},
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects := []client.Object{policy("long", 4*time.Hour, "tenant", false), policy("short", time.Hour, "tenant", false), policy("off", time.Minute, "tenant", true)}
	for name, tier := range map[string]string{"shop": "tenant", "platform": "platform", metav1.NamespaceSystem: "tenant", "usher-system": "tenant"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": tier}}})
	}
	holds := observe.Holds{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), Own: "usher-system"}
	for namespace, want := range map[string]snapshot.HoldLimit{
		"shop": {Policy: "short", MaxHold: time.Hour}, "platform": {}, metav1.NamespaceSystem: {}, "usher-system": {},
	} {
		all, err := holds.Limits(t.Context(), namespace)
		if err != nil {
			t.Error(err)
		}
		got, some := snapshot.ShortestHold(all)
		if diff := cmp.Diff(want, got); diff != "" || some != (want.MaxHold > 0) {
			t.Errorf("%s (-want +got):\n%s", namespace, diff)
		}
	}
	if all, err := holds.Limits(t.Context(), "unknown"); err == nil || all != nil {
		t.Errorf("of a namespace that is not known: %v, %v", all, err)
	}
	if all, err := (observe.Holds{}).Limits(t.Context(), "shop"); err != nil || all != nil {
		t.Errorf("without a cache: %v, %v", all, err)
	}
}
