package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
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

// Frame implements runner.Reporter.
func (u *usher) Frame(_ time.Time, d drain.Decision) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.decision = d
}

// Event implements runner.Reporter.
func (u *usher) Event(drain.Event) {}

func (u *usher) run(ctx context.Context) {
	d := runner.Runner{
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

// contest is the drain of two clusters that are alike, at once.
type contest struct {
	usher   *usher
	kubectl *kubectl

	stop    context.CancelFunc
	running sync.WaitGroup
}

func begin(ctx context.Context, now time.Time) *contest {
	left, right := newCluster(now), newCluster(now)
	passing, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &contest{usher: &usher{cluster: left, started: now}, kubectl: newKubectl(ctx, right, now), stop: stop}
	c.running.Go(func() { left.run(passing) })
	c.running.Go(func() { right.run(passing) })
	c.running.Go(func() { c.usher.run(ctx) })
	return c
}

// end ends both clusters, once Usher's drain has ended.
func (c *contest) end() {
	c.stop()
	c.running.Wait()
}

// run lets both go on until done, which is called again and again, returns true.
func (c *contest) run(ctx context.Context, done func(now time.Time) bool) {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for over := false; !over; <-tick.C {
		now := time.Now()
		c.kubectl.step(ctx, now)
		over = done(now)
	}
}

// race drains both clusters, and returns when the first picture was drawn.
func race(ctx context.Context, s *screen) time.Time {
	c := begin(ctx, time.Now())
	var first time.Time
	c.run(ctx, func(now time.Time) bool {
		_, _, over := c.usher.now(now)
		s.draw(c.usher, c.kubectl, now)
		if first.IsZero() {
			first = time.Now()
		}
		return over && (!c.kubectl.ended.IsZero() || ctx.Err() != nil)
	})
	c.end()
	s.conclude(c.usher, c.kubectl)
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
