package testlab

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// door is one address for several servers, as a Service is: a connection goes to the next one that takes it.
type door struct {
	listener net.Listener

	mu      sync.Mutex
	behind  []string
	next    int
	waiting sync.WaitGroup
}

func openDoor(tb testing.TB) *door {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	check(tb, "listening", err)
	d := &door{listener: listener}
	d.waiting.Go(d.serve)
	tb.Cleanup(func() {
		_ = listener.Close()
		d.waiting.Wait()
	})
	return d
}

func (d *door) url() string { return "https://" + d.listener.Addr().String() }

func (d *door) add(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.behind, address) {
		d.behind = append(d.behind, address)
	}
}

func (d *door) serve() {
	for {
		from, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go d.lead(from)
	}
}

// lead joins a connection to the first server that takes it; to none: the connection is refused.
func (d *door) lead(from net.Conn) {
	defer from.Close()
	for _, address := range d.turn() {
		to, err := new(net.Dialer).Dial("tcp", address)
		if err != nil {
			continue
		}
		connect(from, to)
		return
	}
}

// turn returns the servers, each time beginning with another one.
func (d *door) turn() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.behind) == 0 {
		return nil
	}
	d.next = (d.next + 1) % len(d.behind)
	return slices.Concat(d.behind[d.next:], d.behind[:d.next])
}

func connect(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
}

// carry ends both directions when one ends: HTTP needs no half of a connection.
func carry(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
}
