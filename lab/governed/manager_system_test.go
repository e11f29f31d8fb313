package governed

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"usher.sh/usher/api/v1alpha1"
)

// fakeSystem is a database that the test is the master of. A member that is excluded holds no data.
type fakeSystem struct {
	server *httptest.Server
	token  string // what callers must show, "" for nothing
	shards int    // how many it has

	mu       sync.Mutex
	safe     bool
	excluded []string
	calls    []string
	silent   chan struct{} // while it is there, no request is answered
}

func newSystem(t *testing.T) *fakeSystem {
	t.Helper()
	s := &fakeSystem{}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

// ServeHTTP answers GET /health, POST /exclude/ID and POST /include/ID.
func (s *fakeSystem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.token != "" && r.Header.Get("Authorization") != s.token {
		http.Error(w, `{"error":"who are you?"}`, http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	if silent != nil {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPost {
		s.call(strings.TrimPrefix(r.URL.Path, "/"))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"safe": s.safe, "excluded": append([]string{}, s.excluded...), "shards": s.names()})
}

func (s *fakeSystem) names() []string {
	names := make([]string, s.shards)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

func (s *fakeSystem) call(what string) {
	s.calls = append(s.calls, what)
	verb, member, _ := strings.Cut(what, "/")
	s.excluded = slices.DeleteFunc(s.excluded, func(m string) bool { return m == member })
	if verb == "exclude" {
		s.excluded = append(s.excluded, member)
	}
}

func (s *fakeSystem) setSafe(safe bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.safe = safe
}

// hush makes the system hang until the returned function is called.
func (s *fakeSystem) hush() (speak func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := make(chan struct{})
	s.silent = silent
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.silent = nil
		close(silent)
	}
}

// said returns what the system was asked to do, in order.
func (s *fakeSystem) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// waitAsked waits until the system was asked to do something.
func (s *fakeSystem) waitAsked(t *testing.T, what string) {
	t.Helper()
	eventually(t, "the system to be asked for "+what, func() bool { return slices.Contains(s.said(), what) })
}

// spec is how Usher reaches the system.
func (s *fakeSystem) spec() v1alpha1.System {
	return v1alpha1.System{HTTP: &v1alpha1.HTTP{
		Access:  v1alpha1.Access{Endpoints: []string{s.server.URL}},
		Facts:   []v1alpha1.Get{{Name: "health", URL: "/health"}},
		Summary: "'safe: ' + string(system.health.safe)",
		Steps: []v1alpha1.Step{{
			Name: "Exclude",
			Do:   v1alpha1.Call{Method: http.MethodPost, URL: "/exclude/{{member.id}}"},
			Undo: &v1alpha1.Call{Method: http.MethodPost, URL: "/include/{{member.id}}"},
		}},
	}}
}
