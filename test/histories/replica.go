package histories

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	lifecycleapi "usher.sh/usher/api/lifecycle"
	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/controller/cordon"
	"usher.sh/usher/internal/controller/defaultresponder"
	requestcontroller "usher.sh/usher/internal/controller/evictionrequest"
	"usher.sh/usher/internal/controller/expiry"
	"usher.sh/usher/internal/controller/memberset"
	"usher.sh/usher/internal/controller/nodelock"
	"usher.sh/usher/internal/controller/policy"
	"usher.sh/usher/internal/controller/repair"
	"usher.sh/usher/internal/controller/replacement"
	"usher.sh/usher/internal/controller/responder"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/share"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system/all"
	"usher.sh/usher/internal/webhook"
)

// self is the user that Usher's processes are.
const self = "system:serviceaccount:usher:usher-manager"

// replica is one life of one process of Usher.
type replica struct {
	world       *world
	name        string
	dead        bool
	leads       bool
	ahead       time.Duration // of its clock
	cache       *cache
	gatherer    *policycache.Gatherer
	act         *act.Governed
	hooks       map[string]http.Handler
	controllers []wiring.Controller
	reconcilers map[string]reconcile.Func // by the controller's name
	queue       map[work]time.Time
	running     map[work]bool
	again       map[work]bool                             // came in while it ran
	news        []*v1alpha1.EvictionPolicy                // policies whose systems say something new
	looked      map[work]time.Time                        // when a key was looked at last
	failed      map[work]time.Time                        // when a call for a key was lost last, or met a conflict
	refused     map[string]time.Time                      // when the last eviction of a pod failed: it is tried again after a pause, or at an event
	denied      map[work]time.Time                        // when the deletion of a pod was refused to a controller last for a key: it is tried again after a pause
	origins     map[uintptr]string                        // of evidence: whose word it is
	evidence    map[snapshot.Key]*eviction.Evidence       // by which policies were reconciled last
	locksBy     map[snapshot.Key]*v1alpha1.EvictionPolicy // by which nodes were looked at last
	look        *repairLook                               // the look of the repair controller that goes on; nil: none
	outdated    bool                                      // what the system had said was too old to count at the last such look
	stop        context.CancelFunc
	ctx         context.Context //nolint:containedctx // the life of a process
}

// start begins a life: nothing is remembered of former ones.
func (w *world) start(name string) (*replica, error) {
	w.lives++
	r := &replica{
		world: w, name: fmt.Sprintf("%s.%d", name, w.lives), cache: newCache(w.store), hooks: map[string]http.Handler{},
		queue: map[work]time.Time{}, running: map[work]bool{}, again: map[work]bool{},
		looked: map[work]time.Time{}, failed: map[work]time.Time{}, refused: map[string]time.Time{}, denied: map[work]time.Time{}, origins: map[uintptr]string{}, evidence: map[snapshot.Key]*eviction.Evidence{}, locksBy: map[snapshot.Key]*v1alpha1.EvictionPolicy{},
	}
	r.ctx, r.stop = context.WithCancel(context.WithValue(logr.NewContext(w.ctx, logr.Discard()), replicaKey, r))
	return r, r.assemble()
}

func (r *replica) now() time.Time { return time.Now().Add(r.ahead) }

// assemble does what the manager's own does.
func (r *replica) assemble() error {
	if err := policycache.SetupIndex(r.ctx, r.cache); err != nil {
		return err
	}
	policies := policycache.New(r.cache, r.kind, roles)
	policies.Compile, policies.Changed = compile, r.changed
	observer := policycache.NewObserver(policycache.ObserverConfig{Kind: r.kind, Secret: r.secret, ConfigMap: r.configMap, Workloads: r.workloads, Now: r.now, Log: slog.New(failOnError{r})})
	connection := &connection{replica: r}
	r.act = &act.Governed{
		Client: connection, Writer: &act.Writer{Client: clientset}, Policies: policies, Observer: observer,
		Lifecycle: lifecycleapi.Usher, Now: r.now, Answered: r.changed,
	}
	r.gatherer = &policycache.Gatherer{Policies: policies, Observer: observer, Live: &liveReader{replica: r}, Now: r.now}
	webhook.Setup(r, webhook.Options{
		Facts: checkedFacts{r.gatherer, r}, Writer: r.act, Reader: connection, Events: discardEvents{}, Log: slog.New(slog.DiscardHandler),
		Compile: policies.Check, Kind: all.Kind, Declare: policies.Declared, Self: []string{self}, Namespace: "usher",
	})
	return r.addControllers(connection)
}

func (r *replica) addControllers(c *connection) error {
	r.controllers = r.declare(&process{replica: r, client: c})
	for _, index := range wiring.Indexes(r.controllers) {
		if err := r.cache.IndexField(r.ctx, index.Object, index.Field, index.Values); err != nil {
			return err
		}
	}
	r.reconcilers = map[string]reconcile.Func{}
	for i := range r.controllers {
		c := &r.controllers[i]
		r.reconcilers[c.Name] = c.Reconcile
		if c.WorkersEach > 0 {
			r.reconcilers[c.Name] = r.workers(c.Name, c.WorkersEach).Reconciler(c.Reconcile)
		}
	}
	return nil
}

