package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// cluster is a simulated one in which time passes as it does outside. It is the source and the writer of a drain.
type cluster struct {
	changed chan struct{}
	written chan struct{}

	mu  sync.Mutex
	sim *sim.Sim
}

func newCluster(now time.Time) *cluster {
	takes := func(least, most time.Duration) sim.Delay {
		return func(_ *snapshot.Pod, dice *rand.Rand) time.Duration {
			return least + time.Duration(dice.Int64N(int64(most-least)))
		}
	}
	return &cluster{
		changed: make(chan struct{}, 1), written: make(chan struct{}, 1),
		sim: sim.New(newShop(now), sim.Config{
			Schedule: takes(100*time.Millisecond, 200*time.Millisecond), Boot: takes(time.Second, 2*time.Second),
			Ready: takes(4*time.Second, 6*time.Second), Stop: takes(2*time.Second, 4*time.Second),
			Controllers: 50 * time.Millisecond, Budgets: 50 * time.Millisecond, Detach: time.Second,
			Binds: func(p *snapshot.Pod) string { return "" },
		}),
	}
}

// Read implements runner.Source.
func (c *cluster) Read(look func(snapshot.View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sim.Advance(time.Now())
	look(c.sim.View())
}

// Changed implements runner.Source.
func (c *cluster) Changed() <-chan struct{} { return c.changed }

// Do implements runner.Writer.
func (c *cluster) Do(_ context.Context, a drain.Action) answers.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sim.Advance(time.Now())
	answer := c.sim.Do(a)
	notify(c.written)
	return answer
}

// run lets time pass until the context ends.
func (c *cluster) run(ctx context.Context) {
	for {
		next := time.NewTimer(c.advance())
		select {
		case <-next.C:
		case <-c.written:
		case <-ctx.Done():
			return
		}
		notify(c.changed)
	}
}

// advance returns in how long something happens next.
func (c *cluster) advance() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.sim.Advance(now)
	if next, some := c.sim.Next(); some {
		return next.Sub(now)
	}
	return time.Minute
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
