package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"usher.sh/usher/internal/observe"
)

// silentFor is how long the first answer of an apiserver is waited for in silence.
const silentFor = 5 * time.Second

// handshakesFor is how long handshakes that time out are repeated: net/http gives each ten seconds, an overloaded apiserver needs more.
const handshakesFor = 20 * time.Second

// answerWithin is how long the first answer is waited for at all; package observe waits as long for it.
const answerWithin = 30 * time.Second

// awaitFirstAnswer has clients of a configuration wait for an apiserver that is slow to answer for the first time, and say so. The clock
// goes by its answers.
func awaitFirstAnswer(config *rest.Config, clock *observe.Clock, progress io.Writer) {
	var once sync.Once
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &firstAnswer{next: clock.Wrap(next), clock: clock, out: progress, once: &once}
	})
}

// firstAnswer is a transport that says once that the apiserver has not answered yet, where that takes long: an overloaded apiserver, or an
// address at which there is none, would look like a program that hangs.
type firstAnswer struct {
	next  http.RoundTripper
	clock *observe.Clock
	out   io.Writer
	once  *sync.Once // of all transports of a connection
}

// RoundTrip implements http.RoundTripper.
func (f *firstAnswer) RoundTrip(request *http.Request) (*http.Response, error) {
	if f.clock.Answered() {
		return f.next.RoundTrip(request) //nolint:wrapcheck // a transport hands on
	}
	host := request.URL.Host
	defer time.AfterFunc(silentFor, func() { f.say(host) }).Stop()
	ctx, giveUp := context.WithCancelCause(request.Context()) // ends with its parent where there is an answer, whose body is still to be read
	none := fmt.Errorf("no answer from %s within %s", host, answerWithin)
	defer time.AfterFunc(answerWithin, func() {
		if !f.clock.Answered() {
			giveUp(none)
		}
	}).Stop()
	response, err := f.shakeHands(request.WithContext(ctx))
	if err != nil && (errors.Is(context.Cause(ctx), none) || handshakeTimedOut(err)) {
		return nil, none
	}
	return response, err
}

// shakeHands sends a request, again where its handshake has timed out.
func (f *firstAnswer) shakeHands(request *http.Request) (*http.Response, error) {
	for began := time.Now(); ; {
		response, err := f.next.RoundTrip(request)
		if !handshakeTimedOut(err) || time.Since(began) > handshakesFor || request.Context().Err() != nil {
			return response, err //nolint:wrapcheck // a transport hands on
		}
		request = request.Clone(request.Context()) // nothing of it was sent
		if request.GetBody != nil {
			if request.Body, err = request.GetBody(); err != nil {
				return nil, fmt.Errorf("sending a request again: %w", err)
			}
		}
	}
}

// handshakeTimedOut knows the error by its words: net/http has no name for it.
func handshakeTimedOut(err error) bool {
	return err != nil && strings.Contains(err.Error(), "TLS handshake timeout")
}

func (f *firstAnswer) say(host string) {
	if !f.clock.Answered() {
		f.once.Do(func() { fmt.Fprintf(f.out, "waiting for the first answer of the apiserver at %s\n", host) })
	}
}
