package notices

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

const (
	// linkLocal is where all three clouds have their metadata service. By its address, no DNS stands between.
	linkLocal = "http://169.254.169.254"
	// mostBody is how long an answer may be, in bytes: the events of a set of a thousand machines have room in it.
	mostBody = 1 << 20
	// mostHeader is how long its headers may be, in bytes.
	mostHeader = 16 << 10
	// connectPatience is how long a connection may take: the service is on the machine's own host.
	connectPatience = 2 * time.Second
	// idleFor is how long a connection that is not used is kept.
	idleFor = 90 * time.Second
	// mostQuoted is how much of an answer that is not understood is shown, in bytes.
	mostQuoted = 60
)

// metadataClient asks the metadata service of this machine, and nothing else: it goes by no proxy and follows no redirect.
type metadataClient struct {
	http  *http.Client
	base  string
	clock observe.Clock // as the service has it
}

// newMetadataClient returns a client; base and transport are the machine's own unless they are given.
func newMetadataClient(base string, transport http.RoundTripper) *metadataClient {
	if transport == nil {
		transport = newTransport()
	}
	c := &metadataClient{base: base}
	c.http = &http.Client{
		Transport:     c.clock.Wrap(transport),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:       nil, // whatever the environment says
		DialContext: (&net.Dialer{Timeout: connectPatience}).DialContext,
		// An answer may be compressed only if it was asked for so: what is read is what was sent.
		DisableCompression:     true,
		MaxResponseHeaderBytes: mostHeader,
		MaxConnsPerHost:        8,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        idleFor,
	}
}

// answer is what the service has said to one request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends one request and waits for its answer for so long.
func (c *metadataClient) call(ctx context.Context, patience time.Duration, method, path string, header map[string]string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer came within %s", patience))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for key, value := range header {
		request.Header.Set(key, value)
	}
	a, err := c.send(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
			err = cause
		}
		return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return a, nil
}

func (c *metadataClient) send(request *http.Request) (answer, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostBody+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("reading the answer: %w", err)
	case len(body) > mostBody:
		return answer{}, fmt.Errorf("the answer has more than %d bytes", mostBody)
	}
	return answer{response.StatusCode, response.Header, body}, nil
}

// unexpected is the error of an answer with a status that the service does not have there.
func (a *answer) unexpected(method, path string) error {
	if to := a.header.Get("Location"); a.status/100 == 3 && to != "" {
		return fmt.Errorf("%s %s: answered %d, a redirect to %q, which is not followed", method, path, a.status, text.Cut(text.Line(to), mostQuoted))
	}
	return fmt.Errorf("%s %s: answered %d %q", method, path, a.status, text.Cut(text.Line(string(a.body)), mostQuoted))
}
