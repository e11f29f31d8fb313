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

// feed is where the watch of one resource stands. The observer's lock guards it.
type feed struct {
	question question
	required bool
	cancel   context.CancelFunc
	shows    func(id string) bool // whether it shows an object
	leave    func()               // takes out what no other feed shows
	retired  bool                 // another feed reads what it did
	synced   bool
	verb     string    // of the request that failed last
	err      error     // why it cannot be read at present; nil while it can
	since    time.Time // of err
}

// settled reports whether the first read has ended: with objects or, where decisions can do without them, with an error.
func (f *feed) settled() bool { return f.synced || (!f.required && f.err != nil) }

// reconnect is how a broken watch is tried again: at once for people, gently for an
// apiserver that comes back to a thousand clients.
func reconnect() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Steps: 8, Factor: 2, Jitter: 0.5}
}

// question is what a feed reads: the objects of a resource, in one namespace or in all (""), that selectors select, or all ("").
type question struct {
	resource  resource
	namespace string
	fields    string
	labels    string
}

// ended is an object that is gone, by its id.
type ended struct {
	resource resource
	id       string
}

// narrow reports whether selectors are part of the question.
func (q question) narrow() bool { return q.fields != "" || q.labels != "" }

// covers reports whether who asks it reads what another asks for.
func (q question) covers(other question) bool {
	return q == other || !q.narrow() && q.resource == other.resource && (q.namespace == "" || q.namespace == other.namespace)
}

// How many feeds read parts of a resource in one namespace before all of the namespace is read, and in all before all of the resource is.
const (
	mostOfNamespace = maxNamed
	mostNarrow      = 200
)

// ask starts the feed of a question, if none reads that. The caller holds the lock.
func (o *Observer) ask(q question) {
	all := question{resource: q.resource}
	here := question{resource: q.resource, namespace: q.namespace}
	if o.feeds[q] != nil || o.feeds[here] != nil || o.feeds[all] != nil {
		return
	}
	of, inside := 0, 0
	for other := range o.feeds {
		if other.resource == q.resource {
			of++
		}
		if here.covers(other) {
			inside++
		}
	}
	switch {
	case of >= mostNarrow:
		q = all
	case q.narrow() && q.namespace != "" && inside >= mostOfNamespace:
		q = here
	}
	o.watch(q)
}

// shown reports whether a feed shows an object. The caller holds the lock.
func (o *Observer) shown(r resource, id string) bool {
	return slices.ContainsFunc(o.feedsOf(r), func(f *feed) bool { return f.shows(id) })
}

// feedsOf are the feeds of a resource. The caller holds the lock.
func (o *Observer) feedsOf(r resource) []*feed {
	var of []*feed
	for q, f := range o.feeds {
		if q.resource == r {
			of = append(of, f)
		}
	}
	return of
}

// retire ends the feeds of what another one has read as well. The caller holds the lock.
func (o *Observer) retire(read question) {
	for _, f := range o.feedsOf(read.resource) {
		if f.question != read && read.covers(f.question) {
			f.retired = true
			f.cancel()
			delete(o.feeds, f.question)
			f.leave()
		}
	}
}

// closeGap removes the gap of a resource once all that is asked of it has been read. The caller holds the lock.
func (o *Observer) closeGap(r resource) {
	unread := func(f *feed) bool { return !f.synced }
	if !slices.ContainsFunc(o.feedsOf(r), unread) {
		o.cluster.DeleteGap(r.name)
	}
}

// watchKind starts the watch of what a question is about; the caller holds the lock.
func watchKind[O runtime.Object, T any, L runtime.Object](o *Observer, q question, required bool, sample O, api resourceAPI[L], k kind[O, T]) {
	ctx, cancel := context.WithCancel(klog.NewContext(o.ctx, logr.Discard()))
	f := &feed{question: q, required: required, cancel: cancel}
	o.feeds[q] = f
	if !required {
		o.cluster.SetGap(snapshot.Gap{Resource: q.resource.name, Reason: "not read yet"})
	}
	ended := func(verb string, err error) { o.recordEnd(ctx, f, verb, err) }
	target := &store[O, T]{observer: o, feed: f, kind: k, known: map[string]*T{}}
	f.shows, f.leave = target.shows, target.leave
	silent := logr.Discard()
	reflector := cache.NewReflectorWithOptions(listWatch(o.client, selected[L]{api, q}, ended), sample, target,
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
	final := apierrors.IsForbidden(f.err) || unserved
	o.cluster.SetGap(snapshot.Gap{Resource: f.question.resource.name, Reason: f.err.Error(), Final: final, Unserved: unserved})
	if final {
		f.cancel()
		o.requireWithoutOwner(f.question)
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
