package metadatasim

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Fault makes answers go wrong. What it does not name matches everything.
type Fault struct {
	Method string
	Path   string // a part of it
	Times  int    // how often; 0: until Heal

	// One of these happens.
	Refuse bool          // the connection is refused: the request does not arrive
	Silent bool          // there is no answer until the caller gives up
	Lost   bool          // the request is carried out and the connection breaks before the answer
	Cut    int           // after so many bytes the answer breaks off
	Late   time.Duration // the answer is what it would be, so much later
	Status int           // this is the answer, with Header and Body

	Header map[string]string
	Body   string
}

// service is what the three have in common.
type service struct {
	// Skew is how far the service's clock is ahead of the process's.
	Skew time.Duration

	mu       sync.Mutex
	faults   []*Fault
	requests []string
	changed  chan struct{} // closed at the next change
	answer   func(w http.ResponseWriter, r *http.Request)
}

// Inject adds a fault; the first that matches a request happens to it.
func (s *service) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal takes all faults away.
func (s *service) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// TakeRequests returns the requests that have come, as METHOD PATH?QUERY, and forgets them.
func (s *service) TakeRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// now is the service's time. It is called with mu held.
func (s *service) now() time.Time { return time.Now().Add(s.Skew) }

// change makes a change and wakes those who wait for one.
func (s *service) change(make func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	make()
	s.wake()
}

func (s *service) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// next is closed at the next change. It is called with mu held.
func (s *service) next() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// strike returns the fault that happens to a request, nil if none does.
func (s *service) strike(r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	at := slices.IndexFunc(s.faults, func(f *Fault) bool {
		return (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path)
	})
	if at < 0 {
		return nil
	}
	f := s.faults[at]
	if f.Times--; f.Times == 0 {
		s.faults = slices.Delete(s.faults, at, at+1)
	}
	return f
}

// ServeHTTP implements http.Handler. A connection that is refused or breaks is one that is closed without an answer.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.play(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		_ = http.NewResponseController(w).Flush() // what came before the break
		panic(http.ErrAbortHandler)
	}
}

// Transport carries requests to the service without a socket.
func (s *service) Transport() http.RoundTripper { return transport{s} }

type transport struct{ service *service }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return t.service.play(r)
}

// play is what comes of a request, and of the fault that happens to it.
func (s *service) play(r *http.Request) (*http.Response, error) {
	fault := s.strike(r)
	switch {
	case fault == nil:
	case fault.Refuse:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case fault.Silent:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case fault.Late > 0:
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(fault.Late):
		}
	case fault.Status > 0:
		return s.forged(r, fault), nil
	}
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	s.answer(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err // it hung, and the caller gave up
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.header.Set("Date", s.now().UTC().Format(http.TimeFormat))
	switch {
	case fault != nil && fault.Lost:
		return nil, errors.New("read: connection reset by peer")
	case fault != nil && fault.Cut > 0:
		whole := w.body.Bytes()
		return response(r, w.status, w.header, io.MultiReader(bytes.NewReader(whole[:min(fault.Cut, len(whole))]), failing{})), nil
	}
	return response(r, w.status, w.header, &w.body), nil
}

func (s *service) forged(r *http.Request, fault *Fault) *http.Response {
	header := http.Header{}
	for key, value := range fault.Header {
		header.Set(key, value)
	}
	return response(r, fault.Status, header, strings.NewReader(fault.Body))
}

func response(r *http.Request, status int, header http.Header, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(body), ContentLength: -1, Request: r,
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *recorder) Write(part []byte) (int, error) { return w.body.Write(part) }
