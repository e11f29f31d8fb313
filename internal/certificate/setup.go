package certificate

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// SecretName is the Secret's name, in Usher's own namespace.
const SecretName = "usher-webhook-certificate"

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,resourceNames=usher,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",namespace=usher-system,resources=secrets,resourceNames=usher-webhook-certificate,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=usher-system,resources=secrets,verbs=create

// Setup adds a keeper to the manager, on every replica. It watches with a cache of its own: three objects by name, which
// is all that it may read. Hosts are served beside those of the webhooks.
func Setup(mgr manager.Manager, namespace, configurations string, hosts ...string) (*Keeper, error) {
	own, err := newCache(mgr, namespace, configurations)
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		Reader: own, Writer: mgr.GetClient(),
		Secret:         types.NamespacedName{Namespace: namespace, Name: SecretName},
		Configurations: configurations,
		Hosts:          hosts,
		Terms:          Default,
		Now:            time.Now,
	}
	everywhere := false
	c, err := controller.NewTyped("certificate", mgr, controller.TypedOptions[reconcile.Request]{Reconciler: k, NeedLeaderElection: &everywhere})
	if err != nil {
		return nil, fmt.Errorf("setting up certificates: %w", err)
	}
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: k.Secret}}
	})
	for _, object := range []client.Object{
		&corev1.Secret{}, &admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{},
	} {
		if err := c.Watch(source.Kind(own, object, one)); err != nil {
			return nil, fmt.Errorf("setting up certificates: %w", err)
		}
	}
	return k, nil
}

func newCache(mgr manager.Manager, namespace, configurations string) (cache.Cache, error) {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	secret := named(SecretName)
	secret.Namespaces = map[string]cache.Config{namespace: {}}
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: secret,
			&admissionv1.ValidatingWebhookConfiguration{}: named(configurations),
			&admissionv1.MutatingWebhookConfiguration{}:   named(configurations),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up certificates: %w", err)
	}
	if err := mgr.Add(everywhere{own}); err != nil {
		return nil, fmt.Errorf("setting up certificates: %w", err)
	}
	return own, nil
}

// everywhere is a cache that runs on every replica.
type everywhere struct{ cache.Cache }

func (everywhere) NeedLeaderElection() bool { return false }
