package testlab

import (
	"testing"

	lifecycle "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apilifecycle "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/lab/await"
)

// LifecycleAPI is the eviction request API of a lab: Kubernetes' own where it is served, and else usher's custom resources.
type LifecycleAPI struct {
	client.Client

	rest rest.Interface
}

// Lifecycle returns the lab's eviction request API. Where usher's custom resources serve it they must be installed.
func (l *Lab) Lifecycle(tb testing.TB) LifecycleAPI {
	tb.Helper()
	version, served, err := apilifecycle.Discover(tb.Context(), l.client.Discovery())
	check(tb, "finding the eviction request API", err)
	if !served {
		tb.Fatal("the lab serves no eviction request API: install usher first")
	}
	scheme := runtime.NewScheme()
	apilifecycle.AddToScheme(scheme, version)
	config := l.RESTConfig()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // custom resources speak nothing else
	c, err := client.New(config, client.Options{Scheme: scheme})
	check(tb, "making a client of the eviction request API", err)
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	watched, err := rest.RESTClientFor(config)
	check(tb, "making a client of the eviction request API", err)
	return LifecycleAPI{Client: c, rest: watched}
}

// Requests are the EvictionRequests of a namespace.
func (a LifecycleAPI) Requests(namespace string) await.Source[*lifecycle.EvictionRequest] {
	return await.Source[*lifecycle.EvictionRequest]{Client: a.rest, Resource: "evictionrequests", Namespace: namespace}
}

// Evictions are the Evictions of a namespace.
func (a LifecycleAPI) Evictions(namespace string) await.Source[*lifecycle.Eviction] {
	return await.Source[*lifecycle.Eviction]{Client: a.rest, Resource: "evictions", Namespace: namespace}
}
