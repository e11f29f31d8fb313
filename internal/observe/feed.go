package observe

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"usher.sh/usher/internal/snapshot"
)

// feed is where the watch of one resource stands. The observer's lock guards it.
type feed struct {
	resource resource
	required bool
	cancel   context.CancelFunc
	synced   bool
	final    bool      // it will not be read in this run: forbidden, or not served
	asked    time.Time // when it was started
	late     bool      // it was started after the first reading had ended
	verb     string    // of the request that failed last
	err      error     // why it cannot be read at present; nil while it can
	since    time.Time // of err
}

// settled reports whether the first read has ended: with objects or, where decisions can do without them, with an error.
func (f *feed) settled() bool { return f.synced || (!f.required && f.err != nil) }

// reading reports whether a feed that was started in the middle of a drain has still to bring what is there. It is tried again for as long
// as decisions wait for it: what is unknown for a moment only is not to be decided upon.
func (f *feed) reading(now time.Time) bool {
	return f.late && !f.synced && !f.final && now.Sub(f.asked) < snapshot.ReadingFor
}

// reconnect is how a broken watch is tried again: at once for people, gently for an
// apiserver that comes back to a thousand clients.
func reconnect() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Steps: 8, Factor: 2, Jitter: 0.5}
}

// question is what a feed reads.
type question struct {
	resource resource
	fields   string // a field selector; "": all objects
}

// watchKind starts the watch of a resource; the caller holds the lock.
func watchKind[O runtime.Object, T any, L runtime.Object](o *Observer, q question, required bool, sample O, api resourceAPI[L], k kind[O, T]) {
	ctx, cancel := context.WithCancel(klog.NewContext(o.ctx, logr.Discard()))
	f := &feed{resource: q.resource, required: required, cancel: cancel, asked: o.now(), late: o.begun}
	o.feeds[q] = f
	if !required {
		o.cluster.SetGap(snapshot.Gap{Resource: q.resource.name, Reason: "not read yet"})
	}
	ended := func(verb string, err error) { o.recordEnd(ctx, f, verb, err) }
	target := &store[O, T]{observer: o, feed: f, kind: k, known: map[string]*T{}}
	silent := logr.Discard()
	reflector := cache.NewReflectorWithOptions(listWatch(o.client, selected[L]{api, q.fields}, ended), sample, target,
		cache.ReflectorOptions{Name: q.resource.name, Backoff: reconnect(), Logger: &silent})
	o.done.Go(func() {
		defer cancel()
		reflector.RunWithContext(ctx)
	})
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
	if err == nil {
		f.err = nil
		return
	}
	if f.err == nil {
		f.since = o.now()
	}
	f.verb, f.err = verb, err
	if !f.synced && !f.required {
		o.giveUp(f)
	}
	o.step()
}

// giveUp notes that something of which a decision can do without cannot be read.
// What is forbidden or not served stays so for the length of a drain; asking on
// would only cost requests.
func (o *Observer) giveUp(f *feed) {
	unserved := apierrors.IsNotFound(f.err)
	f.final = apierrors.IsForbidden(f.err) || unserved
	o.cluster.SetGap(snapshot.Gap{Resource: f.resource.name, Reason: f.err.Error(), Final: f.final, Unserved: unserved})
	if f.final {
		f.cancel()
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
	return Break{Resource: oldest.resource.String(), Since: oldest.since, Err: oldest.err}, true
}
