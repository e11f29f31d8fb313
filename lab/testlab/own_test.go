package testlab

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGateIsSeenInDiscovery(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []Option
		want bool
	}{
		{"on", nil, true},
		{"off", []Option{WithoutEvictionRequestAPI()}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Get(t)
			if tc.opts != nil {
				l = Start(t, tc.opts...)
			}
			groups, err := l.Client().Discovery().ServerGroups()
			check(t, "asking for the API groups", err)
			got := false
			for _, g := range groups.Groups {
				got = got || g.PreferredVersion.GroupVersion == "lifecycle.k8s.io/v1alpha1"
			}
			if got != tc.want {
				t.Errorf("lifecycle.k8s.io/v1alpha1 is served: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestNamespacesAreApart(t *testing.T) {
	l := Get(t)
	a, b := l.Namespace(t), l.Namespace(t)
	if a == b {
		t.Fatalf("got namespace %s twice", a)
	}
	for _, ns := range []string{a, b} {
		_, err := l.Client().CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{})
		check(t, "reading the service account", err)
	}
}
