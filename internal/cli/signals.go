package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"usher.sh/usher/internal/cli/show"
)

// interruptible returns a context that the first Ctrl-C, SIGTERM or hang-up cancels,
// after calling first; the second calls second. stop gives the signals back.
//
// A signal that the caller's shell has set to be ignored (nohup, a job in the background)
// stays ignored. A broken pipe is never a reason to die in the middle of a drain.
func interruptible(parent context.Context, first, second func()) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	got := make(chan os.Signal, 4)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	signal.Ignore(syscall.SIGPIPE)
	done := make(chan struct{})
	go countSignals(got, done, func() {
		first()
		cancel()
	}, second)
	return ctx, func() {
		signal.Stop(got)
		close(done)
		cancel()
	}
}

// outlasting returns out for a command that changes several things: its reader may go away and leave none of them undone. What is written
// from then on is dropped.
func outlasting(out io.Writer) *show.Quiet {
	signal.Ignore(syscall.SIGPIPE)
	return &show.Quiet{Out: out}
}

// together is how soon after the first another signal is the same: timeout(1) sends one to the program and one to its group.
// No one presses a key again as fast.
const together = 100 * time.Millisecond

// countSignals calls first for the first signal and second for the next. A hang-up is
// never the second: a closed terminal sends several, and no key was pressed.
func countSignals(got <-chan os.Signal, done <-chan struct{}, first, second func()) {
	var begun time.Time
	for count := 0; count < 2; {
		select {
		case s := <-got:
			if count > 0 && (s == syscall.SIGHUP || time.Since(begun) < together) {
				continue
			}
			if count++; count == 1 {
				first()
				begun = time.Now() // what was sent while that took its time is in the channel
			} else {
				second()
			}
		case <-done:
			return
		}
	}
}
