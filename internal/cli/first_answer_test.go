package cli

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher.sh/usher/internal/observe"
)

// late is an apiserver that answers after that long.
type late time.Duration

func (l late) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Duration(l)) // synctest's
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
