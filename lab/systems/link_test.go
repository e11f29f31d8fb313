package systems

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
)

// link stands before a member's peer port. It can cut the member off from its peers and lets its clients be: peers name
// themselves in a header, so that also what the member asks of others is found at their links.
type link struct {
	url    string
	target string

	mu    sync.Mutex
	cut   map[string]bool // ids of members that get no further, in hexadecimal; "*": none does
	conns map[net.Conn]string
	ever  int           // connections that there have been
	left  chan struct{} // gets one for each that has ended
}

// count is how many connections there have been.
func (l *link) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ever
}

// empty returns when all connections have ended.
func (l *link) empty(t *testing.T) {
	t.Helper()
	for range l.count() {
		select {
		case <-l.left:
		case <-patience(t).Done():
			t.Fatal("a connection stays open")
		}
	}
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	l := &link{target: target, cut: map[string]bool{}, conns: map[net.Conn]string{}, left: make(chan struct{}, 1000)}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.carry(ctx, from) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		l.set("*", true)
		all.Wait()
	})
	return l
}

// isolate cuts a member off from all others.
func (c *etcd) isolate(m *member, id string) {
	for _, o := range c.members {
		o.link.set(id, true)
	}
	m.link.set("*", true)
}

func (c *etcd) heal() {
	for _, m := range c.members {
		m.link.mu.Lock()
		clear(m.link.cut)
		m.link.mu.Unlock()
	}
}

func (l *link) set(from string, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[from] = cut
	for conn, by := range l.conns {
		if by == from || from == "*" {
			_ = conn.Close()
		}
	}
}

func (l *link) carry(ctx context.Context, from net.Conn) {
	defer func() { _ = from.Close() }()
	if !l.enter(from, "") {
		return
	}
	defer l.leave(from)
	reader := bufio.NewReaderSize(from, 64<<10)
	by, head := sender(reader)
	if !l.enter(from, by) {
		return
	}
	to, err := new(net.Dialer).DialContext(ctx, "tcp", l.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() {
		_, _ = io.Copy(to, io.MultiReader(bytes.NewReader(head), reader))
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// enter notes which member sends, and reports whether it may.
func (l *link) enter(conn net.Conn, by string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.conns[conn]; !known {
		l.ever++
	}
	l.conns[conn] = by
	return !l.cut[by] && !l.cut["*"]
}

func (l *link) leave(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
	select {
	case l.left <- struct{}{}:
	default: // no test counts that many
	}
}

// sender reads the head of the first request.
func sender(r *bufio.Reader) (id string, head []byte) {
	for {
		line, err := r.ReadBytes('\n')
		head = append(head, line...)
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		if textproto.CanonicalMIMEHeaderKey(name) == "X-Server-From" {
			id = strings.TrimSpace(value)
		}
		if err != nil || len(bytes.TrimSpace(line)) == 0 {
			return id, head
		}
	}
}
