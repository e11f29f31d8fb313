package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/agent/machine"
	"usher.sh/usher/internal/nodepressure"
)

const (
	// surveyRest is the least pause between two surveys; it is as long as the last one took where that is longer.
	surveyRest = 5 * time.Second
	// surveyAhead is how long before a disk will be short its files are looked through, if it goes on as it does.
	surveyAhead = 30 * time.Second
)

// diskScanner finds out what pods have written, in the background, and only after want: looking through files is slow,
// and slows down other processes that use the disk.
type diskScanner struct {
	machine *machine.Machine
	pods    *podCache
	wanted  chan struct{} // has room for one
	done    chan struct{} // has room for one

	mu    sync.Mutex
	found map[types.UID]nodepressure.Usage
}

func newSurveyor(m *machine.Machine, r *podCache) *diskScanner {
	return &diskScanner{
		machine: m, pods: r,
		wanted: make(chan struct{}, 1), done: make(chan struct{}, 1), found: map[types.UID]nodepressure.Usage{},
	}
}

// want makes it look through the disks soon.
func (s *diskScanner) want() {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// of returns what is known of a pod: Disk and DiskAt.
func (s *diskScanner) of(uid types.UID) (nodepressure.Usage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.found[uid]
	return found, ok
}

func (s *diskScanner) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wanted:
		}
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		began := time.Now()
		s.survey(ctx)
		pause.Reset(max(surveyRest, time.Since(began)))
	}
}

// wantsSurvey reports whether it is to be known which pods have filled the disks: a disk is short or will be soon. What
// was found is there, then, when a pod has to go.
func wantsSurvey(node nodepressure.Node, thresholds []nodepressure.Threshold, rates map[nodepressure.Signal]float64, pressed bool) bool {
	return slices.ContainsFunc(thresholds, func(t nodepressure.Threshold) bool {
		reading, ok := node.Readings[t.Signal]
		if !ok || t.Signal.Condition() != corev1.NodeDiskPressure {
			return false
		}
		if pressed && t.MetWithReclaim(reading) {
			return true
		}
		headroom := float64(reading.Available - t.Below.Of(reading.Capacity))
		return headroom <= -rates[t.Signal]*surveyAhead.Seconds()
	})
}

// survey looks through all pods. What is found of each counts at once; a pod whose files cannot all be read keeps what was
// known of it.
func (s *diskScanner) survey(ctx context.Context) {
	here, _ := s.pods.list()
	for _, r := range here.all {
		if ctx.Err() != nil {
			return
		}
		at := time.Now()
		disk, err := s.machine.Disk(ctx, r.pod.Namespace, r.pod.Name, r.cgroup)
		if err != nil {
			continue
		}
		s.mu.Lock()
		s.found[r.pod.UID] = nodepressure.Usage{DiskAt: at, Disk: map[nodepressure.FsPart]nodepressure.FsUse{
			nodepressure.Logs:           nodepressure.FsUse(disk.Logs),
			nodepressure.Volumes:        nodepressure.FsUse(disk.Volumes),
			nodepressure.WritableLayers: nodepressure.FsUse(disk.Layers),
		}}
		s.mu.Unlock()
	}
	s.mu.Lock()
	for uid := range s.found {
		if here.byUID[uid] == nil {
			delete(s.found, uid)
		}
	}
	s.mu.Unlock()
	select {
	case s.done <- struct{}{}:
	default:
	}
}
