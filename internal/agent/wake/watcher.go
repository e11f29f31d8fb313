package wake

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Reason says what the kernel has noticed.
type Reason string

// The reasons.
const (
	Stall   Reason = "stall"   // processes wait for memory (PSI)
	Level   Reason = "level"   // a cgroup's use crossed a level that was set (cgroup v1)
	OutOf   Reason = "out"     // a cgroup is at its limit, and the OOM killer is at work (cgroup v1)
	Changed Reason = "changed" // the counters of a cgroup's limit and kills moved (cgroup v2)
)

// Offer is one way to be woken.
type Offer struct {
	Name string
	// Err says why the machine does not offer it; nil if it does.
	Err error
}

// Options say what there is to watch.
type Options struct {
	// Proc is where /proc is seen.
	Proc string
	// Unified: cgroups are v2.
	Unified bool
	// Pods is the folder of the cgroup of all pods in the hierarchy of memory.
	Pods string
}

// Watcher waits for the kernel. Close ends it.
type Watcher struct {
	reasons chan Reason
	quit    int // an eventfd that ends the wait

	mu      sync.Mutex
	sources []source
	over    []int            // files that are not waited for any more
	levels  map[string]armed // by folder; nil if none can be set
	closed  bool
	ended   chan struct{}
}

// source is a file that becomes ready.
type source struct {
	reason Reason
	fd     int
	events int16
	drain  bool // there is something to read
}

// Open asks for everything that the machine may offer, and says what it does.
func Open(o Options) (*Watcher, []Offer, error) {
	quit, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for the kernel: %w", err)
	}
	w := &Watcher{reasons: make(chan Reason, 16), quit: quit, levels: map[string]armed{}, ended: make(chan struct{})}
	offers := []Offer{w.try("stalls of the machine (PSI)", Stall, unix.POLLPRI, func() (int, error) { return openPSI(o.Proc + "/pressure/memory") })}
	if o.Unified {
		w.levels = nil
		offers = append(offers,
			w.try("stalls of pods (PSI)", Stall, unix.POLLPRI, func() (int, error) { return openPSI(o.Pods + "/memory.pressure") }),
			w.try("events of pods' memory (cgroup v2)", Changed, unix.POLLIN, func() (int, error) { return openInotify(o.Pods + "/memory.events") }),
			Offer{"levels of memory in use", errors.New("cgroup v2 has none")})
	} else {
		offers = append(offers,
			w.try("pods at their limit (cgroup v1)", OutOf, unix.POLLIN, func() (int, error) { return openControl(o.Pods, "memory.oom_control", "") }),
			Offer{"levels of memory in use (cgroup v1)", w.probeLevels(o.Pods)})
	}
	go w.wait()
	return w, offers, nil
}

func (w *Watcher) try(name string, reason Reason, events int16, open func() (int, error)) Offer {
	fd, err := open()
	if err != nil {
		return Offer{name, err}
	}
	w.sources = append(w.sources, source{reason, fd, events, events == unix.POLLIN})
	return Offer{Name: name}
}

// C delivers what the kernel notices. What is not received in time is dropped: one look sees all of it.
func (w *Watcher) C() <-chan Reason { return w.reasons }

// Close gives everything back to the kernel.
func (w *Watcher) Close() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.closed = true
	w.mu.Unlock()
	w.stir()
	<-w.ended
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sources {
		unix.Close(s.fd)
	}
	for _, fd := range w.over {
		unix.Close(fd)
	}
	unix.Close(w.quit)
}

// stir makes wait look at the sources anew.
func (w *Watcher) stir() {
	one := [8]byte{1}
	_, _ = unix.Write(w.quit, one[:]) // it fails only when it is stirred already
}

// calm is how long no further changes are reported after one. A pod that reads files at its own limit makes a hundred in a
// second, for as long as it runs, and its node is short of nothing.
const calm = time.Second

func (w *Watcher) wait() {
	defer close(w.ended)
	var changed time.Time
	for {
		sources, closed := w.now()
		if closed {
			return
		}
		timeout := -1
		if left := time.Until(changed.Add(calm)); left > 0 {
			sources = slices.DeleteFunc(sources, func(s source) bool { return s.reason == Changed })
			timeout = int(left.Milliseconds()) + 1
		}
		ready, err := w.poll(sources, timeout)
		if err != nil {
			return
		}
		for i, s := range sources {
			if w.take(s, ready[i]) && s.reason == Changed {
				changed = time.Now()
			}
		}
	}
}

// poll waits until something is ready, for so many milliseconds at most, and says what.
func (w *Watcher) poll(sources []source, timeout int) ([]int16, error) {
	fds := []unix.PollFd{{Fd: int32(w.quit), Events: unix.POLLIN}}
	for _, s := range sources {
		fds = append(fds, unix.PollFd{Fd: int32(s.fd), Events: s.events})
	}
	_, err := unix.Poll(fds, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return nil, err
	}
	if fds[0].Revents != 0 {
		drain(w.quit)
	}
	ready := make([]int16, len(sources))
	for i := range ready {
		ready[i] = fds[i+1].Revents
	}
	return ready, nil
}

func (w *Watcher) now() ([]source, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fd := range w.over {
		unix.Close(fd)
	}
	w.over = nil
	return append([]source(nil), w.sources...), w.closed
}

// take passes on what a source says, and reports whether it says anything. One that is broken, as when its cgroup is gone, is
// asked no more.
func (w *Watcher) take(s source, got int16) bool {
	switch {
	case got&s.events != 0:
		if s.drain {
			drain(s.fd)
		}
		select {
		case w.reasons <- s.reason:
		default:
		}
		return true
	case got&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0:
		w.drop(s.fd)
	}
	return false
}

func (w *Watcher) drop(fd int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range w.sources {
		if s.fd == fd {
			w.sources = append(w.sources[:i:i], w.sources[i+1:]...)
			w.over = append(w.over, fd)
			return
		}
	}
}

func drain(fd int) {
	var buffer [4096]byte
	for {
		n, err := unix.Read(fd, buffer[:])
		if err != nil || n < len(buffer) {
			return
		}
	}
}

// triggers of PSI, the best first: what is to be stalled for how long, in a window of how long, in microseconds. Without the
// capability SYS_RESOURCE, windows must be multiples of two seconds.
var triggers = []string{"some 70000 1000000", "some 100000 2000000"}

func openPSI(name string) (int, error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: name, Err: err}
	}
	for _, trigger := range triggers {
		if _, err = unix.Write(fd, append([]byte(trigger), 0)); err == nil {
			return fd, nil
		}
	}
	unix.Close(fd)
	return 0, fmt.Errorf("setting a trigger on %s: %w", name, err)
}

func openInotify(name string) (int, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return 0, fmt.Errorf("watching %s: %w", name, err)
	}
	if _, err := unix.InotifyAddWatch(fd, name, unix.IN_MODIFY); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("watching %s: %w", name, err)
	}
	return fd, nil
}
