package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress prints one line a program; on a terminal the line counts the seconds while the build runs.
type progress struct {
	out  io.Writer
	live bool
	stop func() // ends the counting line; never nil
}

func newProgress(out io.Writer) *progress {
	file, ok := out.(*os.File)
	return &progress{out: out, live: ok && term.IsTerminal(int(file.Fd())), stop: func() {}}
}

func (p *progress) Kept(name string) { fmt.Fprintf(p.out, "%-24s in the cache\n", name) }

func (p *progress) Start(name string) {
	if !p.live {
		fmt.Fprintf(p.out, "%-24s building\n", name)
		return
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { p.count(name, done) })
	p.stop = sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}

func (p *progress) count(name string, done <-chan struct{}) {
	begin, tick := time.Now(), time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		fmt.Fprintf(p.out, "\r%-24s building %ds", name, int(time.Since(begin).Seconds()))
		select {
		case <-tick.C:
		case <-done:
			fmt.Fprint(p.out, "\r\x1b[K")
			return
		}
	}
}

func (p *progress) Done(name string, took time.Duration) {
	p.stop()
	fmt.Fprintf(p.out, "%-24s built in %ds\n", name, int(took.Round(time.Second).Seconds()))
}

func (p *progress) close() { p.stop() }
