package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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

// waiting answers no request, and says when the first has come.
type waiting struct{ asked chan struct{} }

func (w waiting) RoundTrip(r *http.Request) (*http.Response, error) {
	close(w.asked)
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// What asks while another waits for the server waits no longer than its own context lasts either.
func TestDiscoveryIsSharedForAsLongAsEachContextLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waiting{asked: make(chan struct{})}
		c := client.New(&rest.Config{Host: "http://cluster.example.com", Transport: w})
		patient, giveUp := context.WithCancel(t.Context())
		first := make(chan error)
		go func() {
			_, err := c.REST(patient)
			first <- err
		}()
		<-w.asked
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.REST(hurried); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("error %v after %s, want that the context has ended after a second", err, time.Since(began))
		}
		giveUp()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
	})
}
