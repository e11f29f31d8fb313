// Package httpfault answers: how do the answers of a simulated HTTP service go wrong?
package httpfault

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Fault makes answers go wrong. What it does not name matches everything.
type Fault struct {
	Server string // id, where a service has several
	Method string
	Path   string // a part of it
	Times  int    // how often; 0: until Heal

	// One of these happens.
	Refuse bool // the connection is refused: the request does not arrive
	Silent bool // there is no answer until the caller gives up
	Lost   bool // the request is carried out and the connection breaks before the answer
	Cut    int  // after so many bytes the answer breaks off
	Status int  // this is the answer, with Header and Body

	Header map[string]string
	Body   string
}

// Faults are those of one service; the zero value has none. Its methods may be called by several goroutines at once.
type Faults struct {
	mu     sync.Mutex
	faults []*Fault
}

// Inject adds a fault; the first that matches a request happens to it.
func (s *Faults) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal takes all faults away.
func (s *Faults) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// take returns the fault that happens to a request, nil if none does.
func (s *Faults) take(server string, r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.faults, func(f *Fault) bool {
		return (f.Server == "" || f.Server == server) && (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path)
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
