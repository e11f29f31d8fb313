package cli

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/observe"
)

// watchHealth passes a drain on to a reporter and adds when the cluster stops and starts
// to answer: nothing is waited for in silence.
type watchHealth struct {
	runner.Reporter

	broken func() (observe.Break, bool)
	out    bool // an outage was reported and is not over
}

// Frame reports an outage that has begun or ended since the last frame. A watch that
// breaks causes a frame.
func (o *watchHealth) Frame(now time.Time, d drain.Decision) {
	found, out := o.broken()
	switch {
	case out && !o.out:
		o.note(now, outageWords(found)+"; the drain goes on when it answers again")
	case !out && o.out:
		o.note(now, "the apiserver answers again")
	}
	o.out = out
	o.Reporter.Frame(now, d)
}

func (o *watchHealth) note(now time.Time, words string) {
	o.Event(drain.Event{At: now, Kind: drain.EventNote, Message: words})
}

// outageWords says what cannot be read, since when and why.
func outageWords(b observe.Break) string {
	err := b.Err
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err // without the address of the watch, which is long
	}
	return fmt.Sprintf("%s cannot be read since %s: %v", b.Resource, b.Since.Format(time.TimeOnly), err)
}

// staleness says why what is shown may not be how things are; "" while it is.
func staleness(broken func() (observe.Break, bool)) string {
	if found, out := broken(); out {
		return outageWords(found)
	}
	return ""
}
