package observe

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"usher.sh/usher/internal/snapshot"
)

// feed is where the watch of what a question is about stands. The observer's lock guards it.
type feed struct {
	question question
	cancel   context.CancelFunc
	shows    func(id string) bool // whether it shows an object
	within   func(*feed) bool     // whether another one shows all that it shows
	ended    bool                 // another one shows all that it did: what comes still is not taken in
	synced   bool
	final    bool      // it will not be read in this run: forbidden, or not served
	asked    time.Time // when it was started
	late     bool      // it was started after the first reading had ended
	aside    bool      // decisions do not wait for it: it says why, not what
	verb     string    // of the request that failed last
	err      error     // why it cannot be read at present; nil while it can
	since    time.Time // of err
}

// required reports whether every decision needs what it reads. Of the rest a gap is noted.
func (f *feed) required() bool { return slices.Contains(always, f.question.resource) }

// settled reports whether the first read has ended: with objects or, where decisions can do without them, with an error.
func (f *feed) settled() bool { return f.synced || (!f.required() && f.err != nil) }

// reading reports whether a feed that was started in the middle of a drain has still to bring what is there. It is tried again for as long
// as decisions wait for it: what is unknown for a moment only is not to be decided upon.
func (f *feed) reading(now time.Time) bool {
	return f.late && !f.aside && !f.synced && !f.final && now.Sub(f.asked) < snapshot.ReadingFor
}

// blindSince returns since when what every decision needs does not come: since it broke, or since it was asked for in the middle of a
// drain. Zero while it comes.
func (f *feed) blindSince() time.Time {
	switch {
	case !f.required():
	case !f.synced && f.late && !f.aside:
		return f.asked
	case f.synced && f.err != nil:
		return f.since
	}
	return time.Time{}
}

// reconnect is how a broken watch is tried again: at once for people, gently for an
// apiserver that comes back to a thousand clients.
func reconnect() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Steps: 8, Factor: 2, Jitter: 0.5}
}

// leastWatch is how long a watch lasts at least, and at most twice as long, before it is made anew: a drain has dozens, each renewal is a
// request, and a connection that has died is noticed without it.
const leastWatch = 30 * time.Minute

// open enters the feed of a question. The caller holds the lock.
func (o *Observer) open(q question) (context.Context, *feed) {
	ctx, cancel := context.WithCancel(klog.NewContext(o.ctx, logr.Discard()))
	f := &feed{
		question: q, cancel: cancel, asked: o.now(), late: o.begun,
		shows: func(string) bool { return false }, within: func(*feed) bool { return true },
	}
	o.feeds[q] = f
	o.byResource[q.resource] = append(o.byResource[q.resource], f)
	o.noteGap(q.resource)
	return ctx, f
}

// watchKind starts the watch of what a question is about; the caller holds the lock.
func watchKind[O runtime.Object, T any, L runtime.Object](o *Observer, q question, sample O, api resourceAPI[L], k kind[O, T]) {
	ctx, f := o.open(q)
	ended := func(verb string, err error) { o.recordEnd(ctx, f, verb, err) }
	target := &store[O, T]{observer: o, feed: f, kind: k, known: map[string]*T{}}
	f.shows, f.within = target.shows, target.within
	silent := logr.Discard()
	source := listWatch(o.client, selected[L]{api, q}, &o.cannotStream, ended)
	reflector := cache.NewReflectorWithOptions(source, sample, target,
		cache.ReflectorOptions{Name: q.resource.name, Backoff: reconnect(), Logger: &silent, MinWatchTimeout: leastWatch})
	o.done.Go(func() {
		defer f.cancel()
		reflector.RunWithContext(ctx)
	})
}

// sync notes that a feed has brought all that is there. The caller holds the lock.
func (o *Observer) sync(f *feed) {
	f.synced, f.err = true, nil
	if q := f.question; q.resource == nodes && q.fields == "" && q.sample == 0 {
		o.cluster.SetNodesRead(q.labels)
		o.cluster.SetPartial(nodes.name, o.cluster.Partial(nodes.name) && q.labels != "")
	}
	o.covered[f.question.resource] = o.covered[f.question.resource] || f.question == f.question.whole()
	o.noteLeases(f)
	o.noteGap(f.question.resource)
}

// noteGap notes, or takes back, that a resource of which decisions can do without cannot be read: what its feeds say together. A refusal
// that is final counts first. The caller holds the lock.
func (o *Observer) noteGap(r resource) {
	if slices.Contains(always, r) {
		return
	}
	gap, some := snapshot.Gap{Resource: r.name, Reason: "not read yet"}, false
	for _, f := range o.feedsOf(r) {
		switch {
		case f.synced:
			continue
		case f.final:
			unserved := apierrors.IsNotFound(f.err)
			o.cluster.SetGap(snapshot.Gap{Resource: r.name, Reason: f.err.Error(), Final: true, Unserved: unserved})
			return
		case f.err != nil:
			gap.Reason = f.err.Error()
		}
		some = true
	}
	if some {
		o.cluster.SetGap(gap)
	} else {
		o.cluster.DeleteGap(r.name)
	}
}

// recordEnd records how a request of a feed ended.
func (o *Observer) recordEnd(ctx context.Context, f *feed, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil || isAnswer(err) {
		o.answered = true
	}
	if err == nil && verb == stream {
		return // what it brings is whole when the store replaces what it has
	}
	if (err == nil) != (f.err == nil) {
		o.signal()
	}
	defer o.noteLeases(f)
	if err == nil {
		f.err = nil
		return
	}
	if f.err == nil {
		f.since = o.now()
	}
	f.verb, f.err = verb, err
	if !f.synced && !f.required() {
		o.giveUp(f) //nolint:contextcheck // what it starts has the observer's own context
	}
	o.step()
}

// giveUp notes that something of which a decision can do without cannot be read.
// What is forbidden or not served stays so for the length of a drain; asking on
// would only cost requests. The caller holds the lock.
func (o *Observer) giveUp(f *feed) {
	f.final = apierrors.IsForbidden(f.err) || apierrors.IsNotFound(f.err)
	o.noteGap(f.question.resource)
	if f.final {
		f.cancel()
		o.finish(f.question.resource)
	}
}

// Break is a watch that is broken: what it brought is as old as that.
type Break struct {
	Resource string // plural, with its group
	Since    time.Time
	Err      error
}

// Broken returns the watch that has been broken for longest, and whether there is
// one. A connection that died without a word counts after about 45 s, when the
// HTTP/2 health check gives it up.
func (o *Observer) Broken() (Break, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var oldest *feed
	for _, f := range o.feeds {
		if f.synced && f.err != nil && (oldest == nil || f.since.Before(oldest.since)) {
			oldest = f
		}
	}
	if oldest == nil {
		return Break{}, false
	}
	return Break{Resource: oldest.question.resource.String(), Since: oldest.since, Err: oldest.err}, true
}
