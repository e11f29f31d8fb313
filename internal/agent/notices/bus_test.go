package notices

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// within is how long anything may take that the tests wait for.
const within = 20 * time.Second

// bus is a D-Bus of the test's own.
type bus struct {
	t       *testing.T
	folder  string
	address string
	process *exec.Cmd
}

func newBus(t *testing.T) *bus {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("NOT TESTED: dbus-daemon is not there, and without it nothing of logind is tested; install Debian's package dbus-daemon")
	}
	folder := t.TempDir()
	b := &bus{t: t, folder: folder, address: "unix:path=" + filepath.Join(folder, "socket")}
	config := fmt.Sprintf(`<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><listen>%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="false"/><allow receive_sender="*"/></policy></busconfig>`, b.address)
	if err := os.WriteFile(filepath.Join(folder, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.stop)
	b.start()
	return b
}

func (b *bus) start() {
	b.t.Helper()
	// It says its address once it listens.
	b.process = exec.CommandContext(context.WithoutCancel(b.t.Context()), "dbus-daemon", "--config-file="+filepath.Join(b.folder, "config"), "--nofork", "--print-address")
	out, err := b.process.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.t.Fatalf("starting dbus-daemon: %v", err)
	}
}

func (b *bus) stop() {
	if b.process == nil {
		return
	}
	_ = b.process.Process.Kill()
	_ = b.process.Wait()
	b.process = nil
	_ = os.Remove(filepath.Join(b.folder, "socket"))
}

func (b *bus) connect() *dbus.Conn {
	b.t.Helper()
	conn, err := dbus.Connect(b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn
}

// login is a logind in the test.
type login struct {
	t    *testing.T
	conn *dbus.Conn

	mu    sync.Mutex
	delay time.Duration
	going bool
	busy  bool // it takes no locks
	taken chan *inhibitor
}

// inhibitor is a lock that was taken.
type inhibitor struct {
	what [4]string
	read *os.File
	own  *os.File // this process's copy of what the holder has
}

func (b *bus) login() *login {
	b.t.Helper()
	l := &login{t: b.t, conn: b.connect(), delay: 5 * time.Second, taken: make(chan *inhibitor, 100)}
	for name, methods := range map[string]map[string]any{
		"org.freedesktop.login1.Manager":  {"Inhibit": l.inhibit},
		"org.freedesktop.DBus.Properties": {"Get": l.get},
	} {
		if err := l.conn.ExportMethodTable(methods, logindPath, name); err != nil {
			b.t.Fatal(err)
		}
	}
	if reply, err := l.conn.RequestName(logindBus, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		b.t.Fatalf("%v, %v", reply, err)
	}
	return l
}

func (l *login) inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy {
		return 0, dbus.NewError("org.freedesktop.login1.OperationInProgress", []any{"The operation inhibition has been requested for is already running"})
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	fd := dbus.UnixFD(write.Fd())
	l.taken <- &inhibitor{[4]string{what, who, why, mode}, read, write}
	return fd, nil
}

func (l *login) get(of, name string) (dbus.Variant, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch of + "." + name {
	case logindInterface + ".InhibitDelayMaxUSec":
		return dbus.MakeVariant(uint64(l.delay.Microseconds())), nil
	case logindInterface + ".PreparingForShutdown":
		return dbus.MakeVariant(l.going), nil
	}
	return dbus.Variant{}, dbus.MakeFailedError(errors.New("no such property"))
}

// prepare says that a shutdown is prepared, or called off.
func (l *login) prepare(going bool) {
	l.t.Helper()
	l.mu.Lock()
	l.going, l.busy = going, going
	l.mu.Unlock()
	if err := l.conn.Emit(logindPath, logindInterface+"."+logindShutdown, going); err != nil {
		l.t.Fatal(err)
	}
}

// lock is the next that is taken.
func (l *login) lock() *inhibitor {
	l.t.Helper()
	select {
	case i := <-l.taken:
		return i
	case <-time.After(within):
		l.t.Fatal("no lock was taken")
		return nil
	}
}

// held reports whether another client has the lock; it waits so long for that to end.
func (i *inhibitor) held(wait time.Duration) bool {
	_ = i.own.Close() // once
	_ = i.read.SetReadDeadline(time.Now().Add(wait))
	_, err := i.read.Read(make([]byte, 1))
	return !errors.Is(err, io.EOF)
}
