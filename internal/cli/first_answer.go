package cli

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"usher.sh/usher/internal/observe"
)

// silentFor is how long the first answer of an apiserver is waited for in silence.
const silentFor = 5 * time.Second

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
	if !f.clock.Answered() {
		defer time.AfterFunc(silentFor, func() { f.say(request.URL.Host) }).Stop()
	}
	return f.next.RoundTrip(request) //nolint:wrapcheck // a transport hands on
}

func (f *firstAnswer) say(host string) {
	if !f.clock.Answered() {
		f.once.Do(func() { fmt.Fprintf(f.out, "waiting for the first answer of the apiserver at %s\n", host) })
	}
}
