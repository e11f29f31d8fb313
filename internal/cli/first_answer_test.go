package cli

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/internal/observe"
)

// late is an apiserver that answers after that long.
type late time.Duration

func (l late) RoundTrip(*http.Request) (*http.Response, error) {
	<-time.After(time.Duration(l))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestFirstAnswer(t *testing.T) {
	cases := map[string]struct {
		takes []time.Duration
		want  string
	}{
		"an answer at once":            {[]time.Duration{time.Second}, ""},
		"a late first answer":          {[]time.Duration{20 * time.Second}, "waiting for the first answer of the apiserver at db.example.com:6443\n"},
		"said once":                    {[]time.Duration{20 * time.Second, 20 * time.Second}, "waiting for the first answer of the apiserver at db.example.com:6443\n"},
		"a watch that has little news": {[]time.Duration{time.Second, time.Minute}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				var clock observe.Clock
				var once sync.Once
				for _, takes := range c.takes {
					f := &firstAnswer{next: clock.Wrap(late(takes)), clock: &clock, out: &out, once: &once}
					request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://db.example.com:6443/api", http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := f.RoundTrip(request); err != nil { //nolint:bodyclose // there is none
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if out.String() != c.want {
					t.Errorf("said %q, want %q", out.String(), c.want)
				}
			})
		})
	}
}

// overloaded is an apiserver that completes its third handshake.
type overloaded struct{ tried *int }

func (o overloaded) RoundTrip(r *http.Request) (*http.Response, error) {
	*o.tried++
	<-time.After(10 * time.Second)
	if *o.tried < 3 {
		return nil, errors.New("net/http: TLS handshake timeout")
	}
	body, err := io.ReadAll(r.Body)
	return &http.Response{StatusCode: len(body), Body: http.NoBody}, err
}

// A request that writes is sent once a handshake is completed, whole, and not for ever.
func TestFirstAnswerAfterHandshakes(t *testing.T) {
	for name, c := range map[string]struct{ before, want int }{"the third one": {0, len("body")}, "none in time": {-9, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clock observe.Clock
				var once sync.Once
				tried := c.before
				f := &firstAnswer{next: clock.Wrap(overloaded{&tried}), clock: &clock, out: io.Discard, once: &once}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://db.example.com:6443/api", strings.NewReader("body"))
				if err != nil {
					t.Fatal(err)
				}
				response, err := f.RoundTrip(request) //nolint:bodyclose // there is none
				got := 0
				if err == nil {
					got = response.StatusCode
				}
				if err != nil && err.Error() != "no answer from db.example.com:6443 within 30s" {
					t.Errorf("it says %v", err)
				}
				if got != c.want || tried-c.before > 3 {
					t.Errorf("received %d bytes after %d tries, %v; want %d", got, tried-c.before, err, c.want)
				}
			})
		})
	}
}

// mute is an apiserver that answers nothing.
type mute struct{}

func (mute) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestFirstAnswerThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock observe.Clock
		var once sync.Once
		f := &firstAnswer{next: clock.Wrap(mute{}), clock: &clock, out: io.Discard, once: &once}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://db.example.com:6443/api", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = f.RoundTrip(request) //nolint:bodyclose // there is none
		const want = "no answer from db.example.com:6443 within 30s"
		if took := time.Since(began); err == nil || err.Error() != want || took != 30*time.Second {
			t.Errorf("after %s: %v, want %q", took, err, want)
		}
	})
}
