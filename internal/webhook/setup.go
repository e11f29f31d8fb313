package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/share"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// Facts is what is known, as policycache.Gatherer gathers it.
type Facts interface {
	Pod(ctx context.Context, key snapshot.Key) (pod *corev1.Pod, fresh bool, err error)
	FreshPod(ctx context.Context, key snapshot.Key) (*corev1.Pod, error)
	Departed(key snapshot.Key) *corev1.Pod
	// Guarded reports whether a verdict on a pod takes more than the pod.
	Guarded(ctx context.Context, pod *corev1.Pod) (bool, error)
	// Claimed reports whether policies in mode Enforce claim a pod, and whether policies in mode Audit do.
	Claimed(ctx context.Context, pod *corev1.Pod) (enforced, audited bool, err error)
	Input(ctx context.Context, of policycache.Subject) (eviction.Input, error)
	// Refresh has the policy be a later version than the one at which a write was refused.
	Refresh(ctx context.Context, policy snapshot.Key, refused string) error
	// Ungoverned reports whether, by a read past the cache, the namespace has neither a policy nor the label of one.
	Ungoverned(ctx context.Context, namespace string) (bool, error)
}

// Writer carries out actions in their order, as act.Governed does, and returns the one that ended it, if one did.
type Writer interface {
	DoAll(ctx context.Context, actions []eviction.Action) (eviction.Action, answers.Answer)
}

// Recorder records events, as events.EventRecorder does.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Registrar serves handlers under paths, as webhook.Server does.
type Registrar interface {
	Register(path string, hook http.Handler)
}

// Options is what admission needs.
type Options struct {
	Facts  Facts
	Writer Writer
	// Reader reads namespaces and policies.
	Reader client.Reader
	Events Recorder
	Log    *slog.Logger
	// Compile checks a policy's spec.
	Compile func(spec *v1alpha1.EvictionPolicySpec) []eviction.Problem
	// Kind finds the kind of system that a policy's spec declares.
	Kind func(spec *v1alpha1.System) (system.Kind, bool)
	// Declare returns a policy as verdicts see it; policycache.Cache does.
	Declare func(policy *v1alpha1.EvictionPolicy) eviction.Declared
	// Reviewer says what the writers of NodeMaintenances and ReplacementRequests may do.
	Reviewer Reviewer
	Now      func() time.Time
	// Self are the users that Usher's own processes are.
	Self []string
	// Namespace is Usher's own: nothing in it can be governed.
	Namespace string
	// Responder is written into spec.evictionResponders of governed pods; "" where pods have no such field.
	Responder string
}

// The paths, as config/webhook names them.
const (
	PathLeave  = "/leave"  // CREATE of pods/eviction and DELETE of pods
	PathAudit  = "/audit"  // the same, where policies are in mode Audit
	PathCreate = "/create" // CREATE of pods
	PathPolicy = "/policy" // CREATE and UPDATE of evictionpolicies

	PathMaintenance = "/maintenance" // CREATE and UPDATE of nodemaintenances
	PathReplacement = "/replacement" // CREATE and UPDATE of replacementrequests
)

// Setup serves the answers.
func Setup(server Registrar, o Options) {
	room := newLarge()
	leave := disruptionHandler{o, share.New(verdictsEach), share.New(verdictsEach)}
	server.Register(PathLeave, timed(room.shared(&admission.Webhook{Handler: &leave}, tooMany)))
	server.Register(PathAudit, timed(room.shared(&admission.Webhook{Handler: &auditHandler{leave}}, unaudited)))
	server.Register(PathCreate, timed(room.shared(&admission.Webhook{Handler: &creationHandler{o}}, unmarked)))
	server.Register(PathPolicy, timed(room.shared(&admission.Webhook{Handler: &policyHandler{o}}, tooMany)))
	server.Register(PathMaintenance, timed(room.shared(&admission.Webhook{Handler: &maintenanceHandler{o}}, tooMany)))
	server.Register(PathReplacement, timed(room.shared(&admission.Webhook{Handler: &replacementHandler{o}}, tooMany)))
}

const (
	// defaultPatience is the apiserver's where it does not say.
	defaultPatience = 10 * time.Second
	// margin is what the answer needs to get back in time.
	margin = time.Second
)

// timed ends the work on an answer before the apiserver stops waiting for it, which it announces in the URL. No context ends the read of
// a body, so that has a deadline of its own: in HTTP/1.1 it is the connection's, from which the server takes it once the body is read.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until := time.Now().Add(patience(r.URL.Query().Get("timeout")))
		ctx, cancel := context.WithDeadline(r.Context(), until)
		defer cancel()
		_ = http.NewResponseController(w).SetReadDeadline(until) // it fails where there is no connection, as in tests
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func patience(announced string) time.Duration {
	given, err := time.ParseDuration(announced)
	if err != nil || given <= 0 || given > 30*time.Second {
		given = defaultPatience
	}
	return max(given-margin, given/2)
}
