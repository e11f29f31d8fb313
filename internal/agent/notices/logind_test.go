package notices

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/notice"
)

// inhibiting is a source that runs until the test ends.
type inhibiting struct {
	*Board

	t    *testing.T
	stop func()
	logs logs
}

func inhibit(t *testing.T, address string, patience time.Duration) *inhibiting {
	t.Helper()
	i := &inhibiting{t: t}
	i.Board = newBoard(i.logs.logger())
	i.add(logindName, notice.Logind)
	l := &logind{node: "node-1", address: address, board: i.Board, cluster: time.Now, patience: patience}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx) })
	i.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(i.stop)
	return i
}

// until waits until the report is as wanted: nothing, shutdown or withdrawn.
func (i *inhibiting) until(want string) notice.Notice {
	i.t.Helper()
	late := time.After(within)
	for {
		r := i.Reports()[0]
		got, n := "nothing", notice.Notice{}
		if len(r.Notices) > 0 {
			got, n = "shutdown", r.Notices[0]
		}
		switch {
		case n.Withdrawn:
			got = "withdrawn"
		case !r.Whole:
			got = "unknown"
		}
		if got == want {
			return n
		}
		select {
		case <-i.Changed():
		case <-late:
			i.t.Fatalf("%s, want %s; the log: %q", got, want, i.logs.take())
		}
	}
}

func TestLogindShutdown(t *testing.T) {
	b := newBus(t)
	login := b.login()
	i := inhibit(t, b.address, busPatience)
	lock := login.lock()
	if diff := cmp.Diff([4]string{"shutdown", "usher agent", "pods are moved off the node", "delay"}, lock.what); diff != "" {
		t.Errorf("the lock (-want +got):\n%s", diff)
	}
	i.until("nothing")
	login.mu.Lock()
	login.delay = 30 * time.Second // it was set since
	login.mu.Unlock()
	began := time.Now()
	login.prepare(true)
	n := i.until("shutdown")
	if left := n.EffectiveTime.Sub(began); left < 30*time.Second || left > 30*time.Second+within {
		t.Errorf("%s are left, want what logind waits for: 30s", left)
	}
	n.EffectiveTime = time.Time{}
	want := notice.Notice{Source: notice.Logind, Kind: notice.Shutdown, Event: "shutdown", Node: "node-1", Message: "the machine shuts down; logind waits for at most 30s"}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Errorf("the notice (-want +got):\n%s", diff)
	}
	if !lock.held(100 * time.Millisecond) {
		t.Error("the lock was let go while the node is not drained")
	}
	i.Drained(notice.Logind, EventShutdown)
	if lock.held(within) {
		t.Error("the lock is held although the node is drained")
	}
}

func TestLogindCalledOff(t *testing.T) {
	b := newBus(t)
	login := b.login()
	i := inhibit(t, b.address, busPatience)
	first := login.lock()
	login.prepare(true)
	i.until("shutdown")
	login.prepare(false)
	i.until("withdrawn")
	second := login.lock()
	if first.held(within) {
		t.Error("both locks are held")
	}
	i.Drained(notice.Logind, EventShutdown) // of an event that does not stand
	login.prepare(true)
	i.until("shutdown")
	if !second.held(100 * time.Millisecond) {
		t.Error("the next shutdown is not delayed")
	}
	i.stop()
	if second.held(within) {
		t.Error("an agent that was stopped holds the lock")
	}
}

// A shutdown that began before the agent did is one, and takes no lock any more.
func TestLogindUnderWay(t *testing.T) {
	b := newBus(t)
	login := b.login()
	login.mu.Lock()
	login.going, login.busy = true, true
	login.mu.Unlock()
	inhibit(t, b.address, busPatience).until("shutdown")
}

// Only logind says that the machine shuts down.
func TestLogindForged(t *testing.T) {
	b := newBus(t)
	login := b.login()
	i := inhibit(t, b.address, busPatience)
	login.lock()
	i.until("nothing")
	stranger := b.connect()
	own := i.names(b)
	// To the agent itself, which no rule keeps from it.
	forged := &dbus.Message{
		Type: dbus.TypeSignal,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldInterface: dbus.MakeVariant(logindInterface), dbus.FieldMember: dbus.MakeVariant(logindShutdown),
			dbus.FieldPath: dbus.MakeVariant(logindPath), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(true)),
		},
		Body: []any{true},
	}
	for _, name := range own {
		forged.Headers[dbus.FieldDestination] = dbus.MakeVariant(name)
		stranger.Send(forged, nil)
	}
	// What logind says after it comes after it.
	if err := stranger.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err; err != nil {
		t.Fatal(err)
	}
	login.prepare(false)
	login.lock() // taken by an agent that has seen both
	if r := i.Reports()[0]; len(r.Notices) > 0 {
		t.Errorf("%+v", r)
	}
}

// names are the connections on the bus.
func (i *inhibiting) names(b *bus) []string {
	i.t.Helper()
	var names, own []string
	if err := b.connect().BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&names); err != nil {
		i.t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, ":") {
			own = append(own, name)
		}
	}
	return own
}

// A logind that is started anew, or a bus, withdraws nothing, and is asked for a lock anew; the one before is held until then.
func TestLogindIsStartedAnew(t *testing.T) {
	b := newBus(t)
	login := b.login()
	i := inhibit(t, b.address, busPatience)
	first := login.lock()
	login.prepare(true)
	i.until("shutdown")
	login.conn.Close()
	i.logs.until(t, "logind has ended, or was started anew")
	if !first.held(100 * time.Millisecond) {
		t.Error("without logind, the lock is let go")
	}
	i.until("shutdown")
	second := b.login()
	i.until("withdrawn") // it knows of none
	lock := second.lock()
	if first.held(within) {
		t.Error("both locks are held")
	}
	b.stop()
	i.logs.until(t, "the bus has closed the connection")
	if !lock.held(100 * time.Millisecond) {
		t.Error("without a bus, the lock is let go")
	}
	b.start()
	b.login().lock()
}

func TestLogindWithoutABus(t *testing.T) {
	nowhere := "unix:path=" + filepath.Join(t.TempDir(), "none")
	i := inhibit(t, nowhere, busPatience)
	i.logs.until(t, "connecting to the bus at "+nowhere+": dial unix")
	i.until("unknown")
}

func TestLogindWithoutLogind(t *testing.T) {
	b := newBus(t)
	i := inhibit(t, b.address, busPatience)
	i.logs.until(t, `looking for logind on the bus: Could not get owner of name 'org.freedesktop.login1': no such name`)
	i.until("unknown")
	b.login().lock()
	i.until("nothing")
}

// A bus that does not answer is waited for so long and no longer.
func TestLogindSilentBus(t *testing.T) {
	address := filepath.Join(t.TempDir(), "s")
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	inhibit(t, "unix:path="+address, 50*time.Millisecond).logs.until(t, "no answer came within 50ms")
}

// until waits until something was logged.
func (l *logs) until(t *testing.T, want string) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(within)
	all := ""
	for !strings.Contains(all, want) {
		select {
		case <-look.C:
			all += strings.Join(l.take(), "\n")
		case <-late:
			t.Fatalf("%q was not logged: %s", want, all)
		}
	}
}
