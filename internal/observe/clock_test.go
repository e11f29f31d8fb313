package observe

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestClockGoesByTheServer(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	date := func(after time.Duration) string { return noon.Add(after).Format(http.TimeFormat) }
	cases := map[string]struct {
		before   time.Duration
		date     string
		received time.Duration // after noon, when the request was sent
		want     time.Duration
	}{
		"the same time":                  {0, date(0), 10 * time.Millisecond, 0},
		"within the second of the date":  {0, date(-time.Second), 10 * time.Millisecond, 0},
		"two minutes ahead":              {0, date(2 * time.Minute), time.Second, 2*time.Minute - time.Second},
		"two minutes behind":             {0, date(-2 * time.Minute), time.Second, -2*time.Minute + time.Second},
		"an answer that took a minute":   {0, date(30 * time.Second), time.Minute, 0},
		"what is known explains it":      {2 * time.Minute, date(2 * time.Minute), 10 * time.Millisecond, 2 * time.Minute},
		"a clock that was set meanwhile": {2 * time.Minute, date(0), 10 * time.Millisecond, 0},
		"no date":                        {time.Minute, "", 0, time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var clock Clock
			clock.ahead.Store(int64(c.before))
			clock.adjust(c.date, noon, noon.Add(c.received))
			if got := time.Duration(clock.ahead.Load()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestClockFollowsAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	}))
	defer server.Close()
	var clock Clock
	client := http.Client{Transport: clock.Wrap(http.DefaultTransport)}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if ahead := time.Until(clock.Now()); ahead < 59*time.Minute {
		t.Errorf("the server is an hour ahead, the clock %s", ahead)
	}
}
