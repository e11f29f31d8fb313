package testlab

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Request is a kind of request to the apiserver.
type Request struct {
	Verb     string // as in RBAC: get, list, watch, create, patch, delete …
	Resource string // with the subresource, such as pods/eviction; the path, such as /api, where there is none
	Code     int    // HTTP status of the answer
}

// Requests counts requests by kind.
type Requests map[Request]int

// Total returns the number of all requests.
func (r Requests) Total() int {
	sum := 0
	for _, n := range r {
		sum += n
	}
	return sum
}

// Of returns the number of requests of that verb on that resource, whatever the answer was.
func (r Requests) Of(verb, resource string) int {
	sum := 0
	for k, n := range r {
		if k.Verb == verb && k.Resource == resource {
			sum += n
		}
	}
	return sum
}

// auditEntry is what is read of a line of the audit log.
type auditEntry struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Name string `json:"username"`
	} `json:"user"`
	RequestURI string    `json:"requestURI"`
	Received   time.Time `json:"requestReceivedTimestamp"`
	Object     struct {
		Namespace   string `json:"namespace"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// Requests counts, from the apiserver's audit log, the requests that clients whose user agent begins with the prefix
// sent since then (the zero time for all). A watch is counted when it has ended, so count after the client has.
// Leases are not in the log.
func (l *Lab) Requests(tb testing.TB, userAgentPrefix string, since time.Time) Requests {
	tb.Helper()
	return l.count(tb, func(e *auditEntry) bool {
		return strings.HasPrefix(e.UserAgent, userAgentPrefix) && !e.Received.Before(since)
	})
}

// RequestsOf counts so the requests of a user.
func (l *Lab) RequestsOf(tb testing.TB, user string) Requests {
	tb.Helper()
	return l.count(tb, func(e *auditEntry) bool { return e.User.Name == user })
}

// RequestsAbout counts so the requests of a user since then that are about the objects of a namespace ("": none), about objects of the cluster that are
// named, whether in their paths or in what selects them, and about who may do what. What clients do for all of the cluster, such as watches and
// what is about themselves, is none of them.
func (l *Lab) RequestsAbout(tb testing.TB, user string, since time.Time, namespace string, names ...string) Requests {
	tb.Helper()
	return l.count(tb, func(e *auditEntry) bool {
		if e.User.Name != user || e.Received.Before(since) || e.Verb == "watch" {
			return false
		}
		named := func(name string) bool { return e.Object.Namespace == "" && strings.Contains(e.RequestURI, name) }
		return namespace != "" && e.Object.Namespace == namespace || e.Object.Resource == "subjectaccessreviews" || slices.ContainsFunc(names, named)
	})
}

// String lists the kinds with their numbers, the most frequent first.
func (r Requests) String() string {
	numbers := map[string]int{}
	for kind, n := range r {
		numbers[kind.Verb+" "+kind.Resource] += n
	}
	kinds := slices.SortedFunc(maps.Keys(numbers), func(a, b string) int { return cmp.Or(cmp.Compare(numbers[b], numbers[a]), cmp.Compare(a, b)) })
	for i, kind := range kinds {
		kinds[i] = strconv.Itoa(numbers[kind]) + " " + kind
	}
	return strings.Join(kinds, ", ")
}

func (l *Lab) count(tb testing.TB, counted func(*auditEntry) bool) Requests {
	tb.Helper()
	file, err := os.Open(l.cluster.AuditLog())
	check(tb, "reading the audit log", err)
	defer file.Close()
	counts := Requests{}
	lines := bufio.NewReader(file)
	for {
		// What has no end yet is being written, about a request whose answer no client has had.
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return counts
		}
		check(tb, "reading the audit log", err)
		var e auditEntry
		check(tb, "reading the audit log", json.Unmarshal(line, &e))
		if counted(&e) {
			counts[e.kind()]++
		}
	}
}

func (e auditEntry) kind() Request {
	r := Request{Verb: e.Verb, Resource: e.Object.Resource, Code: e.Response.Code}
	switch {
	case r.Resource == "":
		r.Resource, _, _ = strings.Cut(e.RequestURI, "?")
	case e.Object.Subresource != "":
		r.Resource += "/" + e.Object.Subresource
	}
	return r
}
