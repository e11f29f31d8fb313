package realnode

import (
	"fmt"
	"net"
)

// readiness receives a program's readiness through the notify protocol of systemd, which containerd speaks.
type readiness struct {
	path string        // for NOTIFY_SOCKET
	said chan struct{} // closed when the program is ready
}

func listenReady() (readiness, error) {
	r := readiness{path: "/run/notify.sock", said: make(chan struct{})}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: r.path, Net: "unixgram"})
	if err != nil {
		return readiness{}, fmt.Errorf("listening for readiness: %w", err)
	}
	go func() {
		defer socket.Close()
		defer close(r.said)
		// containerd's first word is READY=1. Should reading fail, the import that follows says what is wrong.
		_, _ = socket.Read(make([]byte, 256))
	}()
	return r, nil
}
