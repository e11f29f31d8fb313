package binaries

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// broken is a binary that can never be built.
var broken = Binary{Name: "broken", Module: "etcd", Package: "go.etcd.io/etcd/server/v3/no-such-folder"}

type recorder struct{ lines []string }

func (r *recorder) Start(name string)                 { r.lines = append(r.lines, "start "+name) }
func (r *recorder) Done(name string, _ time.Duration) { r.lines = append(r.lines, "done "+name) }
func (r *recorder) Kept(name string)                  { r.lines = append(r.lines, "kept "+name) }

// halfGo stands in for go: it writes half a program to where -o says, and then does what the test wants.
const halfGo = `#!/bin/sh
for arg; do [ "$last" = -o ] && echo half > "$arg"; last=$arg; done
`

func TestFailedBuildLeavesNothingUnderTheFinalName(t *testing.T) {
	for name, then := range map[string]string{"fails": "exit 1", "is interrupted": "exec /bin/sleep 600"} {
		t.Run(name, func(t *testing.T) {
			tools := t.TempDir()
			if err := os.WriteFile(filepath.Join(tools, "go"), []byte(halfGo+then), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", tools)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cache := Cache{Dir: t.TempDir()}
			if then != "exit 1" {
				go cancelWhenHalf(t, cache, cancel)
			}
			err := cache.Build(ctx, []Binary{broken}, &recorder{})
			if err == nil || !strings.Contains(err.Error(), "building broken") {
				t.Errorf("got %v, want it to say what could not be built", err)
			}
			if left, _ := filepath.Glob(filepath.Join(cache.Dir, "*", "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// cancelWhenHalf cancels once half a program was written somewhere in the cache.
func cancelWhenHalf(t *testing.T, cache Cache, cancel func()) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for _, pattern := range []string{"*/broken", "*/*/broken"} {
			if found, _ := filepath.Glob(filepath.Join(cache.Dir, pattern)); len(found) > 0 {
				cancel()
				return
			}
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			return
		}
	}
}

func TestErrorOfABuildShowsWhatTheCompilerSaid(t *testing.T) {
	err := Cache{Dir: t.TempDir()}.Build(t.Context(), []Binary{broken}, &recorder{})
	if err == nil || !strings.Contains(err.Error(), "no-such-folder") {
		t.Errorf("got %v, want go's words", err)
	}
}

func TestBuildKeepsWhatIsThere(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	path, err := cache.target(broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var r recorder
	if err := cache.Build(t.Context(), []Binary{broken}, &r); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.lines, ", "); got != "kept broken" {
		t.Errorf("got %q, want it kept", got)
	}
}

func TestEverythingThatGoesIntoAProgramChangesItsPlace(t *testing.T) {
	base := Binary{Name: "x", Module: "etcd", Package: "p", LDFlags: "-s", Env: []string{"A=1"}}
	changes := map[string]func(*Binary){
		"module":  func(b *Binary) { b.Module = "kwok" },
		"package": func(b *Binary) { b.Package = "q" },
		"ldflags": func(b *Binary) { b.LDFlags = "-w" },
		"env":     func(b *Binary) { b.Env = []string{"A=2"} },
	}
	cache := Cache{Dir: "/cache"}
	before, err := cache.target(base)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range changes {
		b := base
		change(&b)
		after, err := cache.target(b)
		if err != nil {
			t.Fatal(err)
		}
		if after == before {
			t.Errorf("%s: still at %s", name, after)
		}
	}
}

func TestPathOfWhatIsNotBuiltSaysWhatToDo(t *testing.T) {
	_, err := Cache{Dir: t.TempDir()}.Path("etcd")
	if !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "make lab") {
		t.Errorf("got %v, want ErrNotBuilt with the command", err)
	}
	if _, err := (Cache{Dir: t.TempDir()}).Path("no-such"); err == nil || errors.Is(err, ErrNotBuilt) {
		t.Errorf("unknown program: got %v", err)
	}
}
