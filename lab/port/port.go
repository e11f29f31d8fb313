// Package port answers: on which ports of 127.0.0.1 may the servers of a lab listen?
//
// A port that was only found free can be gone when its server comes to listen: to another server that a port is sought
// for at the same time, or, while a server is down, to an outgoing connection.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// Ports come from below the range that Linux gives to outgoing connections by default: a server that outlives the program
// that kept its port is safe there too. They are drawn at random, so that many that seek at once do not try the same ones.
const (
	First = 20000
	Last  = 32000 // exclusive
)

// Port is one that is kept for a server.
type Port struct {
	Number int
	socket int
}

// Keep finds a free port and keeps it until Release, or until this program ends. Meanwhile the kernel gives it to no
// connection, and Keep to no other caller. Its server may listen on it as often as it likes, if it sets SO_REUSEADDR, as
// every program in Go does.
func Keep() (*Port, error) {
	var last error
	for range 100 {
		p, err := keep(First + rand.IntN(Last-First))
		if err == nil {
			return p, nil
		}
		last = err
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("finding a free port between %d and %d on 127.0.0.1: %w", First, Last, last)
}

// keep binds the port alone, and shares it only then: a socket that binds without sharing is refused while another has the
// port, and one that shares is refused while another listens.
func keep(number int) (*Port, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Bind(socket, &unix.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(socket))
	}
	return &Port{Number: number, socket: socket}, nil
}

// Address is the port as host:port.
func (p *Port) Address() string { return fmt.Sprintf("127.0.0.1:%d", p.Number) }

// Release gives the port up. A server that listens on it goes on.
func (p *Port) Release() error { return unix.Close(p.socket) }
