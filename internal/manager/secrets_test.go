package manager

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"usher.sh/usher/internal/snapshot"
)

func TestWhatIsMissingToReadASecretIsNamed(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "login", nil)
	})
	const says = "the manager may not read Secrets of namespace prod; allow it: kubectl create rolebinding usher-secrets -n prod --clusterrole=usher-secrets "
	for self, subject := range map[string]string{
		"system:serviceaccount:usher-system:usher-manager": "--serviceaccount=usher-system:usher-manager",
		"jane": "--user=jane",
	} {
		_, err := secrets{client, self}.read(t.Context(), snapshot.Key{Namespace: "prod", Name: "login"})
		if err == nil || err.Error() != says+subject {
			t.Errorf("as %s: %v", self, err)
		}
	}
	client = fake.NewClientset()
	if _, err := (secrets{client, "jane"}).read(t.Context(), snapshot.Key{Namespace: "prod", Name: "login"}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret that is not there: %v", err)
	}
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "file", nil)
	})
	const allow = "the manager may not read ConfigMaps of namespace prod; allow it: kubectl create rolebinding usher-configmaps -n prod --clusterrole=usher-configmaps --user=jane"
	if _, err := (secrets{client, "jane"}).configMap(t.Context(), snapshot.Key{Namespace: "prod", Name: "file"}); err == nil || err.Error() != allow {
		t.Errorf("a ConfigMap that may not be read: %v", err)
	}
}
