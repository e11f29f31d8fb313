package observe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/snapshot"
)

// Options say what to observe. The zero value observes everything that pods on any
// node need.
type Options struct {
	// Nodes are those about whose pods is decided: what decides about them is read, and what drains have left anywhere.
	// Nil: every node.
	Nodes []string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Evictions reads what concerns governed pods; nil: that is not read.
	Evictions *client.Client
	// Volumes has those of pods on the nodes read, so that it is known whether other nodes can use them.
	Volumes bool

	limits limits
}

// Observer keeps one snapshot of a cluster up to date. It implements runner.Source.
type Observer struct {
	client    kubernetes.Interface
	evictions *client.Client // nil: not read
	volumes   bool
	now       func() time.Time
	limits    limits
	changed   chan struct{}
	steps     chan struct{} // something happened that Start waits for

	cannotStream atomic.Bool // the server knows no watch that brings the present objects first

	ctx    context.Context //nolint:containedctx // the life of the reflectors that pods ask for later
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu         sync.Mutex
	cluster    *snapshot.Cluster
	scope      scope
	asked      map[question]bool // what is to have a feed, and whether decisions wait for it
	feeds      map[question]*feed
	byResource map[resource][]*feed
	covered    map[resource]bool // of which a feed may show all that others do
	absences   absences
	pods       podPool   // has its own lock
	answered   bool      // the apiserver has answered at least once
	begun      bool      // the first reading has ended
	reading    time.Time // since when a feed is read that was started since; zero while none is
}

// Start watches until ctx ends. It returns once everything that is needed has been
// read, or with an error that says what is wrong and what to do: the apiserver
// cannot be reached (within 30 s), or pods, nodes or budgets may not be read. What else
// cannot be read is a gap in the snapshot.
func Start(ctx context.Context, kube kubernetes.Interface, options Options) (*Observer, error) {
	o := newObserver(options)
	o.client = kube
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

func newObserver(options Options) *Observer {
	o := &Observer{
		evictions:  options.Evictions,
		volumes:    options.Volumes,
		now:        options.Now,
		limits:     options.limits.orUsual(),
		changed:    make(chan struct{}, 1),
		steps:      make(chan struct{}, 1),
		cluster:    snapshot.NewCluster(),
		scope:      newScope(options.Nodes),
		asked:      map[question]bool{},
		feeds:      map[question]*feed{},
		byResource: map[resource][]*feed{},
		covered:    map[resource]bool{},
		absences:   absences{known: map[objectID]absence{}},
	}
	if o.now == nil {
		o.now = time.Now
	}
	return o
}

// mostNodes is up to how many nodes each is watched by itself: of more, everything is.
const mostNodes = 200

// begin starts the watches that are needed from the beginning.
func (o *Observer) begin(options Options) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.flush()
	if options.Nodes == nil {
		o.ask(leasesOfDrains().whole())
	} else {
		o.ask(leasesOfDrains())
	}
	o.scope.wide = options.Nodes == nil || len(options.Nodes) > mostNodes
	if o.scope.wide {
		o.ask(question{resource: nodes})
		o.ask(question{resource: budgets})
		o.ask(question{resource: pods})
		if options.Nodes != nil {
			o.askTraces()
		}
		return
	}
	o.cluster.SetPartial(nodes.name, true)
	o.cluster.SetPartial(pods.name, true)
	for _, name := range options.Nodes {
		o.ask(ofName(nodes, "", name))
		o.ask(onNode(name))
	}
	o.ask(question{resource: nodes, labels: snapshot.DrainLabel})
	o.ask(question{resource: pods, labels: snapshot.SurgeLabel})
	o.askTraces()
}

// askTraces asks for what drains have left on objects that may be no affair of the pods on the nodes.
func (o *Observer) askTraces() {
	o.ask(question{resource: deployments, labels: snapshot.SurgeLabel})
	o.ask(question{resource: autoscalers, labels: snapshot.SurgeLabel})
	if o.evictions != nil {
		o.ask(question{resource: evictionRequests, labels: snapshot.DrainLabel})
	}
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
		if at := f.blindSince(); !at.IsZero() && (since.IsZero() || at.Before(since)) {
			since = at
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
