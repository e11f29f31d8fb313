package manager

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/cordon"
	"usher.sh/usher/internal/controller/defaultresponder"
	requestcontroller "usher.sh/usher/internal/controller/evictionrequest"
	"usher.sh/usher/internal/controller/expiry"
	"usher.sh/usher/internal/controller/lostnode"
	maintenancecontroller "usher.sh/usher/internal/controller/maintenance"
	membersetcontroller "usher.sh/usher/internal/controller/memberset"
	"usher.sh/usher/internal/controller/nodelock"
	"usher.sh/usher/internal/controller/policy"
	"usher.sh/usher/internal/controller/repair"
	replacementcontroller "usher.sh/usher/internal/controller/replacement"
	"usher.sh/usher/internal/controller/responder"
	"usher.sh/usher/internal/controller/taint"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
	lifecycleclient "usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/all"
	"usher.sh/usher/internal/webhook"
)

// parts is what several parts of the manager share.
type parts struct {
	gatherer *policycache.Gatherer
	act      *act.Governed
	news     *policycache.PolicyEvents
	self     string
	pods     *slimmer
	lost     lostnode.Options
}

func assemble(ctx context.Context, mgr ctrl.Manager, o Options, requests requests, pods *slimmer) error {
	p, err := newParts(ctx, mgr, o, requests, pods)
	if err != nil {
		return err
	}
	if err := register(policycache.Collectors(), act.Collectors()); err != nil {
		return err
	}
	if err := addEvidence(mgr, p); err != nil {
		return err
	}
	if err := addControllers(ctx, mgr, p, o, requests); err != nil {
		return err
	}
	if err := serveCertificates(mgr, o); err != nil {
		return err
	}
	serveAdmission(mgr, p, o, requests)
	return addChecks(mgr)
}

