// Command usher-demo answers: what does a drain look like, beside that of kubectl? It drains a node of two simulated clusters that
// are alike, one as Usher does, by its own decisions, and one as kubectl does, in real time and side by side. It needs no cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	first := race(ctx, newTerminal(os.Stdout))
	fmt.Printf("\nfirst picture after %.1f s\n", first.Sub(began(first)).Seconds())
}

// beganVariable holds when the command was given, in seconds since 1970. `make demo` sets it, so that compiling counts.
const beganVariable = "USHER_DEMO_BEGAN"

func began(otherwise time.Time) time.Time {
	at, err := strconv.ParseFloat(os.Getenv(beganVariable), 64)
	if err != nil {
		return otherwise
	}
	return time.UnixMilli(int64(at * 1000))
}

// newTerminal looks at what out is: a pipe gets a line for each thing that happens.
func newTerminal(out *os.File) *screen {
	s := &screen{out: out, size: func() (int, int) { return 100, 24 }}
	if fd := int(out.Fd()); term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		s.live, s.colour = true, os.Getenv("NO_COLOR") == ""
		s.size = func() (int, int) {
			width, height, err := term.GetSize(fd)
			if err != nil || width <= 0 || height <= 0 {
				return 80, 24
			}
			return width, height
		}
	}
	return s
}
