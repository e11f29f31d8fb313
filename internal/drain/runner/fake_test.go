package runner_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
)

// fake is a cluster behind the ports: one node "a" and pods on it that end two seconds
// after they were evicted.
type fake struct {
	mu      sync.Mutex
	cluster *snapshot.Cluster
	changed chan struct{}
	serial  int
	late    time.Duration // for how long the process was suspended
	reading time.Time     // since when something is being read
	ending  sync.WaitGroup

	before func(ctx context.Context, a drain.Action) // runs before a write is carried out
	after  func(ctx context.Context, a drain.Action) // runs before its answer is given
	refuse func(a drain.Action) *answers.Answer      // an answer instead of carrying it out

	writes []string
	events []string
	frames int
	busy   int // writes under way
	most   int // most writes that were under way at once
}

func newFake(pods ...string) *fake {
	f := &fake{cluster: snapshot.NewCluster(), changed: make(chan struct{}, 1)}
	f.cluster.SetNode(&snapshot.Node{Name: "a", UID: "node-a", ResourceVersion: "0", Ready: true})
	for _, name := range pods {
		f.cluster.SetPod(&snapshot.Pod{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "0", Node: "a",
			Phase: corev1.PodRunning, Grace: 30 * time.Second,
		})
	}
	return f
}

const podEndsAfter = 2 * time.Second

func (f *fake) Read(look func(snapshot.View)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	look(snapshot.View{Now: time.Now().Add(f.late), Cluster: f.cluster, Reading: f.reading})
}

// suspend lets the process find itself an hour later.
func (f *fake) suspend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = time.Hour
}

func (f *fake) Changed() <-chan struct{} { return f.changed }

// change makes something true and lets the watcher know.
func (f *fake) change(what func(c *snapshot.Cluster, version string)) {
	f.mu.Lock()
	f.serial++
	what(f.cluster, fmt.Sprint(f.serial))
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fake) Do(ctx context.Context, a drain.Action) answers.Answer {
	f.note(1, a)
	defer f.note(-1, a)
	if f.before != nil {
		f.before(ctx, a)
	}
	if ctx.Err() != nil {
		return answers.Answer{Code: answers.Unavailable, Message: ctx.Err().Error()}
	}
	if f.refuse != nil {
		if answer := f.refuse(a); answer != nil {
			return *answer
		}
	}
	f.change(func(c *snapshot.Cluster, version string) { f.carryOut(c, a, version) })
	if f.after != nil {
		f.after(ctx, a)
	}
	return answers.Answer{Code: answers.Accepted}
}

func (f *fake) note(busy int, a drain.Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy += busy
	f.most = max(f.most, f.busy)
	if busy > 0 {
		f.writes = append(f.writes, wordOf(a))
	}
}

func wordOf(a drain.Action) string {
	switch {
	case a.Record != nil:
		return string(a.Kind) + " " + a.Record.State
	case a.Pod != nil:
		return string(a.Kind) + " " + a.Pod.Name
	}
	return string(a.Kind)
}

func (f *fake) carryOut(c *snapshot.Cluster, a drain.Action, version string) {
	switch a.Kind {
	case drain.Cordon, drain.Mark, drain.Uncordon, drain.Unmark:
		n := *c.Node(a.Node.Name)
		n.Drain, n.ResourceVersion = a.Record, version
		n.Unschedulable = a.Kind == drain.Cordon || (n.Unschedulable && a.Kind != drain.Uncordon)
		c.SetNode(&n)
	case drain.Evict, drain.Delete:
		p := *a.Pod
		p.Deletion, p.ResourceVersion = time.Now().Add(p.Grace), version
		c.SetPod(&p)
		if len(p.Finalizers) == 0 {
			f.ending.Go(func() {
				<-time.After(podEndsAfter)
				f.change(func(c *snapshot.Cluster, _ string) { c.DeletePod(p.UID) })
			})
		}
	case drain.Scale:
		w := *a.Workload
		w.Replicas, w.Surge, w.ResourceVersion = a.Replicas, a.Surge, version
		c.SetWorkload(&w)
	case drain.RenewLease:
		lease := *a.Lease
		lease.UID, lease.ResourceVersion = "lease", version
		c.SetLease(&lease)
	case drain.DeleteLease:
		c.DeleteLease(a.Lease.ID)
	case drain.LowerCost, drain.RestoreCost, drain.ScaleMin, drain.Ask, drain.Withdraw:
	}
}

func (f *fake) Frame(time.Time, drain.Decision) { f.frames++ }

func (f *fake) Event(e drain.Event) {
	f.events = append(f.events, fmt.Sprintf("%s %s%s%s%s", e.Kind, e.Node, e.Pod.Name, e.State, e.Outcome))
}

// drainer is set up to drain node a.
func (f *fake) drainer() *runner.Runner {
	return &runner.Runner{Source: f, Writer: f, Reporter: f, Request: drain.Request{
		Self: snapshot.Drainer{ID: "me"}, Nodes: []string{"a"}, Started: time.Now(),
		Force: true, DaemonSets: drain.DaemonSetsIgnore, Surge: drain.SurgeAuto, AtDeadline: drain.AtDeadlineStop,
	}}
}

// wrote compares the writes without their order.
func (f *fake) wrote(t testing.TB, want ...string) {
	t.Helper()
	slices.Sort(f.writes)
	slices.Sort(want)
	if !slices.Equal(want, f.writes) {
		t.Errorf("writes:\n got %v\nwant %v", f.writes, want)
	}
}

func (f *fake) node() *snapshot.Node { return f.cluster.Node("a") }

// wait passes time, or ends with the context.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
