package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drainer"
	"usher.sh/usher/internal/snapshot"
)

// redraw is how often the picture is drawn.
const redraw = 100 * time.Millisecond

// usher is a drain of Usher's, and what it has reported last.
type usher struct {
	cluster *cluster
	started time.Time

	mu       sync.Mutex
	decision drain.Decision
	ended    time.Time // zero while it runs
}

// Frame implements drainer.Reporter.
func (u *usher) Frame(_ time.Time, d drain.Decision) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.decision = d
}

// Event implements drainer.Reporter.
func (u *usher) Event(drain.Event) {}

func (u *usher) run(ctx context.Context) {
	d := drainer.Drainer{
		Source: u.cluster, Writer: u.cluster, Reporter: u,
		Request: drain.Request{
			Self: snapshot.Drainer{ID: "demo", By: "you@demo"}, Nodes: []string{drained}, Force: true, DaemonSets: drain.DaemonSetsIgnore,
			Surge: drain.SurgeAuto, Started: u.started, Deadline: u.started.Add(deadline),
		},
	}
	last := d.Run(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.decision, u.ended = last, time.Now()
}

func (u *usher) now(now time.Time) (drain.Decision, time.Time, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended.IsZero() {
		return u.decision, now, false
	}
	return u.decision, u.ended, true
}

// race drains both clusters, and returns when the first picture was drawn.
func race(ctx context.Context, s *screen) time.Time {
	now := time.Now()
	left, right := newCluster(now), newCluster(now)
	passing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { left.run(passing) })
	running.Go(func() { right.run(passing) })
	u, k := &usher{cluster: left, started: now}, newKubectl(ctx, right, now)
	running.Go(func() { u.run(ctx) })
	var first time.Time
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for done := false; !done; {
		now = time.Now()
		k.step(ctx, now)
		_, _, over := u.now(now)
		s.draw(u, k, now)
		if first.IsZero() {
			first = time.Now()
		}
		done = over && (!k.ended.IsZero() || ctx.Err() != nil)
		<-tick.C
	}
	stop()
	running.Wait()
	s.conclude(u, k)
	return first
}

// wanted are the apps that are to be ready, and by how many pods.
var wanted = []struct {
	app  string
	pods int
}{{"web", 6}, {"payments", 1}, {"orders-db", 3}}

// ready counts the pods of an app that serve.
func ready(view snapshot.View, app string) int {
	n := 0
	for _, p := range view.Cluster.PodsIn(namespace) {
		if p.Labels["app"] == app && p.Ready && !p.Terminating() {
			n++
		}
	}
	return n
}

// health says how many pods of each app are ready.
func health(c *cluster) string {
	var words []string
	c.Read(func(view snapshot.View) {
		for _, w := range wanted {
			words = append(words, fmt.Sprintf("%s %d of %d", w.app, ready(view, w.app), w.pods))
		}
	})
	return "ready: " + strings.Join(words, ", ")
}
