package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
)

// requests says how the cluster serves eviction requests.
type requests struct {
	version schema.GroupVersion
	served  bool
}

func (r requests) String() string {
	if !r.served {
		return "not served"
	}
	return r.version.String()
}

func discover(ctx context.Context, client discovery.DiscoveryInterface) (requests, error) {
	version, served, err := lifecycleapi.Discover(ctx, client)
	if err != nil {
		return requests{}, fmt.Errorf("asking for the eviction request API: %w", err)
	}
	return requests{version, served}, nil
}

// newScheme knows the kinds of eviction requests under one group only: a client finds an object's group by its Go type.
// client-go's own scheme would bring them under Kubernetes' group in any case.
func newScheme(requests requests) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme, storagev1.AddToScheme, admissionv1.AddToScheme, eventsv1.AddToScheme,
		v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making a scheme: %w", err)
		}
	}
	lifecycleapi.AddToScheme(scheme, requests.version)
	return scheme, nil
}

// discoveryRenewal is how often the cluster is asked again how it serves eviction requests: an upgrade, a gate or a
// CustomResourceDefinition may have changed it.
const discoveryRenewal = 2 * time.Minute

var errAnotherAPI = errors.New("the cluster serves eviction requests in another way than before")

// watchDiscovery ends with errAnotherAPI when the answer changes. While the cluster cannot be asked nothing has changed.
func watchDiscovery(ctx context.Context, client discovery.DiscoveryInterface, before requests) error {
	ticker := time.NewTicker(discoveryRenewal)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, err := discover(ctx, client)
		if err != nil {
			ctrl.Log.Error(err, "asking again how eviction requests are served")
			continue
		}
		if now != before {
			return fmt.Errorf("%w: %s, now %s", errAnotherAPI, before, now)
		}
	}
}
