package httpfault

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing/iotest"
)

// Serve returns what a client gets for a request to a server: the handler's answer, or what the fault that happens makes of it. A handler that returns
// after the request's context has ended has not answered.
func (s *Faults) Serve(server string, r *http.Request, handler http.Handler) (*http.Response, error) {
	fault := s.take(server, r)
	switch {
	case fault == nil:
		return serve(r, handler)
	case fault.Refuse:
		return nil, Refused()
	case fault.Silent:
		return Silence(r)
	case fault.Status > 0:
		header := http.Header{}
		for key, value := range fault.Header {
			header.Set(key, value)
		}
		return response(r, fault.Status, header, []byte(fault.Body)), nil
	}
	answer, err := serve(r, handler)
	switch {
	case err != nil:
		return nil, err
	case fault.Lost:
		return nil, errors.New("read: connection reset by peer")
	case fault.Cut > 0:
		answer.Body = io.NopCloser(io.MultiReader(io.LimitReader(answer.Body, int64(fault.Cut)), iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	return answer, nil
}

// Refused is the error of a connection to where nothing listens.
func Refused() error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} }

// Silence is what a client gets that gives up.
func Silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// serve returns the handler's answer.
func serve(r *http.Request, handler http.Handler) (*http.Response, error) {
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	arrived := r.Clone(r.Context())
	arrived.Host = cmp.Or(r.URL.Host, r.Host)
	if r.Body == nil {
		arrived.Body = http.NoBody
	}
	handler.ServeHTTP(w, arrived)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return response(r, w.status, w.header, w.body.Bytes()), nil
}

func response(r *http.Request, status int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *recorder) Write(part []byte) (int, error) { return w.body.Write(part) }

// Transport is an http.RoundTripper without a socket.
type Transport func(r *http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (send Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return send(r)
}
