package show

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// Wanted is a pod whose eviction is asked for.
type Wanted struct {
	Namespace string
	Pod       string
	Eviction  *snapshot.Eviction // nil: no responder has taken it up yet
	By        []string           // requesters
}

// Evictions lists the evictions that are under way.
type Evictions struct {
	Wanted   []Wanted
	Now      time.Time
	Commands Commands // how to type those that are named
}

// Lines is the list for people.
func (e Evictions) Lines(width int, paint Paint) []string {
	if len(e.Wanted) == 0 {
		return []string{"no eviction is requested"}
	}
	var lines []string
	for _, w := range e.Wanted {
		head := paint.strong(w.Namespace + "/" + w.Pod)
		if w.Eviction != nil {
			head += "  for " + Span(max(0, e.Now.Sub(w.Eviction.Created)))
		}
		lines = append(lines, head+"  requested by "+strings.Join(w.By, ", "))
		words := e.Commands.In("no responder has taken it up yet; if it stays so, see whether usher's manager runs: kubectl get pods -A -l app.kubernetes.io/name=usher")
		if w.Eviction != nil {
			words = EvictionWords(w.Eviction)
		}
		lines = append(lines, indented(words, "       ", width)...)
	}
	return lines
}

// EvictionWords says which responder works on an eviction and what that waits for.
func EvictionWords(e *snapshot.Eviction) string {
	switch {
	case e.Responder == "":
		return "no responder works on it"
	case e.Message == "":
		return e.Responder + " works on it"
	}
	return e.Responder + ": " + clean(e.Message)
}

// JSON is the list for programs.
func (e Evictions) JSON() ([]byte, error) {
	all := []evictionJSON{}
	for _, w := range e.Wanted {
		j := evictionJSON{Namespace: w.Namespace, Pod: w.Pod, Requesters: slices.Clone(w.By)}
		if w.Eviction != nil {
			j.Eviction, j.Since, j.Responder, j.Message = w.Eviction.Name, &w.Eviction.Created, w.Eviction.Responder, w.Eviction.Message
			if !w.Eviction.Expected.IsZero() {
				j.Expected = &w.Eviction.Expected
			}
		}
		all = append(all, j)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("listing evictions: %w", err)
	}
	return text, nil
}

type evictionJSON struct {
	Namespace  string     `json:"namespace"`
	Pod        string     `json:"pod"`
	Eviction   string     `json:"eviction,omitempty"`
	Since      *time.Time `json:"since,omitempty"`
	Responder  string     `json:"responder,omitempty"`
	Message    string     `json:"message,omitempty"`
	Expected   *time.Time `json:"expected,omitempty"`
	Requesters []string   `json:"requesters"`
}
