package observe_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// read answers a list or a watch.
func (s *apiserver) read(request *http.Request, at place) (int, io.ReadCloser) {
	query := request.URL.Query()
	selects, err := selectorOf(query, at)
	switch {
	case err != nil:
		return refused(apierrors.NewBadRequest(err.Error()))
	case query.Get("watch") == "":
		return http.StatusOK, io.NopCloser(bytes.NewReader(s.list(at.resource, selects)))
	}
	return s.watch(request, at, selects)
}

// selectorOf reports whether an object is among what a request asks for.
func selectorOf(query url.Values, at place) (func(object) bool, error) {
	byLabels, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	byFields, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	return func(o object) bool {
		if at.namespace != "" && o.GetNamespace() != at.namespace || at.name != "" && o.GetName() != at.name {
			return false
		}
		return byLabels.Matches(labels.Set(o.GetLabels())) && byFields.Matches(fieldsOf(o))
	}, nil
}

func fieldsOf(o object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if pod, ok := o.(*corev1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
	}
	return set
}

// watching is one watch; it is the body of its answer.
type watching struct {
	server   *apiserver
	resource string
	selects  func(object) bool
	lag      time.Duration
	ctx      context.Context //nolint:containedctx // that of the request
	over     *time.Timer
	closed   chan struct{}
	broken   chan struct{}
	pushed   chan struct{}
	lines    []line // the server's lock guards them
}

// line is one event, shown from a time on.
type line struct {
	due  time.Time
	text []byte
}

func (s *apiserver) watch(request *http.Request, at place, selects func(object) bool) (int, io.ReadCloser) {
	query := request.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	switch {
	case initial && !s.streams:
		return refused(apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil))
	case !initial && from < s.oldest:
		return refused(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, s.oldest)))
	}
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	w := &watching{
		server: s, resource: at.resource, selects: selects, lag: s.lagOf(request.URL.Path, query), ctx: request.Context(),
		over: time.NewTimer(time.Duration(seconds) * time.Second), closed: make(chan struct{}), broken: make(chan struct{}), pushed: make(chan struct{}, 1),
	}
	if initial {
		w.begin()
	} else {
		for _, h := range s.history {
			if h.version > from {
				w.push(h)
			}
		}
	}
	s.open[w] = true
	return http.StatusOK, w
}

// lagOf is by how much a watch is behind, which follows from what it asks for.
func (s *apiserver) lagOf(path string, query url.Values) time.Duration {
	hash := fnv.New32a()
	fmt.Fprint(hash, path, query.Get("labelSelector"), query.Get("fieldSelector"))
	return s.lags[int(hash.Sum32())%len(s.lags)]
}

// begin shows the present objects, and then that they were all.
func (w *watching) begin() {
	for _, o := range w.server.objects[w.resource] {
		if w.selects(o.object) {
			w.line("ADDED", o.text)
		}
	}
	kind := kinds[w.resource]
	w.line("BOOKMARK", fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","annotations":{%q:"true"}}}`,
		kind.kind, kind.version, w.server.version, metav1.InitialEventsAnnotationKey))
}

// push shows a change as far as it is one of what is selected. The caller holds the server's lock.
func (w *watching) push(h happening) {
	if h.resource != w.resource {
		return
	}
	before := h.before != nil && w.selects(h.before.object)
	after := h.after != nil && w.selects(h.after.object)
	switch {
	case before && after:
		w.line("MODIFIED", h.after.text)
	case after:
		w.line("ADDED", h.after.text)
	case before && h.after == nil:
		w.line("DELETED", h.last)
	case before: // the state in which it was selected last, at the version at which it was selected no longer
		last := h.before.object.DeepCopyObject().(object) //nolint:forcetypeassert // a copy of an object
		last.SetResourceVersion(h.after.object.GetResourceVersion())
		w.line("DELETED", encoded(last))
	}
}

func (w *watching) line(kind string, text []byte) {
	w.lines = append(w.lines, line{time.Now().Add(w.lag), fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", kind, text)})
	select {
	case w.pushed <- struct{}{}:
	default:
	}
}

// Read implements io.Reader.
func (w *watching) Read(p []byte) (int, error) {
	for {
		n, wait := w.next(p)
		if n > 0 {
			return n, nil
		}
		due := (<-chan time.Time)(nil)
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-w.pushed:
		case <-w.over.C:
			return 0, io.EOF
		case <-w.broken:
			return 0, io.EOF
		case <-w.closed:
			return 0, io.ErrClosedPipe
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

// next copies what is due, or says when something is.
func (w *watching) next(p []byte) (int, time.Duration) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if len(w.lines) == 0 {
		return 0, 0
	}
	head := &w.lines[0]
	if wait := time.Until(head.due); wait > 0 {
		return 0, wait
	}
	n := copy(p, head.text)
	if head.text = head.text[n:]; len(head.text) == 0 {
		w.lines = slices.Delete(w.lines, 0, 1)
	}
	return n, 0
}

// Close implements io.Closer.
func (w *watching) Close() error {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	select {
	case <-w.closed:
	default:
		close(w.closed)
		w.over.Stop()
		delete(w.server.open, w)
	}
	return nil
}
