package notices

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/godbus/dbus/v5"

	"usher.sh/usher/internal/notice"
	"usher.sh/usher/internal/notice/metadata"
)

// SystemBus is where the host's D-Bus is seen by a process in the host's pid namespace, whatever its own files are.
const SystemBus = "unix:path=/proc/1/root/run/dbus/system_bus_socket"

const (
	logindName      = "logind shutdown"
	logindBus       = "org.freedesktop.login1"
	busName         = "org.freedesktop.DBus"
	busOwnerChanged = "NameOwnerChanged"
	logindPath      = dbus.ObjectPath("/org/freedesktop/login1")
	logindInterface = "org.freedesktop.login1.Manager"
	logindShutdown  = "PrepareForShutdown"
	busPatience     = 10 * time.Second
	// mostSignals is how many signals may wait to be looked at.
	mostSignals = 16
)

// EventShutdown is the id of the machine's shutdown.
const EventShutdown = "shutdown"

// mostDelay is the longest delay that is believed.
const mostDelay = 24 * time.Hour

// logind delays the shutdown of the machine by an inhibitor lock until the node is drained, for as long as logind allows it.
type logind struct {
	node    string
	address string
	board   *Board
	cluster func() time.Time
	// patience is how long the bus, and what is on it, may take to answer.
	patience time.Duration

	lock *os.File // nil: not held. It outlives a session: without the bus, a shutdown is delayed all the same
}

// run has a session on the bus, and another once that has ended, until ctx ends.
func (l *logind) run(ctx context.Context) {
	defer l.hold(nil)
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		err := l.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > longestErrorPause {
			failures = 0
		}
		l.board.fail(logindName, err)
		wait(ctx, backoff(failures))
		failures++
	}
}

// hold has the lock be this one, and lets go of the one before. Without one, a shutdown waits for the agent no longer.
func (l *logind) hold(lock *os.File) {
	if l.lock != nil {
		_ = l.lock.Close() // of a pipe that nothing is written to
	}
	l.lock = lock
}

// session is one connection to the bus.
type session struct {
	*logind

	conn    *dbus.Conn
	signals chan *dbus.Signal
	owner   string        // the connection of logind: what others send is not its word
	delay   time.Duration // how long logind waits for locks
}

// session ends with an error.
func (l *logind) session(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &session{logind: l, signals: make(chan *dbus.Signal, mostSignals)}
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer s.conn.Close()
	going, err := s.begin(ctx)
	if err != nil {
		return err
	}
	s.enter(going)
	return s.follow(ctx)
}

// connect authenticates on the bus. The connection ends with ctx.
func (s *session) connect(ctx context.Context) error {
	within, stop := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, func() { stop(nil) })
	late := time.AfterFunc(s.patience, func() { stop(fmt.Errorf("no answer came within %s", s.patience)) })
	conn, err := dbus.Connect(s.address, dbus.WithContext(within), dbus.WithSignalHandler(dbus.NewSequentialSignalHandler()))
	late.Stop()
	if cause := context.Cause(within); cause != nil {
		err = cause // the connection, if there is one, ends with it
	}
	if err != nil {
		stop(nil)
		return fmt.Errorf("connecting to the bus at %s: %w", s.address, err)
	}
	s.conn = conn
	return nil
}

// begin subscribes first, so that nothing is missed, then asks whether a shutdown is under way already and takes the lock.
func (s *session) begin(ctx context.Context) (going bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	s.conn.Signal(s.signals)
	err = errors.Join(
		s.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(logindBus), dbus.WithMatchObjectPath(logindPath),
			dbus.WithMatchInterface(logindInterface), dbus.WithMatchMember(logindShutdown)),
		s.conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(busName), dbus.WithMatchMember(busOwnerChanged), dbus.WithMatchArg(0, logindBus)),
	)
	if err != nil {
		return false, fmt.Errorf("subscribing to logind's signals: %w", err)
	}
	if err := s.conn.BusObject().CallWithContext(ctx, busName+".GetNameOwner", 0, logindBus).Store(&s.owner); err != nil {
		return false, fmt.Errorf("looking for logind on the bus: %w", err)
	}
	if going, err = property[bool](ctx, s, "PreparingForShutdown"); err != nil {
		return false, err
	}
	if err := s.readDelay(ctx); err != nil {
		return false, err
	}
	if going { // it is too late for a lock, unless one is held already
		return true, nil
	}
	return false, s.inhibit(ctx)
}

func (s *session) readDelay(ctx context.Context) error {
	micros, err := property[uint64](ctx, s, "InhibitDelayMaxUSec")
	if err == nil {
		s.delay = time.Duration(min(micros, uint64(mostDelay.Microseconds()))) * time.Microsecond
	}
	return err
}

// property reads one of logind's.
func property[T bool | uint64](ctx context.Context, s *session, name string) (value T, err error) {
	call := s.manager().CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, logindInterface, name)
	if err := call.Store(&value); err != nil {
		return value, fmt.Errorf("reading logind's %s: %w", name, err)
	}
	return value, nil
}

func (s *session) manager() dbus.BusObject { return s.conn.Object(logindBus, logindPath) }

// inhibit takes a lock in the place of the one that may be held: a logind that was started anew may not know that any more.
func (s *session) inhibit(ctx context.Context) error {
	var fd dbus.UnixFD
	call := s.manager().CallWithContext(ctx, logindInterface+".Inhibit", 0, "shutdown", "usher agent", "pods are moved off the node", "delay")
	if err := call.Store(&fd); err != nil {
		return fmt.Errorf("taking logind's inhibitor lock: %w", err)
	}
	s.hold(os.NewFile(uintptr(fd), "inhibitor"))
	return nil
}

// enter says whether a shutdown is under way. One ends once logind's delay is over, whatever locks there are.
func (s *session) enter(going bool) {
	if !going {
		s.board.enter(logindName, metadata.None())
		return
	}
	s.board.enter(logindName, metadata.Answer{Notices: []notice.Notice{{
		Source: notice.Logind, Kind: notice.Shutdown, Event: EventShutdown, Node: s.node, EffectiveTime: s.cluster().Add(s.delay),
		Message: fmt.Sprintf("the machine shuts down; logind waits for at most %s", s.delay),
	}}})
}

// follow looks at signals until the connection ends, or logind's.
func (s *session) follow(ctx context.Context) error {
	for {
		drained, left := s.board.isDrained(notice.Logind, EventShutdown)
		if drained && s.lock != nil {
			s.board.log.Info("the node is drained: the shutdown is not delayed any longer")
			s.hold(nil)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-left:
		case signal, open := <-s.signals:
			if !open {
				return errors.New("the bus has closed the connection")
			}
			if err := s.take(ctx, signal); err != nil {
				return err
			}
		}
	}
}

// take looks at one signal. Any process on the bus may send some.
func (s *session) take(ctx context.Context, signal *dbus.Signal) error {
	switch {
	case signal.Sender == busName && signal.Name == busName+"."+busOwnerChanged:
		return errors.New("logind has ended, or was started anew")
	case signal.Sender != s.owner || signal.Name != logindInterface+"."+logindShutdown:
		return nil
	}
	var going bool
	if err := dbus.Store(signal.Body, &going); err != nil {
		return fmt.Errorf("logind's signal %s is not as it is documented: %w", logindShutdown, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if going {
		_ = s.readDelay(ctx) // it may have been set since; what it was at the start is kept
		s.enter(true)
		return nil
	}
	s.enter(false) // it was called off: the next one is to be delayed again
	return s.inhibit(ctx)
}
