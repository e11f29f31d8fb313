package lifecycle_test

import (
	"errors"
	"testing"

	api "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"usher.sh/usher/api/lifecycle"
)

func served(version schema.GroupVersion, names ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: version.String()}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list
}

func TestDiscover(t *testing.T) {
	whole := []string{"evictions", "evictions/status", "evictionrequests", "evictionrequests/status"}
	cases := []struct {
		name    string
		cluster []*metav1.APIResourceList
		want    schema.GroupVersion
		served  bool
	}{
		{"neither", nil, lifecycle.Usher, false},
		{"Kubernetes'", []*metav1.APIResourceList{served(lifecycle.Kubernetes, whole...)}, lifecycle.Kubernetes, true},
		{"Usher's", []*metav1.APIResourceList{served(lifecycle.Usher, whole...)}, lifecycle.Usher, true},
		{"both", []*metav1.APIResourceList{served(lifecycle.Usher, whole...), served(lifecycle.Kubernetes, whole...)}, lifecycle.Kubernetes, true},
		{"other kinds of Kubernetes' group", []*metav1.APIResourceList{served(lifecycle.Kubernetes, "others"), served(lifecycle.Usher, whole...)}, lifecycle.Usher, true},
		{"half of Usher's", []*metav1.APIResourceList{served(lifecycle.Usher, whole[:2]...)}, lifecycle.Usher, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			client := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: c.cluster}}
			version, found, err := lifecycle.Discover(t.Context(), client)
			if version != c.want || found != c.served || err != nil {
				t.Errorf("got %s, served %v, %v", version, found, err)
			}
		})
	}
}

func TestDiscoverDoesNotGuess(t *testing.T) {
	fake := &clienttesting.Fake{}
	fake.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	if _, _, err := lifecycle.Discover(t.Context(), &fakediscovery.FakeDiscovery{Fake: fake}); err == nil {
		t.Error("a server that does not answer has been taken for one that serves nothing")
	}
}

func TestAddToScheme(t *testing.T) {
	for _, version := range []schema.GroupVersion{lifecycle.Kubernetes, lifecycle.Usher} {
		scheme := runtime.NewScheme()
		lifecycle.AddToScheme(scheme, version)
		kinds, _, err := scheme.ObjectKinds(&api.Eviction{})
		if err != nil || len(kinds) != 1 || kinds[0] != version.WithKind("Eviction") {
			t.Errorf("%v, %v", kinds, err)
		}
	}
}
