package port

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAKeptPortIsForItsServerOnly(t *testing.T) {
	p, err := Keep()
	if err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		if other, err := keep(p.Number); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s, keeping it a second time: got %v, %v", when, other, err)
		}
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.Number}}
		if _, err := from.DialContext(t.Context(), "tcp", "127.0.0.1:1"); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s, a connection from it: got %v", when, err)
		}
		to, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Address())
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s, a connection to it: got %v, %v", when, to, err)
		}
	}
	refused("before its server has come")
	for range 2 {
		serve(t, p)
		refused("while its server is down")
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAReleasedPortIsFree(t *testing.T) {
	p, err := Keep()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := keep(p.Number)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

// serve listens on the port for one connection, and ends it first: a server that comes back finds its own past there.
func serve(t *testing.T, p *Port) {
	t.Helper()
	server, err := new(net.ListenConfig).Listen(t.Context(), "tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(accepted.Close(), client.Close(), server.Close()); err != nil {
		t.Fatal(err)
	}
}
