package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/controller/cordon"
	"usher.sh/usher/internal/controller/defaultresponder"
	"usher.sh/usher/internal/controller/evictionrequest"
	"usher.sh/usher/internal/controller/expiry"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/policycache"
)

// setUp collects the controllers that are added to it.
type setUp struct {
	ctrlmanager.Manager
	client client.Client
	cache  cache.Cache
	scheme *runtime.Scheme
	added  []controller.Controller
}

func (m *setUp) Add(r ctrlmanager.Runnable) error {
	c, ok := r.(controller.Controller)
	if !ok {
		return errors.New("something that is no controller was added")
	}
	m.added = append(m.added, c)
	return nil
}

func (m *setUp) GetClient() client.Client                       { return m.client }
func (m *setUp) GetAPIReader() client.Reader                    { return m.client }
func (m *setUp) GetScheme() *runtime.Scheme                     { return m.scheme }
func (m *setUp) GetCache() cache.Cache                          { return m.cache }
func (m *setUp) GetFieldIndexer() client.FieldIndexer           { return m.cache }
func (m *setUp) GetRESTMapper() meta.RESTMapper                 { return nil }
func (m *setUp) GetLogger() logr.Logger                         { return logr.Discard() }
func (m *setUp) GetEventRecorder(string) recorder.EventRecorder { return nil }
func (m *setUp) GetConfig() *rest.Config                        { return &rest.Config{Host: "http://apiserver"} }
func (m *setUp) GetHTTPClient() *http.Client                    { return http.DefaultClient }
func (m *setUp) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true)}
}

// slow finds nothing: in the namespace flood after a minute, in others at once.
type slow struct {
	client.Client
	asked chan client.ObjectKey // about others
}

func (c slow) Get(ctx context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if key.Namespace == "flood" {
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
	} else {
		c.asked <- key
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// TestControllersShareTheirWorkers: the objects of one namespace, however many, leave those of another their workers.
func TestControllersShareTheirWorkers(t *testing.T) {
	setups := []struct {
		name        string
		controllers int
		of          func(ctrl.Manager) []wiring.Controller
	}{
		{"evictionrequest", 3, func(m ctrl.Manager) []wiring.Controller {
			return evictionrequest.Controllers(m, evictionrequest.Options{Version: lifecycleapi.Usher, Now: time.Now})
		}},
		{"defaultresponder", 1, func(m ctrl.Manager) []wiring.Controller {
			return defaultresponder.Controllers(m, defaultresponder.Options{Version: lifecycleapi.Usher})
		}},
		{"cordon", 1, func(m ctrl.Manager) []wiring.Controller { return cordon.Controllers(m, cordon.Options{}) }},
		{"expiry", 1, func(m ctrl.Manager) []wiring.Controller { return expiry.Controllers(m, expiry.Options{Now: time.Now}) }},
	}
	for _, one := range setups {
		for i := range one.controllers {
			t.Run(fmt.Sprint(one.name, i), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { othersAreServed(t, one.of, i) })
			})
		}
	}
}

// othersAreServed runs the i-th controller of a setup with a hundred keys of one namespace, and one of another behind them.
func othersAreServed(t *testing.T, of func(ctrl.Manager) []wiring.Controller, i int) {
	t.Helper()
	scheme, err := newScheme(requests{version: lifecycleapi.Usher})
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan client.ObjectKey, 100)
	m := &setUp{client: slow{asked: asked}, cache: informers(t, scheme), scheme: scheme}
	if err := wiring.Add(t.Context(), m, &policycache.PolicyEvents{}, of(m)...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = m.added[i].Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for n := range 100 {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "flood", Name: fmt.Sprint(n)}})
		}
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "other", Name: "one"}})
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	go m.added[i].Start(ctx) //nolint:errcheck // it ends with the test
	select {
	case <-asked:
	case <-time.After(30 * time.Second):
		t.Error("the workers are with one namespace")
	}
}

func informers(t *testing.T, scheme *runtime.Scheme) cache.Cache {
	t.Helper()
	all := &informertest.FakeInformers{Scheme: scheme}
	for _, kind := range []client.Object{&api.EvictionRequest{}, &api.Eviction{}, &corev1.Pod{}, &corev1.Node{}, &v1alpha1.EvictionPolicy{}} {
		if _, err := all.GetInformer(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
