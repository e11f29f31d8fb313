package maintenance

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// How long it takes until something is tried anew: a drain that could not be run, one to which something on its node objects or whose
// deadline has passed, and one that only what does not clear by itself keeps from going on, since an answer that was final may have been
// changed meanwhile.
const (
	afterFailure   = 30 * time.Second
	afterObjection = time.Minute
	afterBlocked   = 5 * time.Minute
	// longestLate bounds how long it takes past a deadline: twice as long after each try as before it.
	longestLate = 10 * time.Minute
)

// Drains are the drains of this process, one for each node at most. They outlive the reconciliation that began them, and are left as they
// are when the process loses the lead.
type Drains struct {
	Options

	changed  chan event.GenericEvent
	observe  observing
	writer   runner.Writer
	recorder *act.Recorder
	shared   *runner.Shared

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the life of the drains, which is that of the lead
	known   map[string]*run
	running sync.WaitGroup
	// givenBack are the nodes that are being given back, and whether they are to be drained anew meanwhile.
	givenBack map[string]bool
}

// observing watches what drains of nodes go by, until stop is called.
type observing func(ctx context.Context, nodes []string) (source runner.Source, stop func(), err error)

// run is the drain of one node. The lock of its Drains guards it.
type run struct {
	request drain.Request
	ending  bool // it only ends what an earlier drain of its id has left
	leave   chan struct{}
	left    bool // leave was closed
	over    bool // it has returned
	state   maintenance.Drain
	retry   time.Time     // when to begin anew; zero: not by itself
	shown   time.Time     // when state was last brought up to date
	late    time.Duration // how long after the last try past the deadline it was begun
	// untouched: nothing was done to its node before it.
	untouched bool
	// heldBy is what held pods when it was last looked, and former what did in the drain that it repeats after the deadline.
	heldBy, former map[types.UID][]drain.Blocker
	// warned are the warnings that have their events.
	warned map[warned]bool
}

func newDrains(o Options) *Drains {
	recorder := &act.Recorder{Writer: &act.Writer{Client: o.Kube, Evictions: o.Evictions}, Now: o.Now, By: o.Self.By}
	return &Drains{
		Options: o, changed: make(chan event.GenericEvent, 1), shared: &runner.Shared{}, known: map[string]*run{}, givenBack: map[string]bool{},
		observe: o.observe, writer: recorder, recorder: recorder,
	}
}

// observe watches the cluster for drains of nodes. It implements observing.
func (o *Options) observe(ctx context.Context, nodes []string) (runner.Source, func(), error) {
	source, err := observe.Start(ctx, o.Kube, observe.Options{Nodes: nodes, Now: o.Now, Evictions: o.Evictions, Volumes: true})
	if err != nil {
		return nil, nil, err
	}
	return source, source.Stop, nil
}

// Start runs drains until ctx ends, and then leaves them.
func (d *Drains) Start(ctx context.Context) error {
	d.mu.Lock()
	d.ctx = ctx
	d.mu.Unlock()
	d.notify()
	<-ctx.Done()
	d.mu.Lock()
	for _, r := range d.known {
		r.goAway()
	}
	d.mu.Unlock()
	d.running.Wait()
	d.recorder.Wait()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (d *Drains) NeedLeaderElection() bool { return true }

// notify has the controller look again. Notifications are coalesced.
func (d *Drains) notify() {
	select {
	case d.changed <- event.GenericEvent{Object: &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: everything}}}:
	default:
	}
}

// States returns what the drains do, by node.
func (d *Drains) States() map[string]*maintenance.Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	states := make(map[string]*maintenance.Drain, len(d.known))
	for node, r := range d.known {
		states[node] = new(r.state)
	}
	return states
}

// idle is what is left to the caller: nodes without a drain that are to be given back, and when to look again.
type idle struct {
	giveBack []string
	next     time.Time
}

// Apply brings the drains to what was decided. Of a node one thing is done at a time: a drain that is to become another one is left first,
// and the other one begun once it has returned.
func (d *Drains) Apply(in maintenance.Input, orders []maintenance.Order) idle {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out idle
	if d.ctx == nil || d.ctx.Err() != nil {
		return out // Start has it looked at again
	}
	nodes := map[string]*maintenance.Node{}
	for _, n := range in.Nodes {
		nodes[n.Name] = n
	}
	wanted, batch, checks := map[string]bool{}, map[string]*run{}, map[string]*run{}
	for _, o := range orders {
		wanted[o.Node] = true
		n := nodes[o.Node]
		switch o.Want {
		case maintenance.DrainNode:
			out.next = earlier(out.next, d.drain(o, n, in.Now, batch))
		case maintenance.CheckNode:
			out.next = earlier(out.next, d.check(o, n, in.Now, checks))
		case maintenance.StopDrain, maintenance.GiveBack:
			again, back := d.end(o, n, in.Now, batch)
			out.next = earlier(out.next, again)
			if back {
				out.giveBack = append(out.giveBack, o.Node)
			}
		case maintenance.KeepDrain:
		}
	}
	for node, r := range d.known {
		if !wanted[node] && r.over {
			d.forget(node)
		}
	}
	d.begin(batch)
	d.begin(checks) // apart: what is to be seen for them holds up no drain
	return out
}

