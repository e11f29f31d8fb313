package evidence

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

// Config is what a Keeper needs of the world.
type Config struct {
	// Kind finds a kind of system by its name.
	Kind func(name string) (system.Kind, bool)
	// Secret reads a Secret, from the apiserver: Secrets are kept in no cache.
	Secret func(ctx context.Context, key snapshot.Key) (*corev1.Secret, error)
	// Members lists the pods of a policy as its system knows them.
	Members func(ctx context.Context, policy *v1alpha1.EvictionPolicy) ([]system.Member, error)
	// Now is the time by which evidence is dated; it must be the one by which it is judged. It may jump: how old something
	// is goes by the process's own clock, which does not.
	Now func() time.Time
	// Loopback lets policies name addresses of the machine itself, which in a pod are Usher's own.
	Loopback bool
	Log      *slog.Logger
	// Changed hears of a policy whose system says something new, if anybody cares. It must not block.
	Changed func(policy *v1alpha1.EvictionPolicy)
	// Uses are the facts that a policy's roles ask for: no others are kept. nil: all are.
	Uses func(policy *v1alpha1.EvictionPolicy) eviction.Uses
	// Memory is how many bytes all evidence may take together; 0: DefaultMemory.
	Memory int64
}

// Keeper keeps the evidence of all policies. Its methods may be called by several goroutines at once.
type Keeper struct {
	config  Config
	mu      sync.Mutex
	entries map[types.UID]*entry
	changed chan struct{} // something may be due earlier than it was
	budget  *budget
}

// New returns a Keeper that knows no policy.
func New(config Config) *Keeper {
	return &Keeper{config: config, entries: map[types.UID]*entry{}, changed: make(chan struct{}, 1), budget: newBudget(config.Memory)}
}

// Track makes the Keeper observe the policy's system in the background while Run runs. It is called again whenever the
// policy has changed.
func (k *Keeper) Track(policy *v1alpha1.EvictionPolicy) {
	e := k.entry(policy)
	e.mu.Lock()
	e.tracked = true
	e.mu.Unlock()
	k.wake()
}

// Forget ends what Track began.
func (k *Keeper) Forget(uid types.UID) {
	k.mu.Lock()
	e := k.entries[uid]
	delete(k.entries, uid)
	k.mu.Unlock()
	if e != nil {
		e.close()
		forgetMetrics(e.newest())
	}
}

// Evidence returns what the system says about the policy's members: observed for this epoch or a later one, and not
// longer than maxAge ago. It is never nil; where the system could not be asked, or not before ctx ended, Error says why.
func (k *Keeper) Evidence(ctx context.Context, policy *v1alpha1.EvictionPolicy, epoch int64, maxAge time.Duration) *eviction.Evidence {
	e := k.entry(policy)
	asked := time.Now()
	oldest := asked.Add(-maxAge)
	if e.ask(asked) {
		k.wake()
	}
	for {
		wanted := version{generation: e.newest().Generation, epoch: epoch}
		if known := e.known(wanted, oldest, time.Now()); known != nil {
			return known
		}
		if answer := k.join(ctx, e, wanted).await(ctx, wanted, oldest); answer != nil {
			return answer
		}
	}
}

// Known returns the newest evidence of the policy's spec, however old, without asking for it; nil if there never was any.
func (k *Keeper) Known(policy *v1alpha1.EvictionPolicy) *eviction.Evidence {
	e := k.entry(policy)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lasts.generation < e.policy.Generation {
		return nil
	}
	return e.last
}

// Prepare asks the policy's system for a step.
func (k *Keeper) Prepare(ctx context.Context, policy *v1alpha1.EvictionPolicy, step eviction.Preparation) (eviction.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, patienceOf(policy))
	defer cancel()
	open, err := k.connect(ctx, k.entry(policy))
	if err != nil {
		return eviction.Job{}, err
	}
	return open.Prepare(ctx, step)
}

// Undo asks the policy's system to take a step back.
func (k *Keeper) Undo(ctx context.Context, policy *v1alpha1.EvictionPolicy, step eviction.Preparation) (eviction.Undone, error) {
	ctx, cancel := context.WithTimeout(ctx, patienceOf(policy))
	defer cancel()
	open, err := k.connect(ctx, k.entry(policy))
	if err != nil {
		return eviction.Undone{}, err
	}
	return open.Undo(ctx, step)
}

// entry returns the policy's entry, and shows it the policy if that is newer than what it knows.
func (k *Keeper) entry(policy *v1alpha1.EvictionPolicy) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[policy.UID]
	if e == nil {
		e = &entry{policy: policy, shown: time.Now(), asked: time.Now()}
		k.entries[policy.UID] = e
		return e
	}
	e.show(policy)
	return e
}

func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}
