package notices

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/notice"
)

// logs keeps what was logged, without times.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// take returns what was logged since, without what the lines have in common.
func (l *logs) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.text.String()), "\n")
	l.text.Reset()
	if all[0] == "" {
		return nil
	}
	return all
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// watching is a watcher in a bubble.
type watching struct {
	*Watcher

	t    *testing.T
	logs logs
}

// watch runs a watcher until the test ends.
func watch(t *testing.T, from notice.Source, transport http.RoundTripper, now func() time.Time) *watching {
	t.Helper()
	w := &watching{t: t}
	var err error
	w.Watcher, err = New(Options{Node: "node-1", Sources: []notice.Source{from}, Transport: transport, Now: now, Log: w.logs.logger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

// pass has time pass in the bubble, and all that follows happen.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// stands compares what is on the board: source, kind, event, when from now on, and whether it is withdrawn.
func (w *watching) stands(when string, want ...string) {
	w.t.Helper()
	var got []string
	for _, r := range w.Board().Reports() {
		if !r.Whole {
			got = append(got, string(r.Source)+" not whole")
		}
		for _, n := range r.Notices {
			line := fmt.Sprintf("%s %s", n.Kind, n.Event)
			if !n.EffectiveTime.IsZero() {
				line += fmt.Sprintf(" in %s", time.Until(n.EffectiveTime).Round(time.Second))
			}
			if n.Withdrawn {
				line += " withdrawn"
			}
			if n.Node != "node-1" || n.Source != r.Source {
				w.t.Errorf("%s: %+v in the report of %s", when, n, r.Source)
			}
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// logged compares what was logged since.
func (w *watching) logged(when string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.logs.take()); diff != "" {
		w.t.Errorf("%s, the log (-want +got):\n%s", when, diff)
	}
}

// count is how many of the requests begin so.
func count(requests []string, prefix string) int {
	n := 0
	for _, r := range requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}
