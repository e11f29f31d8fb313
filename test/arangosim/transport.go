package arangosim

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// Transport carries requests to the deployment without a socket: what a request's host names is asked. Faults happen here.
func (c *Cluster) Transport() http.RoundTripper { return transport{c} }

type transport struct{ cluster *Cluster }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	id, up := t.cluster.listening(r.URL.Host)
	if !up {
		return nil, refused()
	}
	fault := t.cluster.strike(id, r)
	switch {
	case fault == nil:
		return t.serve(r), nil
	case fault.Refuse:
		return nil, refused()
	case fault.Silent:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case fault.Lost:
		t.serve(r)
		return nil, errors.New("read: connection reset by peer")
	case fault.Cut > 0:
		response := t.serve(r)
		whole, err := io.ReadAll(response.Body)
		response.Body = broken(string(whole), fault.Cut)
		return response, err
	}
	return response(r, fault.Status, http.Header{"Location": {fault.Location}}, fault.Body), nil
}

func refused() error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} }

func (t transport) serve(r *http.Request) *http.Response {
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	r = r.Clone(r.Context())
	r.Host = r.URL.Host
	if r.Body == nil {
		r.Body = http.NoBody
	}
	t.cluster.ServeHTTP(w, r)
	return response(r, w.status, w.header, w.body.String())
}

func response(r *http.Request, status int, header http.Header, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// listening is the server at an address.
func (c *Cluster) listening(host string) (id string, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if p.host == host && (p.up || id == "") {
			id, up = p.id, p.up
		}
	}
	return id, up
}
