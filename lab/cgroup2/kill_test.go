package cgroup2

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/lab/kernel"
)

// family is some processes of a container.
type family struct {
	first *exec.Cmd
	out   io.Reader // ends when all of them have
}

// found starts a shell with a script in a container, and returns when the script has said something.
func found(t *testing.T, container, script string) family {
	t.Helper()
	f := family{first: exec.CommandContext(t.Context(), "/bin/sh", "-c", "echo $$ > cgroup.procs; "+script)}
	f.first.Dir = container
	out, err := f.first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.out = out
	if err := f.first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.first.Process.Kill() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return f
}

// awaitEnd returns when all have ended.
func (f family) awaitEnd(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, f.out); err != nil {
		t.Fatal(err)
	}
	_ = f.first.Wait()
}

// TestKill: whatever a pod has started ends, and nothing of others.
func TestKill(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		other := n.pod(t, 9)
		bystander := startWorker(t, other.container)
		if err := n.machine.CanKill(); err != nil {
			t.Errorf("it cannot kill: %v", err)
		}
		for i, tt := range []struct {
			name, script string
			prepare      func(t *testing.T, p pod) (container string)
			killed       int // at least
		}{
			{"a process and its children", "sleep 600 & sleep 600 & echo; wait", nil, 3},
			{"a process that ignores signals", "trap '' TERM INT; sleep 600 & echo; while :; do wait; done", nil, 2},
			{"a process that starts others all the time", "more() { while :; do sleep 0; done; }; more & more & echo; more", nil, 3},
			{"a container with cgroups of its own", "sleep 600 & echo; wait", nested, 2},
			{"a container with threads in cgroups of their own", "echo $$ > threads/cgroup.threads; sleep 600 & echo; wait", threaded, 2},
		} {
			t.Run(tt.name, func(t *testing.T) {
				p := n.pod(t, i+1)
				container := p.container
				if tt.prepare != nil {
					container = tt.prepare(t, p)
				}
				f := found(t, container, tt.script)
				if err := n.machine.CanKill(); err != nil {
					t.Errorf("beside such a pod it cannot kill: %v", err)
				}
				if killed, err := n.machine.Kill(p.uid); killed < tt.killed || err != nil {
					t.Fatalf("killed %d, %v; want at least %d", killed, err, tt.killed)
				}
				f.awaitEnd(t)
				bystander.do(t, "take 1")
			})
		}
		if killed, err := n.machine.Kill("0a1b2c3d-0000-4000-8000-0000000000ff"); killed != 0 || !errors.Is(err, machine.ErrNoCgroup) {
			t.Errorf("a pod that is not here: killed %d, %v", killed, err)
		}
	})
}

// nested is a container in which a container runtime runs, say.
func nested(t *testing.T, p pod) string {
	t.Helper()
	return grow(t, p.container[len(mounted):]+"/inner/deep")
}

// threaded is a container whose program gives threads cgroups of their own, as libvirt does. The kernel does not list the
// processes in those; they are counted above them.
func threaded(t *testing.T, p pod) string {
	t.Helper()
	inner := filepath.Join(p.container, "threads")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(inner, "cgroup.type"), "threaded")
	return p.container
}

func TestNoSuicide(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		if own := n.machine.Own(); own != "" {
			t.Errorf("outside of all pods, its own is %s", own)
		}
		p := n.pod(t, 1)
		home := filepath.Join(mounted, "system.slice", "usher.service")
		enter(t, p.container)
		defer enter(t, home)
		if killed, err := n.machine.Kill(p.uid); killed != 0 || !errors.Is(err, machine.ErrOwnPod) {
			t.Errorf("its own pod: killed %d, %v", killed, err)
		}
		if own := n.machine.Own(); own != p.uid {
			t.Errorf("its own pod is %q", own)
		}
	})
}
