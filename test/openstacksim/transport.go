package openstacksim

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
)

// Fault makes answers go wrong. What it does not name matches everything.
type Fault struct {
	Method string
	Path   string // a part of it
	Times  int    // how often; 0: until Heal

	// One of these happens.
	Refuse bool // the connection is refused: the request does not arrive
	Silent bool // there is no answer until the caller gives up
	Lost   bool // the request is carried out and the connection breaks before the answer
	Cut    int  // after so many bytes the answer breaks off
	Status int  // this is the answer, with Body

	Body string
}

// Inject adds a fault; the first that matches a request happens to it.
func (c *Cloud) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// Heal takes all faults away.
func (c *Cloud) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// ExpireTokens has all tokens be no longer valid.
func (c *Cloud) ExpireTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tokens)
}

// TakeRequests returns the requests that have come, as METHOD PATH, and forgets them.
func (c *Cloud) TakeRequests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.requests
	c.requests = nil
	return all
}

// Transport carries requests to the region without a socket. Faults happen here.
func (c *Cloud) Transport() http.RoundTripper { return transport{c} }

type transport struct{ cloud *Cloud }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	fault := t.cloud.strike(r)
	switch {
	case fault == nil:
		answer := t.serve(r)
		if answer.StatusCode == hang {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return answer, nil
	case fault.Refuse:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case fault.Silent:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case fault.Lost:
		t.serve(r)
		return nil, errors.New("read: connection reset by peer")
	case fault.Cut > 0:
		answer := t.serve(r)
		whole, err := io.ReadAll(answer.Body)
		answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(whole[:min(fault.Cut, len(whole))]), failing{}))
		return answer, err
	}
	return response(r, fault.Status, http.Header{}, []byte(fault.Body)), nil
}

func (c *Cloud) strike(r *http.Request) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r.Method+" "+r.URL.Path)
	at := slices.IndexFunc(c.faults, func(f *Fault) bool {
		return (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path)
	})
	if at < 0 {
		return nil
	}
	f := c.faults[at]
	if f.Times--; f.Times == 0 {
		c.faults = slices.Delete(c.faults, at, at+1)
	}
	return f
}

func (t transport) serve(r *http.Request) *http.Response {
	var sent []byte
	if r.Body != nil {
		sent, _ = io.ReadAll(r.Body) // a request of the test's own process
	}
	status, header, answer := t.cloud.serve(r, sent)
	return response(r, status, header, answer)
}

func response(r *http.Request, status int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
