package act

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
)

// A target that can be no object of the policy's namespace is known as such before anything is sent.
func TestTargetsThatAreNotPatchable(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	sent := errors.New("it was asked for")
	targets := Targets{Mapper: mapper, As: func(string, string) (dynamic.Interface, error) { return nil, sent }}
	for want, target := range map[string]v1alpha1.PatchTarget{
		"its kind is not namespaced":  {APIVersion: "v1", Kind: "Node", Name: "n1"},
		"may not contain '/'":         {APIVersion: "v1", Kind: "Pod", Name: "../../kube-system/pods/a"},
		"may not be '..'":             {APIVersion: "v1", Kind: "Pod", Name: ".."},
		"its name is empty":           {APIVersion: "v1", Kind: "Pod"},
		"unexpected GroupVersion":     {APIVersion: "a/b/c", Kind: "Pod", Name: "a"},
		"its name may not contain '%": {APIVersion: "v1", Kind: "Pod", Name: "a%2fb"},
	} {
		_, err := targets.Get(t.Context(), "shop", "usher", &target)
		if !errors.Is(err, ErrNotPatchable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", target, err, want)
		}
	}
	if _, err := targets.Get(t.Context(), "shop", "usher", &v1alpha1.PatchTarget{APIVersion: "v1", Kind: "Pod", Name: "a"}); !errors.Is(err, sent) {
		t.Errorf("a pod: %v", err)
	}
}
