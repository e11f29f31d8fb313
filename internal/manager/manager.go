package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"usher.sh/usher/internal/observe"
)

// Lease is the name of the lease by which replicas agree who leads. It is in the manager's namespace.
const Lease = "usher-manager"

// CertificatesFromSecret makes the manager issue, keep and renew its serving certificate itself, in a Secret.
const CertificatesFromSecret = "secret"

// Values of Options.EvictionController.
const (
	// EvictionControllerAuto stands down while another controller writes Evictions.
	EvictionControllerAuto = "auto"
	// EvictionControllerAlways runs the controller whatever else writes Evictions.
	EvictionControllerAlways = "always"
)

// gracePeriod is how long answers and steps that are under way may take when the process is asked to end.
const gracePeriod = 20 * time.Second

// Options says how the manager runs.
type Options struct {
	Config *rest.Config
	// Clock must be wrapped around the transport of Config: all that is decided goes by the apiserver's time.
	Clock *observe.Clock
	// Namespace is the manager's own: its lease and its certificate are there.
	Namespace      string
	LeaderElection bool
	// The addresses to listen on, "host:port"; metrics and health are not served where theirs is "0".
	MetricsAddress string
	HealthAddress  string
	WebhookAddress string
	// NoticesAddress is where alerts are taken; "": notices are neither taken nor followed.
	NoticesAddress string
	// ClusterAPI: Machines of Cluster API that are being deleted are notices, where the cluster has Machines.
	ClusterAPI bool
	// Certificates is CertificatesFromSecret, or a directory with tls.crt and tls.key.
	Certificates string
	// EvictionController says when to turn EvictionRequests into Evictions.
	EvictionController string
	// FDBCLI is the path of FoundationDB's fdbcli; "": policies with system foundationdb cannot ask it.
	FDBCLI string
	// Loopback lets policies name addresses of the machine that the manager runs on; in a pod these are its own.
	Loopback bool
	// EvidenceMemory is how many bytes all that systems say may take together; 0: evidence.DefaultMemory.
	EvidenceMemory int64
	Log            *slog.Logger
}

// Run runs the manager until ctx ends, which is nil, or until it cannot go on. It also ends, without an error, when the
// cluster serves eviction requests in another way than at the start: its supervisor starts it again.
func Run(ctx context.Context, o Options) error {
	paceGarbage()
	logger := logr.FromSlogHandler(o.Log.Handler())
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	asked, err := discovery.NewDiscoveryClientForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	requests, err := discover(ctx, asked)
	if err != nil {
		return err
	}
	pods := &slimmer{}
	mgr, err := newManager(o, requests, pods)
	if err != nil {
		return err
	}
	if err := countPolicies(ctx, mgr.GetAPIReader(), &pods.policies); err != nil {
		return err
	}
	if err := assemble(ctx, mgr, o, requests, pods); err != nil {
		return err
	}
	if err := mgr.Add(everywhere(func(ctx context.Context) error { return watchDiscovery(ctx, asked, requests) })); err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	o.Log.Info("starting", "namespace", o.Namespace, "requests", requests.String())
	err = mgr.Start(ctx)
	if errors.Is(err, errAnotherAPI) {
		o.Log.Info("ending to be started again", "why", err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

func newManager(o Options, requests requests, pods *slimmer) (ctrl.Manager, error) {
	scheme, err := newScheme(requests)
	if err != nil {
		return nil, err
	}
	grace := gracePeriod
	server, err := newServer(o)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(o.Config, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        logr.FromSlogHandler(o.Log.Handler()),
		Cache:                         cacheOptions(pods, requests, o),
		Client:                        clientOptions(),
		WebhookServer:                 server,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              Lease,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	return mgr, nil
}

// everywhere is a part that runs on every replica, leader or not.
type everywhere func(context.Context) error

// Start implements manager.Runnable.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

var _ ctrlmanager.LeaderElectionRunnable = everywhere(nil)
