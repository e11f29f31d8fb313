// Package client answers: how does a command read and write EvictionRequests and Evictions, in whichever group the cluster
// serves them, and read the policies that govern pods? It finds the group out when it is first used, so that a command that meets no
// governed pod asks for nothing.
package client

import (
	"context"
	"fmt"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
)

// Client is a connection to one cluster. It may be used by several goroutines at once.
type Client struct {
	config *rest.Config

	turn chan struct{} // full while a caller asks, or reads rest
	rest rest.Interface
}

// New returns a client that has asked for nothing yet.
func New(config *rest.Config) *Client {
	return &Client{config: rest.CopyConfig(config), turn: make(chan struct{}, 1)}
}

// REST returns a client of the group that the cluster serves. Where it serves none, the error is NotFound. One caller asks at a time, and the
// others wait for that, none longer than its context lasts.
func (c *Client) REST(ctx context.Context) (rest.Interface, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("asking how eviction requests are served: %w", context.Cause(ctx))
	}
	if c.rest != nil {
		return c.rest, nil
	}
	finder, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	version, served, err := lifecycle.Discover(ctx, finder)
	if err != nil {
		return nil, err
	}
	if !served {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: version.Group, Resource: "evictionrequests"}, "the cluster serves no eviction requests")
	}
	scheme := runtime.NewScheme()
	lifecycle.AddToScheme(scheme, version)
	c.rest, err = restClient(c.config, scheme, version)
	return c.rest, err
}

func restClient(config *rest.Config, scheme *runtime.Scheme, version schema.GroupVersion) (rest.Interface, error) {
	own := rest.CopyConfig(config)
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // custom resources know no other
	own.APIPath, own.GroupVersion = "/apis", &version
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", version, err)
	}
	return client, nil
}

// Requests reads the EvictionRequests of a namespace, or of all.
func (c *Client) Requests(namespace string) Reader[api.EvictionRequestList, *api.EvictionRequestList] {
	return Reader[api.EvictionRequestList, *api.EvictionRequestList]{rest: c.REST, resource: "evictionrequests", namespace: namespace}
}

// Evictions reads the Evictions of a namespace, or of all.
func (c *Client) Evictions(namespace string) Reader[api.EvictionList, *api.EvictionList] {
	return Reader[api.EvictionList, *api.EvictionList]{rest: c.REST, resource: "evictions", namespace: namespace}
}

// Policies reads the EvictionPolicies of a namespace, or of all.
func (c *Client) Policies(namespace string) Reader[v1alpha1.EvictionPolicyList, *v1alpha1.EvictionPolicyList] {
	return Reader[v1alpha1.EvictionPolicyList, *v1alpha1.EvictionPolicyList]{rest: c.usher, resource: "evictionpolicies", namespace: namespace}
}

// usher returns a client of Usher's own group.
func (c *Client) usher(context.Context) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", v1alpha1.GroupVersion, err)
	}
	return restClient(c.config, scheme, v1alpha1.GroupVersion)
}

// Reader lists and watches one of the kinds.
type Reader[L any, P interface {
	*L
	runtime.Object
}] struct {
	rest      func(context.Context) (rest.Interface, error)
	resource  string
	namespace string
}

// List returns what there is.
func (r Reader[L, P]) List(ctx context.Context, options metav1.ListOptions) (P, error) {
	request, err := r.get(ctx, options)
	if err != nil {
		return nil, err
	}
	list := P(new(L))
	return list, request.Do(ctx).Into(list)
}

// Watch brings what changes.
func (r Reader[L, P]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	request, err := r.get(ctx, options)
	if err != nil {
		return nil, err
	}
	return request.Watch(ctx)
}

func (r Reader[L, P]) get(ctx context.Context, options metav1.ListOptions) (*rest.Request, error) {
	client, err := r.rest(ctx)
	if err != nil {
		return nil, err
	}
	return client.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.resource).
		VersionedParams(&options, metav1.ParameterCodec), nil
}
