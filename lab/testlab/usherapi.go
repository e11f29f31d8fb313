package testlab

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"usher.sh/usher/api/v1alpha1"
)

// UsherAPI returns a client of usher's own API group, as await.Source takes one. What it asks for is there once usher is installed.
func (l *Lab) UsherAPI(tb testing.TB) rest.Interface {
	tb.Helper()
	scheme := runtime.NewScheme()
	check(tb, "making a client of usher's API", v1alpha1.AddToScheme(scheme))
	config := l.RESTConfig()
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	check(tb, "making a client of usher's API", err)
	return client
}
