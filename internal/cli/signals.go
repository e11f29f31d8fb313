package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible returns a context that the first Ctrl-C, SIGTERM or hang-up cancels,
// after calling first; the second calls second. stop gives the signals back.
//
// A signal that the caller's shell told us to ignore (nohup, a job in the background)
// stays ignored. A broken pipe is never a reason to die in the middle of a drain.
func interruptible(parent context.Context, first, second func()) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	got := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	signal.Ignore(syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		for _, act := range []func(){first, second} {
			select {
			case <-got:
				act()
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		close(done)
		cancel()
	}
}