// declare lists the controllers that the manager has, but for that of taints: nodes have none here.
func (r *replica) declare(mgr *process) []wiring.Controller {
	all := slices.Concat(
		policy.Controllers(mgr, policy.Options{Gatherer: r.gatherer, Act: r.act, Requests: true}),
		responder.Controllers(mgr, responder.Options{Gatherer: r.gatherer, Act: r.act}),
		requestcontroller.Controllers(mgr, requestcontroller.Options{Version: lifecycleapi.Usher, Governed: evictionrequest.Governed, Now: time.Now}),
		defaultresponder.Controllers(mgr, defaultresponder.Options{Version: lifecycleapi.Usher, Writer: r.act.Writer}),
		cordon.Controllers(mgr, cordon.Options{Gatherer: r.gatherer, Act: r.act}),
		expiry.Controllers(mgr, expiry.Options{Now: r.now, Act: r.act}),
		replacement.Controllers(mgr, replacement.Options{
			Act: &act.Replacements{Client: mgr.client}, Governed: r.act, Targets: &act.Targets{As: r.as, Mapper: mapper}, Gatherer: r.gatherer, Self: self, Now: r.now,
		}),
		[]wiring.Controller{
			repair.Controller(mgr, repair.Options{Act: &act.Replacements{Client: mgr.client}, Gatherer: r.gatherer, Now: r.now}),
			nodelock.Controller(mgr, nodelock.Options{Act: &act.NodeLocks{Client: mgr.client, As: r.asLocker}, Governed: r.act, Gatherer: r.gatherer, Self: self, Now: r.now}),
		},
	)
	if r.world != nil && r.world.setSite() == nil { // it would look at each request, for a set that is not there
		return all
	}
	sets := &act.Sets{Client: mgr.client}
	if r.gatherer != nil {
		sets.Observer = r.gatherer.Observer
	}
	return append(all, memberset.Controller(mgr, memberset.Options{
		Act: sets, Members: &act.Replacements{Client: mgr.client}, Gatherer: r.gatherer, Self: self, Requests: true, Now: r.now,
	}))
}

// workers puts keys that had to wait for one back into the replica's own queue.
func (r *replica) workers(controller string, each int) *share.Workers {
	workers := share.NewWorkers(each)
	workers.Into(queueOf{add: func(key reconcile.Request) {
		r.world.mu.Lock()
		defer r.world.mu.Unlock()
		r.enqueue(controller, key.NamespacedName)
	}})
	return workers
}

// queueOf is as much of a controller's queue as share.Workers needs.
type queueOf struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	add func(reconcile.Request)
}

func (q queueOf) Add(key reconcile.Request) { q.add(key) }

// Register implements webhook.Registrar.
func (r *replica) Register(path string, hook http.Handler) { r.hooks[path] = hook }

func (r *replica) secret(_ context.Context, key snapshot.Key) (*corev1.Secret, error) {
	return &corev1.Secret{
		ObjectMeta: ctrl.ObjectMeta{Name: key.Name, Namespace: key.Namespace, ResourceVersion: "1"},
		Data:       map[string][]byte{"token": []byte("secret")},
	}, nil
}

// process is the manager of a replica, as far as controllers use it to set themselves up.
type process struct {
	manager.Manager
	replica *replica
	client  client.Client
}

func (p *process) GetClient() client.Client    { return p.client }
func (p *process) GetAPIReader() client.Reader { return &liveReader{replica: p.replica} }
func (p *process) GetLogger() logr.Logger      { return logr.Discard() }
func (p *process) GetEventRecorder(string) recorder.EventRecorder {
	return discardEvents{replica: p.replica}
}

// discardEvents takes events; of those that say that Usher has given up, or leaves what may be another client's, it takes note.
type discardEvents struct {
	events.AnnotatedEventRecorder
	replica *replica
}

func (s discardEvents) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	if s.replica != nil && s.replica.world.locks != nil && reason == "NodeLocksLeft" {
		s.replica.world.locks.givenUp = true
	}
	if s.replica != nil && (reason == "UndoGivenUp" || reason == act.NotUndone) {
		s.replica.world.givenUp = s.replica.world.givenUp || reason == "UndoGivenUp"
		s.replica.world.left = append(s.replica.world.left, fmt.Sprintf(note, args...))
		s.replica.world.note("%s says: "+note, append([]any{s.replica.name}, args...)...)
	}
}

// failOnError fails the history when Usher finds a fault in itself.
type failOnError struct{ replica *replica }

func (a failOnError) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}
func (a failOnError) WithAttrs([]slog.Attr) slog.Handler { return a }
func (a failOnError) WithGroup(string) slog.Handler      { return a }
func (a failOnError) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(attr slog.Attr) bool { text += " " + attr.String(); return true })
	a.replica.world.fail("FAULT", "%s: %s", a.replica.name, text)
	return nil
}

// Evictions go through one clientset for all replicas of all histories; whose they are is in the context.
var (
	restConfig = &rest.Config{Host: "http://apiserver", QPS: -1}
	restClient = &http.Client{Transport: toApiserver{}}
	clientset  = newClientset()
)

func newClientset() kubernetes.Interface {
	c, err := kubernetes.NewForConfigAndClient(restConfig, restClient)
	if err != nil {
		panic(err) // only a mistake in this file can make it
	}
	return c
}
