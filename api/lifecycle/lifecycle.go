// Package lifecycle answers: under which group does a cluster serve EvictionRequest and Eviction? The Go types are
// always those of k8s.io/api/lifecycle/v1alpha1. Clusters that have the API serve them as lifecycle.k8s.io; for all
// others Usher brings the same two kinds as custom resources of lifecycle.usher.sh.
package lifecycle

import (
	"context"
	"fmt"

	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// The two groups under which the kinds may be served.
var (
	Kubernetes = api.SchemeGroupVersion
	Usher      = schema.GroupVersion{Group: "lifecycle.usher.sh", Version: "v1alpha1"}
)

// Discover returns the group that the cluster serves, Kubernetes' before Usher's. When it serves neither, served is
// false and the group is Usher's, whose CustomResourceDefinitions may be installed.
func Discover(ctx context.Context, client discovery.ServerResourcesInterface) (version schema.GroupVersion, served bool, err error) {
	resources := discovery.ToServerResourcesInterfaceWithContext(client)
	for _, version := range []schema.GroupVersion{Kubernetes, Usher} {
		served, err := serves(ctx, resources, version)
		if err != nil {
			return schema.GroupVersion{}, false, fmt.Errorf("asking whether the cluster serves %s: %w", version, err)
		}
		if served {
			return version, true, nil
		}
	}
	return Usher, false, nil
}

// serves insists on both kinds and their statuses: a cluster may serve other kinds of the group.
func serves(ctx context.Context, client discovery.ServerResourcesInterfaceWithContext, version schema.GroupVersion) (bool, error) {
	found, err := client.ServerResourcesForGroupVersionWithContext(ctx, version.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	missing := map[string]bool{"evictions": true, "evictions/status": true, "evictionrequests": true, "evictionrequests/status": true}
	for _, r := range found.APIResources {
		delete(missing, r.Name)
	}
	return len(missing) == 0, nil
}

// AddToScheme registers the kinds under one of the groups. A scheme must get only one of them: a client finds the
// group of an object by its Go type.
func AddToScheme(scheme *runtime.Scheme, version schema.GroupVersion) {
	scheme.AddKnownTypes(version, &api.EvictionRequest{}, &api.EvictionRequestList{}, &api.Eviction{}, &api.EvictionList{})
	metav1.AddToGroupVersion(scheme, version)
}