// drain sees to it that a drain under the order's terms runs, or has come to its end by itself.
func (d *Drains) drain(o maintenance.Order, n *maintenance.Node, now time.Time, batch map[string]*run) time.Time {
	r := d.known[o.Node]
	if _, underWay := d.givenBack[o.Node]; underWay {
		d.givenBack[o.Node] = true // it is looked at again once that is over
		return time.Time{}
	}
	switch {
	case r == nil:
	case !r.over && r.state.Checks:
		return time.Time{} // it ends at once
	case !r.over:
		if r.ending || r.state.Terms != o.Terms || due(r.retry, now) {
			r.goAway()
		}
		if r.left {
			return time.Time{} // that it has returned brings another look
		}
		return r.retry
	case r.state.Terms == o.Terms && (r.retry.After(now) || r.retry.IsZero() && !r.left && !r.ending && !r.state.Stopped && !r.state.Checks):
		return r.retry
	}
	batch[o.Node] = d.following(r, o, n, now)
	return time.Time{}
}

// following is the drain that follows one, nil where there was none. What that one has said stands until this one says something else.
func (d *Drains) following(r *run, o maintenance.Order, n *maintenance.Node, now time.Time) *run {
	next := &run{request: o.Terms.Request(o.Node, d.selfFor(n), now), leave: make(chan struct{}), state: maintenance.Drain{Terms: o.Terms}}
	next.untouched = (r == nil || r.state.Checks) && (n == nil || !maintenance.Owned(n.Node))
	if r != nil {
		next.warned = r.warned
	}
	if r == nil || r.state.Terms != o.Terms {
		return next
	}
	next.state.Failure = r.state.Failure
	if r.state.Outcome == drain.DeadlinePassed {
		next.state.Outcome, next.state.Blockers, next.state.PodCount = r.state.Outcome, r.state.Blockers, r.state.PodCount
		next.state.Warnings = r.state.Warnings
		next.former, next.heldBy, next.late = r.heldBy, r.heldBy, r.late
	}
	return next
}

// check sees to it that what objects to a drain under the order's terms is known. What does is looked for again after a while; where nothing does,
// the drain looks for it itself once it is to begin.
func (d *Drains) check(o maintenance.Order, n *maintenance.Node, now time.Time, batch map[string]*run) time.Time {
	state := maintenance.Drain{Terms: o.Terms, Checks: true}
	r := d.known[o.Node]
	if _, underWay := d.givenBack[o.Node]; underWay {
		d.givenBack[o.Node] = true
		return time.Time{}
	}
	switch {
	case r == nil:
	case !r.over:
		if !r.state.Checks {
			r.goAway()
		}
		return time.Time{}
	case r.state.Checks && r.state.Terms == o.Terms && !due(r.retry, now):
		return r.retry
	case r.state.Checks && r.state.Terms == o.Terms:
		state.Checked, state.Blockers, state.Warnings, state.Failure = r.state.Checked, r.state.Blockers, r.state.Warnings, r.state.Failure // until it has ended
	}
	batch[o.Node] = &run{request: o.Terms.Request(o.Node, d.selfFor(n), now), leave: make(chan struct{}), state: state}
	return time.Time{}
}

// forget drops a drain that has returned. What was decided before rests on its being there, and no event of the API shows that it is not.
func (d *Drains) forget(node string) {
	if d.known[node] != nil {
		delete(d.known, node)
		d.notify()
	}
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// end sees to it that nothing of a drain is left but the cordon. It says when to look again, and whether there is no drain, so that the node
// is to be given back.
func (d *Drains) end(o maintenance.Order, n *maintenance.Node, now time.Time, batch map[string]*run) (again time.Time, giveBack bool) {
	back := o.Want == maintenance.GiveBack
	r := d.known[o.Node]
	switch {
	case r != nil && !r.over:
		if !r.ending || back && !r.request.UncordonOnFailure {
			r.goAway()
		}
		return time.Time{}, false
	case r != nil && r.ending && r.retry.After(now):
		return r.retry, false
	case n == nil || !maintenance.Owned(n.Node):
		d.forget(o.Node)
		return time.Time{}, false
	case !maintenance.Unended(n.Drain) && back:
		return time.Time{}, true
	case !maintenance.Unended(n.Drain):
		if r != nil {
			r.state.Stopped = true
		}
		return time.Time{}, false
	}
	request := maintenance.Terms{By: messageBy(n)}.Request(o.Node, d.selfFor(n), now)
	request.UncordonOnFailure = back
	batch[o.Node] = &run{request: request, ending: true, leave: make(chan struct{}), state: maintenance.Drain{Stopped: true, Begun: true}}
	return time.Time{}, false
}

// messageBy is for whom a node's drain was begun, as its record says.
func messageBy(n *maintenance.Node) string {
	if n.Drain.Why != "" {
		return "NodeMaintenance (" + n.Drain.Why + ")"
	}
	return "NodeMaintenance"
}

// selfFor is this process as the drainer of a node. A drain that has not ended there is gone on with under its id.
func (d *Drains) selfFor(n *maintenance.Node) snapshot.Drainer {
	self := d.Self
	self.ID = snapshot.MaintenancePrefix + newID()
	if n != nil && maintenance.Owned(n.Node) && maintenance.Unended(n.Drain) {
		self.ID = n.Drain.ID
	}
	return self
}

func newID() string { return rand.Text()[:10] }

// goAway has a drain left as it is. The caller holds the lock.
func (r *run) goAway() {
	if !r.left {
		r.left = true
		close(r.leave)
	}
}
