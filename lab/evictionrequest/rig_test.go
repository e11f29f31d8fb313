package evictionrequest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	apilifecycle "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/defaultresponder"
	requestcontroller "usher.sh/usher/internal/controller/evictionrequest"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/lab/testlab"
)

// rig is a namespace, and access to it under the group that the lab serves.
type rig struct {
	lab     *testlab.Lab
	ns      string
	version schema.GroupVersion
	scheme  *runtime.Scheme
	client  client.Client
	rest    rest.Interface // of the group
}

func newRig(t *testing.T, l *testlab.Lab) *rig {
	t.Helper()
	version, served, err := apilifecycle.Discover(t.Context(), l.Client().Discovery())
	if err != nil || !served {
		t.Fatalf("discovering: served %v, %v", served, err)
	}
	r := &rig{lab: l, ns: l.Namespace(t), version: version, scheme: runtime.NewScheme()}
	check(t, corev1.AddToScheme(r.scheme))
	check(t, policyv1.AddToScheme(r.scheme))
	check(t, eventsv1.AddToScheme(r.scheme))
	apilifecycle.AddToScheme(r.scheme, version)
	r.client, err = client.New(l.RESTConfig(), client.Options{Scheme: r.scheme})
	check(t, err)
	web, err := rest.HTTPClientFor(l.RESTConfig())
	check(t, err)
	r.rest = r.restClient(t, web)
	return r
}

func (r *rig) restClient(t *testing.T, web *http.Client) rest.Interface {
	t.Helper()
	c, err := apiutil.RESTClientForGVK(r.version.WithKind("Eviction"), true, false, r.lab.RESTConfig(), serializer.NewCodecFactory(r.scheme), web)
	check(t, err)
	return c
}

// agent names the requests of the controllers of one test.
func (r *rig) agent() string { return "controllers-of-" + r.ns }

// needed is all that the two controllers may do.
var needed = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
	{APIGroups: groups, Resources: []string{"evictionrequests", "evictions"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: groups, Resources: []string{"evictions"}, Verbs: []string{"create", "patch"}},
	{APIGroups: groups, Resources: []string{"evictionrequests/status", "evictions/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
}

var groups = []string{apilifecycle.Kubernetes.Group, apilifecycle.Usher.Group}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start runs the controllers in this process until stop is called or the test ends.
func (r *rig) start(t *testing.T) (stop func()) {
	t.Helper()
	access, _ := r.lab.As(t, needed)
	access.UserAgent = r.agent()
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme:     r.scheme,
		Logger:     logr.FromSlogHandler(slog.NewTextHandler(t.Output(), nil)),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	check(t, err)
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	check(t, err)
	check(t, wiring.Add(t.Context(), mgr, nil, slices.Concat(
		requestcontroller.Controllers(mgr, requestcontroller.Options{Version: r.version, Governed: evictionrequest.Governed, Now: time.Now}),
		defaultresponder.Controllers(mgr, defaultresponder.Options{Version: r.version, Writer: &act.Writer{Client: clientset}}),
	)...))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager ended: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// installCRDs applies the files that a cluster without the API gets.
func installCRDs(t *testing.T, l *testlab.Lab) {
	t.Helper()
	if _, served, err := apilifecycle.Discover(t.Context(), l.Client().Discovery()); served || err != nil {
		t.Fatalf("before installing: served %v, %v", served, err)
	}
	c, err := client.New(l.RESTConfig(), client.Options{Scheme: clientgoscheme.Scheme})
	check(t, err)
	for _, name := range []string{"evictionrequests", "evictions"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "lifecycle.usher.sh_"+name+".yaml"))
		check(t, err)
		crd := &unstructured.Unstructured{}
		check(t, yaml.UnmarshalStrict(text, &crd.Object))
		check(t, c.Create(t.Context(), crd))
	}
	waitServed(t, l)
}

// waitServed asks until discovery names both kinds, which it does a moment after the definitions are established. That
// moment cannot be watched.
func waitServed(t *testing.T, l *testlab.Lab) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, served, err := apilifecycle.Discover(ctx, l.Client().Discovery())
		return served, err
	})
	check(t, err)
}
