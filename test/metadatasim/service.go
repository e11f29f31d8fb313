package metadatasim

import (
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"usher.sh/usher/test/httpfault"
)

// service is what the three have in common.
type service struct {
	httpfault.Faults

	// Skew is how far the service's clock is ahead of the process's.
	Skew time.Duration

	mu       sync.Mutex
	requests []string
	changed  chan struct{} // closed at the next change
	answer   func(w http.ResponseWriter, r *http.Request)
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
func (s *service) Transport() http.RoundTripper { return httpfault.Transport(s.play) }

// play is what comes of a request, and of the fault that happens to it.
func (s *service) play(r *http.Request) (*http.Response, error) {
	s.record(r)
	return s.Serve("", r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r)
		s.date(w.Header())
	}))
}

func (s *service) record(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
}

// date says when an answer was made.
func (s *service) date(header http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	header.Set("Date", s.now().UTC().Format(http.TimeFormat))
}
