package cli

import (
	"io"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
)

// A key may be pressed at any moment, also where a table begins or ends; the race detector judges.
func TestAKeyIsHeardWhileATableBeginsAndEnds(t *testing.T) {
	v := newVoice(genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}, "text", show.Commands{})
	v.term = terminal{fd: -1, live: true}
	var pressing sync.WaitGroup
	pressing.Go(func() {
		for range 100 {
			v.urgent("stopping")
		}
	})
	for range 10 {
		v.begin(drain.Request{}, time.Now)
		v.end()
	}
	pressing.Wait()
}
