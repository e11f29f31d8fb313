package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"usher.sh/usher/lab/throwaway"
)

// requests is what one client asked of the apiserver during a run, all verbs and watches included.
type requests struct {
	all     int
	refused int // evictions answered with 429
	evicted int // evictions accepted
}

// entry is one line of the audit log.
type entry struct {
	Verb                     string
	UserAgent                string
	User                     struct{ Username string }
	RequestReceivedTimestamp time.Time
	ObjectRef                struct{ Resource, Subresource string }
	ResponseStatus           struct{ Code int }
}

// count reads the audit log at path and counts, for each run, what its client sent while it ran.
func count(path string, runs []*run) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("counting requests: %w", err)
	}
	defer file.Close()
	decoder := json.NewDecoder(bufio.NewReader(file))
	for {
		var e entry
		err := decoder.Decode(&e)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("counting requests: reading the audit log: %w", err)
		}
		for _, r := range runs {
			if r.sent(e) {
				r.requests.add(e)
			}
		}
	}
}

// sent distinguishes runs of the same program by their time: they never overlap. Of the manager all counts, also what it does beside.
func (r *run) sent(e entry) bool {
	return (e.User.Username == throwaway.ManagerAccount) == r.tool.manager && strings.HasPrefix(e.UserAgent, r.tool.agent) &&
		!e.RequestReceivedTimestamp.Before(r.started) && !e.RequestReceivedTimestamp.After(r.ended)
}

func (q *requests) add(e entry) {
	q.all++
	if e.ObjectRef.Subresource != "eviction" {
		return
	}
	switch {
	case e.ResponseStatus.Code == http.StatusTooManyRequests:
		q.refused++
	case e.ResponseStatus.Code < http.StatusMultipleChoices:
		q.evicted++
	}
}