func newParts(ctx context.Context, mgr ctrl.Manager, o Options, requests requests, pods *slimmer) (*parts, error) {
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	self, err := act.Username(ctx, clientset) // what it does itself needs no request in its name
	if err != nil {
		return nil, err
	}
	roles, err := all.Roles()
	if err != nil {
		return nil, err
	}
	if err := policycache.SetupIndex(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	policyCache := policycache.New(policycache.NewWhole(mgr.GetCache(), mgr.GetAPIReader(), slimPod), all.Kind, roles)
	policyCache.Own = o.Namespace
	news := &policycache.PolicyEvents{}
	policyCache.Changed = news.Notify
	plain, err := newWorkloads(mgr, o, clientset, self)
	if err != nil {
		return nil, err
	}
	observer := policycache.NewObserver(policycache.ObserverConfig{
		Kind:      all.Kind,
		Secret:    secrets{clientset, self}.read,
		ConfigMap: secrets{clientset, self}.configMap,
		FDBCLI:    o.FDBCLI,
		Workloads: plain.of,
		Now:       o.Clock.Now,
		Loopback:  o.Loopback,
		Log:       o.Log,
		Memory:    o.EvidenceMemory,
	})
	writer := &act.Governed{
		Client: mgr.GetClient(), Writer: &act.Writer{Client: clientset}, Policies: policyCache, Observer: observer, Now: o.Clock.Now,
		Answered: news.Notify,
	}
	if requests.served {
		writer.Lifecycle = requests.version
	}
	gone := policycache.NewDeparted(o.Clock.Now)
	if err := gone.Watch(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	gatherer := &policycache.Gatherer{Policies: policyCache, Observer: observer, Live: mgr.GetAPIReader(), Now: o.Clock.Now, Gone: gone}
	if requests.served {
		gatherer.Holds = holds{observe.Holds{Client: mgr.GetClient(), Own: o.Namespace}}.of
	}
	lost := lostnode.Options{
		Act: &act.Fences{Client: mgr.GetClient(), Now: o.Clock.Now}, Secret: secrets{clientset, self}.read,
		Namespace: o.Namespace, Loopback: o.Loopback, Now: o.Clock.Now, Self: self,
	}
	return &parts{gatherer, writer, news, self, pods, lost}, nil
}

func addControllers(ctx context.Context, mgr ctrl.Manager, p *parts, o Options, requests requests) error {
	all := policy.Controllers(mgr, policy.Options{Gatherer: p.gatherer, Act: p.act, Requests: requests.served})
	all = append(all, lostnode.Controllers(mgr, p.lost)...)
	all = append(all, replacementcontroller.Controllers(mgr, replacementcontroller.Options{
		Act: &act.Replacements{Client: mgr.GetClient()}, Governed: p.act, Targets: &act.Targets{As: as(mgr.GetConfig()), Mapper: mgr.GetRESTMapper()},
		Gatherer: p.gatherer, Self: p.self, Now: o.Clock.Now,
	})...)
	all = append(all, membersetcontroller.Controller(mgr, membersetcontroller.Options{
		Act: &act.Sets{Client: mgr.GetClient(), Observer: p.gatherer.Observer}, Members: &act.Replacements{Client: mgr.GetClient()},
		Gatherer: p.gatherer, Self: p.self, Requests: requests.served, Now: o.Clock.Now,
	}))
	all = append(all, repair.Controller(mgr, repair.Options{Act: &act.Replacements{Client: mgr.GetClient()}, Gatherer: p.gatherer, Now: o.Clock.Now}))
	if requests.served {
		all = slices.Concat(all,
			responder.Controllers(mgr, responder.Options{Gatherer: p.gatherer, Act: p.act}),
			cordon.Controllers(mgr, cordon.Options{Gatherer: p.gatherer, Act: p.act}),
			taint.Controllers(mgr, taint.Options{Gatherer: p.gatherer, Act: p.act}),
			requestcontroller.Controllers(mgr, requestcontroller.Options{
				Version: requests.version, Governed: evictionrequest.Governed, Now: o.Clock.Now, Alone: o.EvictionController == EvictionControllerAlways,
			}),
			defaultresponder.Controllers(mgr, defaultresponder.Options{Version: requests.version, Writer: p.act.Writer}),
			expiry.Controllers(mgr, expiry.Options{Now: p.gatherer.Now, Act: p.act}),
			[]wiring.Controller{nodelock.Controller(mgr, nodelock.Options{
				Act: &act.NodeLocks{Client: mgr.GetClient(), As: as(mgr.GetConfig())}, Governed: p.act, Gatherer: p.gatherer, Self: p.self, Now: o.Clock.Now,
			})},
		)
	}
	maintenance, drains := maintenancecontroller.Controller(mgr, maintenanceOptions(mgr, p, o))
	if err := mgr.Add(drains); err != nil {
		return fmt.Errorf("adding the drains of maintenances: %w", err)
	}
	notices, err := newNotices(mgr, p, o)
	if err != nil {
		return err
	}
	return wiring.Add(ctx, mgr, p.news, slices.Concat(all, notices, []wiring.Controller{maintenance})...)
}

// maintenanceOptions has hooks called as systems are: not at the addresses of the manager itself, or of the machine's surroundings.
func maintenanceOptions(mgr ctrl.Manager, p *parts, o Options) maintenancecontroller.Options {
	host, err := os.Hostname()
	if err != nil {
		host = "usher-manager"
	}
	hooks := system.Access{Timeout: hookConnect, Loopback: o.Loopback}
	return maintenancecontroller.Options{
		Act: &act.Maintenance{Client: mgr.GetClient(), Hooks: hooks.HTTP(), Now: o.Clock.Now}, Kube: p.act.Writer.Client,
		Replacements: &act.Replacements{Client: mgr.GetClient()}, Policies: p.gatherer.Policies,
		Evictions: lifecycleclient.New(mgr.GetConfig()), Self: snapshot.Drainer{By: host, PID: os.Getpid()}, Now: o.Clock.Now, Log: o.Log,
		Holds: observe.Holds{Client: mgr.GetClient(), Own: o.Namespace},
	}
}

// hookConnect is how long connecting to a hook may take.
const hookConnect = 10 * time.Second

func serveAdmission(mgr ctrl.Manager, p *parts, o Options, requests requests) {
	options := webhook.Options{
		Facts: p.gatherer, Writer: p.act, Reader: mgr.GetClient(), Events: mgr.GetEventRecorder("usher-webhook"), Log: o.Log,
		Compile: p.gatherer.Policies.Check, Kind: all.Kind, Declare: p.gatherer.Policies.Declared, Self: []string{p.self}, Namespace: o.Namespace,
		Reviewer: reviewer{p.act.Writer.Client}, Now: o.Clock.Now,
	}
	if requests.version == lifecycleapi.Kubernetes && requests.served {
		options.Responder = evictionrequest.Responder
	}
	webhook.Setup(mgr.GetWebhookServer(), options)
}

func register(sets ...[]prometheus.Collector) error {
	for _, set := range sets {
		for _, collector := range set {
			if err := metrics.Registry.Register(collector); err != nil {
				return fmt.Errorf("registering metrics: %w", err)
			}
		}
	}
	return nil
}
