package policycache

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/rest"
)

// stage is a world with systems that answer as the test says.
type stage struct {
	mu      sync.Mutex
	secrets map[string]*corev1.Secret
	systems map[string]*fakeSystem // by the policy's first endpoint
	opened  []system.Access
}

// fakeSystem takes its time, then answers or fails.
type fakeSystem struct {
	takes   time.Duration
	ignores bool // the end of the context
	fails   error
	fault   bool
	bytes   int64 // that a call other than Observe takes
	job     eviction.Job

	mu      sync.Mutex
	asked   int
	closed  int
	resumed system.System
}

func (s *fakeSystem) resumes() system.System {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed
}

func (s *fakeSystem) Resume(before system.System) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed = before
}

func (s *fakeSystem) Observe(ctx context.Context, _ []system.Member) (*eviction.Evidence, error) {
	s.mu.Lock()
	s.asked++
	takes, ignores, fails, fault := s.takes, s.ignores, s.fails, s.fault
	s.mu.Unlock()
	if fault {
		panic("index out of range")
	}
	late := ctx.Done()
	if ignores {
		late = nil
	}
	select {
	case <-time.After(takes):
	case <-late:
		return nil, ctx.Err()
	}
	if fails != nil {
		return nil, fails
	}
	return &eviction.Evidence{Summary: "well"}, nil
}

func (s *fakeSystem) Prepare(ctx context.Context, _ eviction.Preparation) (eviction.Job, error) {
	return s.job, cmp.Or(system.Take(ctx, s.bytes), s.fails)
}

func (s *fakeSystem) Undo(ctx context.Context, _ eviction.Preparation) (eviction.Undone, error) {
	err := cmp.Or(system.Take(ctx, s.bytes), s.fails)
	return eviction.Undone{Done: err == nil}, err
}

func (s *fakeSystem) Listed(ctx context.Context, _ system.Member, _ *v1alpha1.MemberRegistration) (system.Listing, error) {
	return system.Listing{}, system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Leave(ctx context.Context, _ system.Member, _ *v1alpha1.MemberRegistration) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Join(ctx context.Context, _ system.Member, _ *v1alpha1.MemberRegistration) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) List(ctx context.Context) (memberset.Listing, error) {
	return memberset.Listing{}, system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Admit(ctx context.Context, _ string, _ []string) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Expel(ctx context.Context, _ *v1alpha1.MemberRegistration) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Contents(ctx context.Context, _ []system.Member) (memberset.Listing, error) {
	return memberset.Listing{}, system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Form(ctx context.Context, _ []system.Member) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Lead(ctx context.Context) (string, error) { return "", system.Take(ctx, s.bytes) }

func (s *fakeSystem) Empty(ctx context.Context, _ system.Member) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Refill(ctx context.Context, _ system.Member) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Maintain(ctx context.Context, _ string, _ time.Duration) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) EndMaintenance(ctx context.Context, _ string) (string, error) {
	return "", system.Take(ctx, s.bytes)
}

func (s *fakeSystem) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

func (s *fakeSystem) set(change func(*fakeSystem)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *fakeSystem) count() (asked, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.closed
}

var errDown = errors.New("http://db:8529 refuses the connection")

func newStage() *stage {
	return &stage{secrets: map[string]*corev1.Secret{}, systems: map[string]*fakeSystem{}}
}

func (w *stage) observer() *Observer {
	return NewObserver(ObserverConfig{
		Kind:   w.kind,
		Secret: w.secret,
		Now:    time.Now,
		Log:    slog.New(slog.DiscardHandler),
	})
}

func (w *stage) kind(spec *v1alpha1.System) (system.Kind, bool) {
	if spec.HTTP == nil {
		return system.Kind{}, false
	}
	kind := rest.Kind()
	kind.Open = w.open
	return kind, true
}

func (w *stage) open(_ *v1alpha1.System, access system.Access) (system.System, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened = append(w.opened, access)
	return w.systems[access.Endpoints[0]], nil
}

func (w *stage) secret(_ context.Context, key snapshot.Key) (*corev1.Secret, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if secret, ok := w.secrets[key.Name]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
}

func (w *stage) opens() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.opened)
}

func (w *stage) putSecret(name, version string, data map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	w.secrets[name] = secret
}

func (w *stage) policy(name string, s *fakeSystem) *v1alpha1.EvictionPolicy {
	w.systems["http://"+name] = s
	return &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID(name), Generation: 1},
		Spec: v1alpha1.EvictionPolicySpec{System: v1alpha1.System{
			HTTP: &v1alpha1.HTTP{Access: v1alpha1.Access{Endpoints: []string{"http://" + name}}},
		}},
	}
}

// of is the policy, without members, as what declares a system.
func of(p *v1alpha1.EvictionPolicy) *Source {
	p = p.DeepCopy()
	return &Source{
		UID: p.UID, Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, Epoch: p.Status.Epoch,
		System: &p.Spec.System, Limits: p.Spec.Evidence,
		Members: func(context.Context) ([]system.Member, error) { return nil, nil },
	}
}

// run runs the observer's background until the test ends; to be called within a bubble.
func run(t *testing.T, k *Observer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
