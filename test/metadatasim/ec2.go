package metadatasim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// EC2 is the instance metadata service, version 2, of one instance of AWS.
type EC2 struct {
	service

	// Disabled has it answer nothing but 403, as where the service is turned off for the instance.
	Disabled bool

	made   int
	tokens map[string]time.Time // and when each ends
	paths  map[string]string    // what stands under /latest/meta-data/
}

// EC2Event is a scheduled event.
type EC2Event struct {
	NotBefore   string `json:"NotBefore"`
	NotAfter    string `json:"NotAfter,omitempty"`
	Code        string `json:"Code"`
	Description string `json:"Description"`
	EventID     string `json:"EventId"`
	State       string `json:"State"`
}

// Where what is announced stands.
const (
	EC2SpotAction      = "spot/instance-action"
	EC2TerminationTime = "spot/termination-time"
	EC2Rebalance       = "events/recommendations/rebalance"
	EC2Scheduled       = "events/maintenance/scheduled"
	EC2Lifecycle       = "autoscaling/target-lifecycle-state"
)

// EC2TokenTTL is the longest that a token is good for.
const EC2TokenTTL = 21600 * time.Second

// NewEC2 returns the service of an instance of which nothing is announced.
func NewEC2() *EC2 {
	s := &EC2{tokens: map[string]time.Time{}, paths: map[string]string{EC2Scheduled: "[]"}}
	s.answer = s.serve
	return s
}

// Set has a path hold a text.
func (s *EC2) Set(path, text string) { s.change(func() { s.paths[path] = text }) }

// Withdraw takes what a path holds away.
func (s *EC2) Withdraw(path string) { s.change(func() { delete(s.paths, path) }) }

// Interrupt announces that the spot instance is taken back: terminate, stop or hibernate.
func (s *EC2) Interrupt(action string, at time.Time) {
	s.Set(EC2SpotAction, fmt.Sprintf(`{"action": %q, "time": %q}`, action, at.UTC().Format(time.RFC3339)))
	s.Set(EC2TerminationTime, at.UTC().Format(time.RFC3339))
}

// Schedule has the scheduled events be these.
func (s *EC2) Schedule(events ...EC2Event) {
	if events == nil {
		events = []EC2Event{}
	}
	all, err := json.Marshal(events)
	if err != nil {
		panic(err) // strings alone
	}
	s.Set(EC2Scheduled, string(all))
}

// ExpireTokens has all tokens be no longer valid.
func (s *EC2) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

func (s *EC2) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, isData := strings.CutPrefix(r.URL.Path, "/latest/meta-data/")
	switch {
	case s.Disabled || r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "", http.StatusForbidden)
	case r.URL.Path == "/latest/api/token":
		s.token(w, r)
	case r.Method != http.MethodGet:
		http.Error(w, "", http.StatusMethodNotAllowed)
	case !s.now().Before(s.tokens[r.Header.Get("X-aws-ec2-metadata-token")]):
		http.Error(w, "", http.StatusUnauthorized)
	case !isData || s.paths[path] == "":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<html><head><title>404 - Not Found</title></head></html>") // as it does
	default:
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, s.paths[path]) // into memory
	}
}

// token answers 400 to a time that is none or too long.
func (s *EC2) token(w http.ResponseWriter, r *http.Request) {
	asked := r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds")
	seconds, err := strconv.Atoi(asked)
	ttl := time.Duration(seconds) * time.Second
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "", http.StatusMethodNotAllowed)
	case err != nil || ttl < time.Second || ttl > EC2TokenTTL:
		http.Error(w, "", http.StatusBadRequest)
	default:
		s.made++
		token := fmt.Sprintf("AQAE-token-%d==", s.made)
		s.tokens[token] = s.now().Add(ttl)
		w.Header().Set("X-aws-ec2-metadata-token-ttl-seconds", asked)
		_, _ = io.WriteString(w, token) // into memory
	}
}
