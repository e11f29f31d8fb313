package observe

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/snapshot"
)

// Options say what to observe. The zero value observes everything that pods on any
// node need.
type Options struct {
	// Nodes are those whose pods decide what else is read than pods, nodes and
	// budgets. Nil: every node.
	Nodes []string
	// Only: the nodes of Nodes are watched, each by itself where they are few, and nothing else is read.
	Only bool
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Evictions reads what concerns governed pods; nil: that is not read.
	Evictions *client.Client
}

// Observer keeps one snapshot of a cluster up to date. It implements runner.Source.
type Observer struct {
	client    kubernetes.Interface
	evictions *client.Client // nil: not read
	now       func() time.Time
	scope     map[string]bool // nil: every node
	changed   chan struct{}
	steps     chan struct{} // something happened that Start waits for

	ctx    context.Context //nolint:containedctx // the life of the reflectors that pods ask for later
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	cluster  *snapshot.Cluster
	feeds    map[question]*feed
	answered bool      // the apiserver has answered at least once
	begun    bool      // the first reading has ended
	reading  time.Time // since when a feed is read that was started since; zero while none is
}

// Start watches until ctx ends. It returns once everything that is needed has been
// read, or with an error that says what is wrong and what to do: the apiserver
// cannot be reached (within 5 s), or pods, nodes or budgets may not be read. What else
// cannot be read is a gap in the snapshot.
func Start(ctx context.Context, kube kubernetes.Interface, options Options) (*Observer, error) {
	o := &Observer{
		client:    kube,
		evictions: options.Evictions,
		now:       options.Now,
		scope:     set(options.Nodes),
		changed:   make(chan struct{}, 1),
		steps:     make(chan struct{}, 1),
		cluster:   snapshot.NewCluster(),
		feeds:     map[question]*feed{},
	}
	if o.now == nil {
		o.now = time.Now
	}
	o.ctx, o.cancel = context.WithCancel(ctx)
	o.begin(options) //nolint:contextcheck // the observer's own context, derived above
	if err := o.awaitFirst(ctx); err != nil {
		o.Stop()
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun = true
	return o, nil
}

// begin starts the watches that are needed from the beginning.
func (o *Observer) begin(options Options) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case options.Only && len(options.Nodes) > maxNamed:
		o.watchNodes("")
		return
	case options.Only:
		o.cluster.SetPartial(nodes.name, true)
		for _, name := range options.Nodes {
			o.watchNodes(fields.OneTermEqualSelector(metav1.ObjectNameField, name).String())
		}
		return
	}
	o.watchNodes("")
	o.watchBudgets()
	o.watchPods()
}

func set(names []string) map[string]bool {
	if names == nil {
		return nil
	}
	found := make(map[string]bool, len(names))
	for _, name := range names {
		found[name] = true
	}
	return found
}

// Read calls f with the present state. f must not keep or change the cluster; the
// facts in it may be kept.
func (o *Observer) Read(f func(snapshot.View)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	f(snapshot.View{Now: now, Cluster: o.cluster, Blind: o.blind(), Reading: o.readingSince(now)})
}

// readingSince returns since when it is read what has turned out to be needed; zero while that has all been read. The caller holds the lock.
func (o *Observer) readingSince(now time.Time) time.Time {
	var since time.Time
	for _, f := range o.feeds {
		if f.reading(now) && (since.IsZero() || f.asked.Before(since)) {
			since = f.asked
		}
	}
	if since.IsZero() || o.reading.IsZero() {
		o.reading = since
	}
	return o.reading
}

// blind returns since when something that every decision needs cannot be watched;
// zero while all of it can. The caller holds the lock.
func (o *Observer) blind() time.Time {
	var since time.Time
	for _, f := range o.feeds {
		if f.required && f.synced && f.err != nil && (since.IsZero() || f.since.Before(since)) {
			since = f.since
		}
	}
	return since
}

// Changed receives after something changed that a decision could see. Changes are
// coalesced.
func (o *Observer) Changed() <-chan struct{} { return o.changed }

// Stop ends all watches and returns when they have ended.
func (o *Observer) Stop() {
	o.cancel()
	o.done.Wait()
}

func (o *Observer) signal() { poke(o.changed) }

func (o *Observer) step() { poke(o.steps) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
