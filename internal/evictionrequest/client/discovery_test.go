package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/evictionrequest/client"
)

// silent answers no request before its context ends.
type silent struct{ t *testing.T }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Err() == nil {
		s.t.Error("the request outlives the call for which it is made")
	}
	return nil, context.Cause(r.Context())
}

// A server that does not answer holds up what asks no longer than its context lasts.
func TestDiscoveryEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := client.New(&rest.Config{Host: "http://cluster.example.com", Transport: silent{t}})
	if _, err := c.REST(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context has ended", err)
	}
}
