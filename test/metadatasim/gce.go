package metadatasim

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// GCE is the metadata server of one machine of Google Cloud.
type GCE struct {
	service

	values map[string]gceValue // under /computeMetadata/v1/instance/
}

type gceValue struct {
	text    string
	version int
}

func (v gceValue) etag() string { return fmt.Sprintf("%016x", v.version*0x9e3779b1) }

// What is announced under these names.
const (
	GCEMaintenance = "maintenance-event"
	GCEPreempted   = "preempted"
)

// NewGCE returns the service of a machine of which nothing is announced.
func NewGCE() *GCE {
	s := &GCE{values: map[string]gceValue{GCEMaintenance: {"NONE", 1}, GCEPreempted: {"FALSE", 1}}}
	s.answer = s.serve
	return s
}

// Set has a name hold a text. The same text again is a change as well.
func (s *GCE) Set(name, text string) {
	s.change(func() { s.values[name] = gceValue{text, s.values[name].version + 1} })
}

// Preempt announces that the machine is preempted.
func (s *GCE) Preempt() { s.Set(GCEPreempted, "TRUE") }

func (s *GCE) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Metadata-Flavor", "Google")
	w.Header().Set("Server", "Metadata Server for VM")
	name, isInstance := strings.CutPrefix(r.URL.Path, "/computeMetadata/v1/instance/")
	switch {
	case r.Header.Get("Metadata-Flavor") != "Google" || r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "Your client does not have permission to get URL", http.StatusForbidden)
		return
	case r.Method != http.MethodGet:
		http.Error(w, "", http.StatusMethodNotAllowed)
		return
	}
	value, known := s.await(r, name)
	if !isInstance || !known {
		http.Error(w, "", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/text")
	w.Header().Set("ETag", value.etag())
	_, _ = io.WriteString(w, value.text) // into memory
}

// await returns the value once it is another than the caller has, or once the caller's time is over.
func (s *GCE) await(r *http.Request, name string) (gceValue, bool) {
	query := r.URL.Query()
	last := query.Get("last_etag")
	var over <-chan time.Time
	if seconds, err := strconv.Atoi(query.Get("timeout_sec")); err == nil && seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		over = timer.C
	}
	began := true
	for {
		s.mu.Lock()
		value, known := s.values[name]
		changed := s.next()
		s.mu.Unlock()
		// Without the last etag, the next change is waited for.
		isNew := last != "" && value.etag() != last || last == "" && !began
		if !known || query.Get("wait_for_change") != "true" || isNew {
			return value, known
		}
		if last == "" && began {
			last = value.etag()
		}
		began = false
		select {
		case <-r.Context().Done():
			return value, known
		case <-over:
			return value, known
		case <-changed:
		}
	}
}
