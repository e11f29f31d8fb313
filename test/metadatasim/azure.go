package metadatasim

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"
)

// Azure is the metadata service of one machine of Azure. It has the events of the machine's whole set.
type Azure struct {
	service

	// Machine is the name of the machine.
	Machine string
	// First is how long the first answer about events takes: it turns the service on.
	First time.Duration

	on          bool
	incarnation int
	events      []AzureEvent
	approved    []string
}

// AzureEvent is a scheduled event.
type AzureEvent struct {
	EventID           string   `json:"EventId"`
	EventType         string   // Freeze, Reboot, Redeploy, Preempt, Terminate
	ResourceType      string   // VirtualMachine
	Resources         []string // machines
	EventStatus       string   // Scheduled, Started
	NotBefore         string   // as http.TimeFormat; empty: now
	Description       string
	EventSource       string // Platform, User
	DurationInSeconds int    // -1: not known
}

// NewAzure returns the service of a machine of which nothing is announced.
func NewAzure(machine string) *Azure {
	s := &Azure{Machine: machine, incarnation: 1}
	s.answer = s.serve
	return s
}

// Schedule has the events be these.
func (s *Azure) Schedule(events ...AzureEvent) {
	s.change(func() { s.incarnation, s.events = s.incarnation+1, slices.Clone(events) })
}

// Rewind has the number of the document be an earlier one.
func (s *Azure) Rewind(to int) { s.change(func() { s.incarnation = to }) }

// Approved are the ids of the events that were approved, in that order.
func (s *Azure) Approved() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.approved)
}

func (s *Azure) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata") != "true" || r.Header.Get("X-Forwarded-For") != "" {
		http.Error(w, `{"error": "Bad request. Required metadata header not specified"}`, http.StatusBadRequest)
		return
	}
	version := r.URL.Query().Get("api-version")
	switch {
	case version == "":
		http.Error(w, `{"error": "Bad request. api-version was not specified in the request"}`, http.StatusBadRequest)
	case r.URL.Path == "/metadata/instance/compute/name" && r.Method == http.MethodGet:
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(w, s.Machine) // into memory
	case r.URL.Path == "/metadata/scheduledevents" && r.Method == http.MethodGet:
		s.list(w, r)
	case r.URL.Path == "/metadata/scheduledevents" && r.Method == http.MethodPost:
		s.approve(w, r)
	default:
		http.Error(w, `{"error": "Not found"}`, http.StatusNotFound)
	}
}

func (s *Azure) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	wait := s.First
	if s.on {
		wait = 0
	}
	s.mu.Unlock()
	select {
	case <-r.Context().Done():
		return
	case <-time.After(wait):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = true
	events := s.events
	if events == nil {
		events = []AzureEvent{}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(struct { // into memory
		DocumentIncarnation int
		Events              []AzureEvent
	}{s.incarnation, events})
}

// approve starts events. One that there is not is an error, and then none is started.
func (s *Azure) approve(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		StartRequests []struct {
			EventID string `json:"EventId"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.StartRequests) == 0 {
		http.Error(w, `{"error": "Bad request"}`, http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, start := range asked.StartRequests {
		if !slices.ContainsFunc(s.events, func(e AzureEvent) bool { return e.EventID == start.EventID }) {
			http.Error(w, `{"error": "No event with this id"}`, http.StatusBadRequest)
			return
		}
	}
	for _, start := range asked.StartRequests {
		at := slices.IndexFunc(s.events, func(e AzureEvent) bool { return e.EventID == start.EventID })
		s.approved = append(s.approved, start.EventID)
		s.events[at].EventStatus, s.events[at].NotBefore = "Started", ""
	}
	s.incarnation++
	s.wake()
}
