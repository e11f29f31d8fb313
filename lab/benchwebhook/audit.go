package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// entry is one line of the audit log.
type entry struct {
	Verb                     string
	UserAgent                string
	RequestReceivedTimestamp time.Time
	ObjectRef                struct{ Resource, Subresource string }
}

// count adds to each load what the managers asked of the apiserver while it lasted. Leases are not in the log.
func count(path string, loads []*load) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("counting requests: %w", err)
	}
	defer file.Close()
	for _, l := range loads {
		l.requests = map[string]int{}
	}
	decoder := json.NewDecoder(bufio.NewReader(file))
	for {
		var e entry
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("counting requests: reading the audit log: %w", err)
		}
		if !strings.HasPrefix(e.UserAgent, "usher/") {
			continue
		}
		for _, l := range loads {
			if !e.RequestReceivedTimestamp.Before(l.began) && !e.RequestReceivedTimestamp.After(l.ended) {
				l.requests[e.kind()]++
			}
		}
	}
}

func (e *entry) kind() string {
	if e.ObjectRef.Subresource == "" {
		return e.Verb + " " + e.ObjectRef.Resource
	}
	return e.Verb + " " + e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
}
