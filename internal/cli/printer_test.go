package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
)

// failing is an output that takes nothing.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestPagesThatCannotBeWritten(t *testing.T) {
	for _, output := range []string{"text", "json"} {
		for _, tt := range []struct{ err, want error }{{syscall.ENOSPC, syscall.ENOSPC}, {syscall.EPIPE, nil}} {
			v := newVoice(genericiooptions.IOStreams{Out: failing{tt.err}, ErrOut: io.Discard}, output, show.Commands{})
			err := v.page(func() ([]byte, error) { return []byte("{}"), nil }, func(int, show.Paint) []string { return []string{"a"} })
			if !errors.Is(err, tt.want) {
				t.Errorf("%s to an output that answers %q: %v, want %v", output, tt.err, err, tt.want)
			}
		}
	}
}

func TestTheEndIsPrintedOnceAllIsUndone(t *testing.T) {
	var out bytes.Buffer
	v := newVoice(genericiooptions.IOStreams{Out: &out, ErrOut: io.Discard}, "text", show.Commands{})
	reporter := v.begin(drain.Request{}, time.Now)
	reporter.Event(drain.Event{At: noon, Kind: drain.EventEnd, Outcome: drain.Interrupted})
	reporter.Event(drain.Event{At: noon, Kind: drain.EventSurge, Message: "shop/web scaled down to 3"})
	v.end()
	v.summary(show.Summary{Outcome: drain.Interrupted, Now: noon})
	got := strings.Split(out.String(), "\n")
	want := []string{"2026-01-02T12:00:00Z surge shop/web scaled down to 3", "2026-01-02T12:00:00Z end interrupted"}
	if diff := cmp.Diff(want, got[:2]); diff != "" || strings.Count(out.String(), " end ") != 1 {
		t.Errorf("%s\n%s", diff, out.String())
	}
}

func TestStoppingSaysWhatIsTidiedUpOnlyOnceThereIsSomething(t *testing.T) {
	if before, after := stoppingWords(false), stoppingWords(true); strings.Contains(before, "tidying") || !strings.Contains(after, "tidying") {
		t.Errorf("got %q before anything is changed, and %q after", before, after)
	}
}

// A key may be pressed at any moment, also where a table begins or ends; the race detector judges.
func TestAKeyIsReadWhileATableBeginsAndEnds(t *testing.T) {
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
