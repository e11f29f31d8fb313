package runner

import (
	"context"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Revert undoes what killed drains have left: surges and deletion costs. It returns
// the last decision; its notes say what could not be undone. It ends when everything
// is undone, when the rest may not be undone, or with the context.
func (d *Runner) Revert(ctx context.Context) drain.Decision {
	d.prepare()
	defer d.Shared.join(d)()
	writing, stop := context.WithCancel(ctx)
	defer d.writes.Wait()
	defer stop()

	tidy := time.After(tidyFor)
	for {
		decision := d.turn(writing, writing, func(view snapshot.View) drain.Decision {
			return drain.Leftovers(view, d.Request.Dead, d.led)
		})
		if decision.Settled {
			return decision
		}
		select {
		case <-d.Source.Changed():
		case <-d.freed:
		case a := <-d.answers:
			d.answered = append(d.answered, a)
		case <-alarm(decision.Next, d.now):
		case <-tidy:
			return decision
		case <-ctx.Done():
			return decision
		}
	}
}
