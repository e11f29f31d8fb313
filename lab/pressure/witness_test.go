package pressure

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/realnode"
)

// witness observes which pods die on a stage, in what order, and which the kernel takes.
type witness struct {
	stage    *stage
	failures chan error

	mu    sync.Mutex
	order []string
	first string
	oom   map[string]int64 // by cgroup
}

// killsEvery is how often the kernel's counts are read.
const killsEvery = 10 * time.Millisecond

// witness watches until ctx ends.
func (st *stage) witness(ctx context.Context, running *sync.WaitGroup) *witness {
	w := &witness{stage: st, failures: make(chan error, 1), oom: map[string]int64{}}
	running.Go(func() {
		_ = await.Until(ctx, st.lab.Pods(st.space), func(all []*corev1.Pod) bool {
			w.see(all)
			return false
		})
	})
	running.Go(func() {
		ticks := time.NewTicker(killsEvery)
		defer ticks.Stop()
		for ctx.Err() == nil {
			w.mu.Lock()
			countKills(st.node, w.oom)
			w.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-ticks.C:
			}
		}
	})
	return w
}

func (w *witness) see(all []*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dead := w.stage.dead(all)
	for _, name := range sorted(dead) {
		if !slices.Contains(w.order, name) {
			w.order = append(w.order, name)
			if w.first == "" {
				w.first = dead[name]
			}
		}
	}
}

func (w *witness) failed(err error) {
	select {
	case w.failures <- err:
	default:
	}
}

// deaths are the pods that died, in their order, and how the first did.
func (w *witness) deaths() (names []string, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.order), w.first
}

// kills are the pods of which the kernel took processes.
func (w *witness) kills() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[string]bool{}
	for path := range w.oom {
		for name, pod := range w.stage.pods {
			if strings.Contains(path, string(pod.UID)) {
				found[name] = true
			}
		}
	}
	return sorted(found)
}

// kubeletDecided returns when the kubelet put the pods in order to evict one, the first time after the given one; the zero
// time if it did not.
func kubeletDecided(t *testing.T, node *realnode.Node, after time.Time) time.Time {
	t.Helper()
	log, err := os.Open(filepath.Join(node.Processes, node.Name+"-kubelet.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.Contains(line, "pods ranked for eviction") || len(line) < 21 {
			continue
		}
		at, err := time.ParseInLocation("2006 0102 15:04:05.000000", after.Format("2006 ")+line[1:21], time.Local)
		if err != nil {
			t.Fatal(err)
		}
		if at.After(after) {
			return at
		}
	}
	return time.Time{}
}
