package realfdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	writeEvery      = 20 * time.Millisecond // at most
	transactionLife = 5 * time.Second       // of FoundationDB: what takes longer is more to clients than a slow answer
	answerLimit     = time.Minute           // after which fdbcli is ended, and another one started
)

// writer commits a key of its own at a time, and remembers what was acknowledged. What failed may be there or not, and is not checked.
type writer struct {
	d      *database
	file   string // the cluster file, which fdbcli keeps up to date
	cancel context.CancelFunc
	done   chan struct{}
	next   int

	mu           sync.Mutex
	began        time.Time
	acknowledged []commit
	failures     []error
}

// commit is one that was acknowledged.
type commit struct {
	key string
	at  time.Time
}

func (d *database) startWriter(t *testing.T) *writer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fdb.cluster")
	if err := os.WriteFile(file, []byte(d.clusterFile(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{d: d, file: file, cancel: cancel, done: make(chan struct{}), began: time.Now()}
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			if err := w.session(ctx); ctx.Err() == nil {
				w.mu.Lock()
				w.failures = append(w.failures, err)
				w.mu.Unlock()
			}
		}
	}()
	t.Cleanup(w.stop)
	return w
}

// session has one fdbcli commit keys until one fails. It would write its answers in blocks, which stdbuf keeps it from.
func (w *writer) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "stdbuf", "-oL", w.d.fdbcli, "-C", w.file, "--no-status")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	if _, err := io.WriteString(in, "writemode on\n"); err != nil {
		return err
	}
	answers := bufio.NewScanner(out)
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := w.commit(in, answers, cancel); err != nil {
			return err
		}
	}
}

// commit has the next key be committed. end ends fdbcli.
func (w *writer) commit(in io.Writer, answers *bufio.Scanner, end func()) error {
	key := fmt.Sprintf("written%07d", w.next)
	w.next++
	late := time.AfterFunc(answerLimit, end)
	defer late.Stop()
	if _, err := fmt.Fprintf(in, "set %[1]s %[1]s\n", key); err != nil {
		return err
	}
	for answers.Scan() {
		switch line := answers.Text(); {
		case strings.HasPrefix(line, "Committed"):
			w.mu.Lock()
			w.acknowledged = append(w.acknowledged, commit{key, time.Now()})
			w.mu.Unlock()
			return nil
		case strings.Contains(line, "ERROR"):
			return errors.New(line)
		}
	}
	return fmt.Errorf("%s: fdbcli has ended, or has not answered in %s", key, answerLimit)
}

func (w *writer) stop() {
	w.cancel()
	<-w.done
}

// pauses are the times since one moment in which no commit was acknowledged.
func (w *writer) pauses(since time.Time) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	last := since
	for _, c := range w.acknowledged {
		if c.at.After(since) {
			all, last = append(all, c.at.Sub(last)), c.at
		}
	}
	return append(all, time.Since(last))
}

// unavailable is how long pauses lasted together that were longer than a transaction lives.
func unavailable(pauses []time.Duration) time.Duration {
	var all time.Duration
	for _, one := range pauses {
		if one > transactionLife {
			all += one
		}
	}
	return all
}

// check returns how many commits were acknowledged before it asks, and the keys of those that are not there.
func (w *writer) check(t *testing.T) (acknowledged int, lost []string) {
	t.Helper()
	w.mu.Lock()
	all := slices.Clone(w.acknowledged)
	w.mu.Unlock()
	there := map[string]bool{}
	for line := range strings.Lines(w.d.ask(t, "getrange written writteo 10000000")) {
		if key, value, is := strings.Cut(strings.TrimSpace(line), "' is `"); is && strings.TrimSuffix(value, "'") == key[1:] {
			there[key[1:]] = true
		}
	}
	for _, c := range all {
		if !there[c.key] {
			lost = append(lost, c.key)
		}
	}
	return len(all), lost
}
