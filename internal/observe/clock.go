package observe

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Clock is the time as the apiserver has it. What is true in a cluster is dated by
// several machines: deletions and readiness by the apiserver, signs of life by the process that
// drains. They can be compared only if all go by one clock, and the apiserver's is the
// only one that all of them see. The zero value goes by this machine's.
type Clock struct {
	ahead    atomic.Int64 // nanoseconds by which the apiserver is ahead of this machine
	answered atomic.Bool
}

// Now is the present time; it may jump by about a second as more becomes known.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Answered reports whether the head of an answer has come through the transport.
func (c *Clock) Answered() bool { return c.answered.Load() }

// Wrap looks at the Date of every answer that comes through the transport.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		sent := time.Now()
		response, err := next.RoundTrip(request)
		if err == nil {
			c.answered.Store(true)
			c.adjust(response.Header.Get("Date"), sent, time.Now())
		}
		return response, err
	})
}

// adjust takes the date of an answer into account. It was written, in whole seconds, after the request was sent and
// before the answer was received: the least difference that explains it is believed.
func (c *Clock) adjust(date string, sent, received time.Time) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	least, most := at.Sub(received), at.Add(time.Second).Sub(sent)
	if now := time.Duration(c.ahead.Load()); now >= least && now <= most {
		return
	}
	c.ahead.Store(int64(min(max(0, least), most)))
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
