package drainer

import (
	"context"
	"sync"
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Drainer carries out one request.
type Drainer struct {
	Source   Source
	Writer   Writer
	Reporter Reporter
	Request  drain.Request
	Timeout  time.Duration // 0: none

	led     *drain.Ledger
	last    drain.Decision
	now     time.Time
	answers chan answered
	heard   []answered // answers that the ledger has not got yet
	slots   chan struct{}
	writes  sync.WaitGroup
}

type answered struct {
	action drain.Action
	answer drain.Answer
}

// tidyFor bounds how long the end of a drain may take: undoing surges, last records.
const tidyFor = 2 * time.Minute

// parallelWrites bounds how many writes are under way at once.
const parallelWrites = 64

// Run turns the crank until the decision is settled. Cancelling the context does not
// cut anything off: it ends the drain with outcome Interrupted, which undoes what has
// to be undone first.
func (d *Drainer) Run(ctx context.Context) drain.Decision {
	d.prepare()
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer d.writes.Wait()
	defer stop()

	interrupted := ctx.Done()
	timeout := timer(d.Timeout)
	var tidy <-chan time.Time
	for {
		decision := d.turn(writing, func(view snapshot.View) drain.Decision {
			return drain.Decide(view, d.Request, d.led)
		})
		if decision.Settled {
			return decision
		}
		if d.led.Ending() == drain.Running && decision.Outcome != drain.Running {
			d.led.End(decision.Outcome)
			continue
		}
		if d.led.Ending() != drain.Running && tidy == nil {
			tidy = timer(tidyFor)
		}
		select {
		case <-d.Source.Changed():
		case a := <-d.answers:
			d.heard = append(d.heard, a)
		case <-alarm(decision.Next, d.now):
		case <-interrupted:
			interrupted = nil
			d.led.End(drain.Interrupted)
		case <-timeout:
			d.led.End(drain.TimedOut)
		case <-tidy:
			return decision
		}
	}
}

// alarm fires when the decision wants another look without an event.
func alarm(next, now time.Time) <-chan time.Time {
	if next.IsZero() {
		return nil
	}
	return timer(max(next.Sub(now), time.Millisecond))
}

func (d *Drainer) prepare() {
	d.led = drain.NewLedger()
	d.answers = make(chan answered, parallelWrites)
	d.slots = make(chan struct{}, parallelWrites)
}

func timer(after time.Duration) <-chan time.Time {
	if after <= 0 {
		return nil
	}
	return time.After(after)
}

// turn is one turn of the crank: look, decide, start the actions.
func (d *Drainer) turn(ctx context.Context, decide func(snapshot.View) drain.Decision) drain.Decision {
	var decision drain.Decision
	d.listen()
	d.Source.Read(func(view snapshot.View) {
		d.now = view.Now
		for _, a := range d.heard {
			d.led.Answer(a.action, a.answer, view.Now)
		}
		d.led.Observe(view)
		decision = decide(view)
		d.led.Note(&decision, view.Now)
	})
	for _, a := range decision.Actions {
		d.led.Begin(a, d.now)
		d.start(ctx, a)
	}
	d.report(decision)
	return decision
}

// listen takes the answers that are there without waiting for more.
func (d *Drainer) listen() {
	for {
		select {
		case a := <-d.answers:
			d.heard = append(d.heard, a)
		default:
			return
		}
	}
}

// start carries out one action. Its answer comes back through the loop, so that the
// ledger has one writer.
func (d *Drainer) start(ctx context.Context, a drain.Action) {
	d.writes.Go(func() {
		d.slots <- struct{}{}
		answer := d.Writer.Do(ctx, a)
		<-d.slots
		select {
		case d.answers <- answered{a, answer}:
		case <-ctx.Done():
		}
	})
}

func (d *Drainer) report(decision drain.Decision) {
	for _, a := range d.heard {
		if e, ok := drain.AnswerEvent(a.action, a.answer); ok {
			e.At = d.now
			d.Reporter.Event(e)
		}
	}
	d.heard = nil
	for _, e := range drain.Events(d.last, decision, d.now) {
		d.Reporter.Event(e)
	}
	d.Reporter.Frame(d.now, decision)
	d.last = decision
}
