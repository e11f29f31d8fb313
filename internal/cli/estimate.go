package cli

import (
	"context"
	"math"
	"slices"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// An estimate is made every estimateEvery, or less often where that would take more
// than a twentieth of the time.
const (
	estimateEvery = 3 * time.Second
	estimateShare = 20
)

// estimate keeps the table's "about … left" up to date until the context ends; the
// returned function waits for that. Without a table it is not asked for, and nothing is done.
func (v *printer) estimate(ctx context.Context, source runner.Source, req drain.Request) (wait func()) {
	table, done := v.live.Load(), make(chan struct{})
	if table == nil {
		return func() {}
	}
	go func() {
		defer close(done)
		var before progress
		for pause := time.Duration(0); sleep(ctx, pause); {
			began := time.Now()
			view := copied(source)
			if pause = estimateEvery; !view.Whole() {
				continue
			}
			makeRoom(view.Cluster, req.Nodes)
			end, ok := forecastEnd(ctx, view, req)
			if !ok {
				return
			}
			table.Expect(before.keep(view, req, end))
			pause = max(estimateEvery, estimateShare*time.Since(began))
		}
	}()
	return func() { <-done }
}

func copied(source runner.Source) snapshot.View {
	var view snapshot.View
	source.Read(func(v snapshot.View) {
		view = snapshot.View{Now: v.Now, Cluster: v.Cluster.Clone(), Reading: v.Reading}
	})
	return view
}

// makeRoom gives what leaves room on other nodes where it is not known what they have: few of them are read, and few of their pods.
func makeRoom(c *snapshot.Cluster, drained []string) {
	if !c.Partial("nodes") {
		return
	}
	for _, n := range c.Nodes() {
		if !slices.Contains(drained, n.Name) {
			roomy := *n
			roomy.Allocatable = snapshot.Resources{MilliCPU: math.MaxInt64 / 2, Memory: math.MaxInt64 / 2, Pods: math.MaxInt64 / 2}
			c.SetNode(&roomy)
		}
	}
}

// forecastEnd is expected, unless the context ends before: a forecast that is not needed any
// more is not waited for.
func forecastEnd(ctx context.Context, view snapshot.View, req drain.Request) (time.Time, bool) {
	end := make(chan time.Time, 1)
	go func() { end <- expected(view, req) }()
	select {
	case at := <-end:
		return at, true
	case <-ctx.Done():
		return time.Time{}, false
	}
}

// expected forecasts when the drain will be done; zero where it would not be done.
func expected(view snapshot.View, req drain.Request) time.Time {
	plan := sim.Forecast(view, req)
	if plan.Outcome != drain.Drained {
		return time.Time{}
	}
	return view.Now.Add(plan.Duration)
}

// progress is how many pods were left, and the end that was forecast when that number last changed.
type progress struct {
	left int
	due  time.Time
}

// keep returns a new forecast, or zero where nothing has moved until after the one before:
// what holds the pods then is something that no forecast knows, such as a pod under their
// budget that never becomes ready, and its next one would be as wrong.
func (p *progress) keep(view snapshot.View, req drain.Request, end time.Time) time.Time {
	left := 0
	for _, name := range req.Nodes {
		left += len(view.Cluster.PodsOn(name))
	}
	if left != p.left || p.due.IsZero() {
		p.left, p.due = left, end
	}
	if !p.due.IsZero() && view.Now.After(p.due.Add(estimateEvery)) {
		return time.Time{}
	}
	return end
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
