package cgroup2

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"usher.sh/usher/internal/agent/wake"
	"usher.sh/usher/lab/kernel"
)

func (n *node) watch(t *testing.T) (*wake.Watcher, []wake.Offer) {
	t.Helper()
	w, offers, err := wake.Open(wake.Options{Proc: n.machine.ProcFolder(), Unified: true, Pods: n.machine.PodsFolder()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w, offers
}

// TestOffers: what this kernel does not have is said, and is no error.
func TestOffers(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		w, offers := n.watch(t)
		missing := map[string]bool{}
		for _, o := range offers {
			t.Logf("%s: %v", o.Name, o.Err)
			missing[o.Name] = o.Err != nil
		}
		for name, want := range map[string]bool{
			"stalls of the machine (PSI)": true, "stalls of pods (PSI)": true, "levels of memory in use": true,
			"events of pods' memory (cgroup v2)": false,
		} {
			if got, known := missing[name]; !known || got != want {
				t.Errorf("%s: missing is %t (said: %t), want %t", name, got, known, want)
			}
		}
		if !errors.Is(offers[0].Err, fs.ErrNotExist) || !errors.Is(offers[1].Err, fs.ErrNotExist) {
			t.Errorf("of PSI it says %v, and of that of pods %v; want that there is none", offers[0].Err, offers[1].Err)
		}
		if err := w.Levels(n.folder, []int64{mib}); err != nil {
			t.Errorf("asking for levels where there are none: %v", err)
		}
	})
}

// TestWokenByEvents: a limit that was met in one container wakes a watcher of all pods.
func TestWokenByEvents(t *testing.T) {
	t.Parallel()
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		for i, tt := range []struct {
			name, file, task, counter string
			killed                    bool
		}{
			{"above memory.high", "memory.high", "read " + onDisk(t, "high", 32*mib), "high", false},
			{"at memory.max, and the cache makes room", "memory.max", "read " + onDisk(t, "max", 32*mib), "max", false},
			{"at memory.max, and nothing makes room", "memory.max", "take 64", "oom_kill", true},
		} {
			t.Run(tt.name, func(t *testing.T) {
				p := n.pod(t, i+1)
				worker := startWorker(t, p.container)
				put(t, filepath.Join(p.container, tt.file), strconv.Itoa(24*mib))
				events := filepath.Join(n.folder, "memory.events")
				before := counter(t, events, tt.counter)
				w, _ := n.watch(t)
				want := done
				if tt.killed {
					want = ""
				}
				if got := worker.try(t, tt.task); got != want {
					t.Errorf("the worker says %q, want %q", got, want)
				}
				if got := <-w.C(); got != wake.Changed {
					t.Errorf("woken by %q", got)
				}
				if after := counter(t, events, tt.counter); after <= before {
					t.Errorf("%s was %d and is %d", tt.counter, before, after)
				}
			})
		}
	})
}

// TestWokenSeldomByWhoIsAtItsLimit: a pod that reads more than its limit holds makes events without end, and is no trouble.
func TestWokenSeldomByWhoIsAtItsLimit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes minutes: make test-all runs it")
	}
	if !kernel.Inside(t) {
		return
	}
	inBoth(t, func(t *testing.T, n node) {
		p := n.pod(t, 1)
		worker := startWorker(t, p.container)
		put(t, filepath.Join(p.container, "memory.max"), strconv.Itoa(24*mib))
		task := "read " + onDisk(t, "long", 64*mib)
		began, woken := time.Now(), 0
		w, _ := n.watch(t)
		for range 3 {
			worker.do(t, task)
			for ; len(w.C()) > 0; woken++ {
				<-w.C()
			}
		}
		events := counter(t, filepath.Join(n.folder, "memory.events"), "max")
		if most := int(time.Since(began)/time.Second) + 1; woken > most || events < 500 {
			t.Errorf("woken %d times by %d events in %s", woken, events, time.Since(began))
		}
	})
}
