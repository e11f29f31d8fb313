package policycache

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// ObserverConfig is what an Observer needs of the world.
type ObserverConfig struct {
	// Kind finds the kind of system that a spec declares.
	Kind func(spec *v1alpha1.System) (system.Kind, bool)
	// Secret reads a Secret, from the apiserver: Secrets are kept in no cache.
	Secret func(ctx context.Context, key snapshot.Key) (*corev1.Secret, error)
	// ConfigMap reads a ConfigMap, from the apiserver.
	ConfigMap func(ctx context.Context, key snapshot.Key) (*corev1.ConfigMap, error)
	// FDBCLI is the path of FoundationDB's fdbcli; "": there is none.
	FDBCLI string
	// Workloads returns the Kubernetes API for a namespace, which writes as a ServiceAccount of it, or as Usher itself where that is "";
	// nil: there is none.
	Workloads func(namespace, serviceAccount string) (system.Workloads, error)
	// Now is the time by which evidence is dated; it must be the one by which it is judged. It may jump: how old something
	// is goes by the process's own clock, which does not.
	Now func() time.Time
	// Loopback lets sources name addresses of the machine itself, which in a pod are Usher's own.
	Loopback bool
	Log      *slog.Logger
	// Memory is how many bytes all evidence may take together; 0: DefaultMemory.
	Memory int64
}

// Observer keeps the evidence of all sources. Its methods may be called by several goroutines at once.
type Observer struct {
	config  ObserverConfig
	mu      sync.Mutex
	entries map[types.UID]*entry
	changed chan struct{} // something may be due earlier than it was
	budget  *budget
}

// NewObserver returns an Observer that knows no source.
func NewObserver(config ObserverConfig) *Observer {
	return &Observer{config: config, entries: map[types.UID]*entry{}, changed: make(chan struct{}, 1), budget: newBudget(config.Memory)}
}

// Track makes the Observer observe the source's system in the background while Run runs. It is called again whenever the
// source has changed.
func (k *Observer) Track(source *Source) {
	e := k.entry(source)
	e.mu.Lock()
	e.tracked = true
	e.mu.Unlock()
	k.wake()
}

// Forget ends what Track began.
func (k *Observer) Forget(uid types.UID) {
	k.mu.Lock()
	e := k.entries[uid]
	delete(k.entries, uid)
	k.mu.Unlock()
	if e != nil {
		e.close()
		forgetMetrics(e.newest())
	}
}

// Evidence returns what the system says about the source's members: observed for this epoch or a later one, and not
// longer than maxAge ago, nor before Outdate. It is never nil; where the system could not be asked, or not before ctx ended, Error says why.
func (k *Observer) Evidence(ctx context.Context, source *Source, epoch int64, maxAge time.Duration) *eviction.Evidence {
	e := k.entry(source)
	asked := time.Now()
	oldest := e.oldest(asked.Add(-maxAge))
	if e.touch(asked) {
		k.wake()
	}
	for {
		wanted := version{generation: e.newest().Generation, epoch: epoch}
		if known := e.known(wanted, oldest, time.Now()); known != nil {
			return known
		}
		if ctx.Err() != nil { // nothing is asked for a caller that does not wait any more
			return &eviction.Evidence{Observed: k.config.Now(), Epoch: epoch, Error: unansweredYet}
		}
		if answer := k.shareOrStart(ctx, e, wanted).await(ctx, wanted, oldest); answer != nil {
			return answer
		}
	}
}

// Outdate has no decision rest on what the source's system has said so far.
func (k *Observer) Outdate(uid types.UID) {
	k.mu.Lock()
	e := k.entries[uid]
	k.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outdated = time.Now()
}

// Known returns the newest evidence of the source's spec, however old, without asking for it; nil if there never was any.
func (k *Observer) Known(source *Source) *eviction.Evidence {
	e := k.entry(source)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lasts.generation < e.source.Generation {
		return nil
	}
	return e.last
}

// Prepare asks the source's system for a step. What it has said before decides nothing any more, once there is nothing left to do.
func (k *Observer) Prepare(ctx context.Context, source *Source, step eviction.Preparation) (eviction.Job, error) {
	ctx, end := k.call(ctx, source)
	defer end()
	open, err := k.connect(ctx, k.entry(source))
	if err != nil {
		return eviction.Job{}, err
	}
	job, err := open.Prepare(ctx, step)
	if err == nil && job.Progress == eviction.ProgressDone {
		k.Outdate(source.UID)
	}
	return job, err
}

// Undo asks the source's system to take a step back.
func (k *Observer) Undo(ctx context.Context, source *Source, step eviction.Preparation) (eviction.Undone, error) {
	ctx, end := k.call(ctx, source)
	defer end()
	open, err := k.connect(ctx, k.entry(source))
	if err != nil {
		return eviction.Undone{}, err
	}
	return open.Undo(ctx, step)
}

// call is the context of a call to the source's system that is no observation: it has as much time, and its memory counts as an observation's does, until
// it ends. It is not broken off for others: what a call has begun would not be known.
func (k *Observer) call(ctx context.Context, source *Source) (call context.Context, end func()) {
	ctx, cancel := context.WithTimeout(ctx, source.timeout())
	counted := &meter{budget: k.budget, namespace: source.Namespace, over: ctx.Done(), revoke: func(error) {}, drop: func() {}}
	return system.WithMeter(ctx, counted), func() {
		cancel()
		_ = counted.settle(0) // what it was refused, it was refused before
	}
}

// entry returns the source's entry, and shows it the source if that is newer than what it knows.
func (k *Observer) entry(source *Source) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[source.UID]
	if e == nil {
		e = &entry{source: source, shown: time.Now(), asked: time.Now()}
		k.entries[source.UID] = e
		return e
	}
	e.show(source)
	return e
}

func (k *Observer) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}
