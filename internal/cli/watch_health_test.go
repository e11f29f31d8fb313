package cli

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/observe"
)

// notes keeps the messages of events and counts frames.
type notes struct {
	said   []string
	frames int
}

func (n *notes) Frame(time.Time, drain.Decision) { n.frames++ }
func (n *notes) Event(e drain.Event)             { n.said = append(n.said, e.Message) }

func TestAnOutageIsReportedOnceAndItsEndToo(t *testing.T) {
	cut := observe.Break{Resource: "pods", Since: noon, Err: &url.Error{Op: "Get", URL: "https://far/away?watch=true", Err: errors.New("connection refused")}}
	reporter := &notes{}
	var now observe.Break
	var out bool
	o := &watchHealth{Reporter: reporter, broken: func() (observe.Break, bool) { return now, out }}
	for _, out = range []bool{false, true, true, true, false, false} {
		now = cut
		o.Frame(noon, drain.Decision{})
	}
	want := []string{
		"pods cannot be read since 12:00:00: connection refused; the drain goes on when it answers again",
		"the apiserver answers again",
	}
	if diff := cmp.Diff(want, reporter.said); diff != "" || reporter.frames != 6 {
		t.Errorf("%d frames\n%s", reporter.frames, diff)
	}
}

func TestStalenessIsEmptyWhileTheClusterAnswers(t *testing.T) {
	if got := staleness(func() (observe.Break, bool) { return observe.Break{}, false }); got != "" {
		t.Errorf("got %q", got)
	}
}
