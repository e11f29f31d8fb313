package cli

import (
	"context"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drainer"
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
// returned function waits for that. Without a table nobody asks, and nothing is done.
func (v *voice) estimate(ctx context.Context, source drainer.Source, req drain.Request) (wait func()) {
	table, done := v.live.Load(), make(chan struct{})
	if table == nil {
		return func() {}
	}
	go func() {
		defer close(done)
		for pause := time.Duration(0); sleep(ctx, pause); {
			began := time.Now()
			table.Expect(expected(source, req))
			pause = max(estimateEvery, estimateShare*time.Since(began))
		}
	}()
	return func() { <-done }
}

// expected forecasts when the drain will have done what it can; zero where no end is
// in sight.
func expected(source drainer.Source, req drain.Request) time.Time {
	var view snapshot.View
	source.Read(func(v snapshot.View) { view = snapshot.View{Now: v.Now, Cluster: v.Cluster.Clone()} })
	plan := sim.Forecast(view, req)
	if plan.Outcome == drain.Running {
		return time.Time{}
	}
	return view.Now.Add(plan.Duration)
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
