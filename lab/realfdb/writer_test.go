package realfdb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writer commits a value at a time by fdbcli, with one cluster file, which fdbcli keeps up to date.
type writer struct {
	d            *database
	cancel       context.CancelFunc
	done         chan struct{}
	acknowledged []string
	failed       int
	pause        time.Duration // the longest between two commits that were acknowledged
}

func (d *database) startWriter(t *testing.T) *writer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fdb.cluster")
	if err := os.WriteFile(file, []byte(d.clusterFile(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{d: d, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		last := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprintf("written%06d", i)
			out, err := exec.CommandContext(ctx, d.fdbcli, "-C", file, "--no-status", "--timeout", "30", "--exec", "writemode on; set "+key+" "+key).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Committed") {
				w.failed++
				continue
			}
			w.acknowledged, w.pause, last = append(w.acknowledged, key), max(w.pause, time.Since(last)), time.Now()
		}
	}()
	t.Cleanup(w.stop)
	return w
}

func (w *writer) stop() {
	w.cancel()
	<-w.done
}

// check returns how many commits were acknowledged, and how many of them are not there.
func (w *writer) check(t *testing.T) (acknowledged, lost int) {
	t.Helper()
	there := w.d.ask(t, "getrange written writteo 1000000")
	for _, key := range w.acknowledged {
		if !strings.Contains(there, "`"+key+"'") {
			t.Errorf("%s is lost", key)
			lost++
		}
	}
	return len(w.acknowledged), lost
}
