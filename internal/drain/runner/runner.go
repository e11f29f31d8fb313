package runner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Runner carries out one request.
type Runner struct {
	Source   Source
	Writer   Writer
	Reporter Reporter
	Request  drain.Request
	Until    time.Time // when its time is over; zero: never
	Shared   *Shared   // with other drains of this process; nil: it is alone

	// Leave, once closed, ends the run with the drain left as it is: whoever runs it next, under the same id, goes on from the
	// records. Nil: never.
	Leave <-chan struct{}
	// Ending is how an earlier process had ended the drain that it left before all was undone: that is gone on with. Running: it had not.
	Ending drain.Outcome

	led      *drain.Ledger
	resumed  bool // the ledger knows what this drain has on record
	last     drain.Decision
	now      time.Time
	answers  chan answered
	freed    chan struct{} // receives when another drain of this process has used less of a budget than was counted; nil: it is alone
	answered []answered    // answers that the ledger has not got yet
	writes   sync.WaitGroup

	slots     chan struct{} // writes that are under way, but for those to nodes
	nodeSlots chan struct{} // those to nodes: no sign of life waits for slow evictions

	back atomic.Pointer[map[string]bool] // nodes that were given back, as of the last look

	ending chan struct{} // closed when the drain has an outcome: nothing more is removed
}

// decider is a decision about what is seen.
type decider func(snapshot.View) drain.Decision

type answered struct {
	action drain.Action
	answer answers.Answer
}

// tidyFor bounds how long the end of a drain may take: undoing surges, last records.
const tidyFor = 2 * time.Minute

// answersFor bounds how long the end of a drain waits for answers to evictions that were
// sent before. A webhook may take its time, and nothing depends on them any more.
const answersFor = time.Second

// What is said of removals that were cut off, and of writes that came too late.
var (
	errNotSent     = errors.New("the drain ended before it was sent")
	errNotAnswered = errors.New("the drain ended before the server answered; it may be carried out yet")
	errTooLate     = errors.New("when it was to be sent, the node was open, or had been, or this drain's sign of life on it too old")
)

// parallelWrites bounds how many writes to nodes, and how many others, are under way at once.
const parallelWrites = 64

// Run runs the loop until the decision is settled. Cancelling the context does not
// cut anything off: it ends the drain with outcome Interrupted, which undoes what has
// to be undone first. Cancelled before that, or out of time, it ends so at once and writes
// nothing, not even what undoes what others have left.
func (d *Runner) Run(ctx context.Context) drain.Decision {
	d.prepare()
	defer d.Shared.join(d)()
	decide := func(view snapshot.View) drain.Decision { return drain.Decide(view, d.Request, d.led) }
	if ending := d.overBefore(ctx); ending != drain.Running {
		return d.endAtOnce(ending, decide)
	}
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer d.writes.Wait()
	defer stop()
	removing, cutOff := context.WithCancelCause(writing)
	defer cutOff(nil)

	d.led.End(d.Ending)
	interrupted := ctx.Done()
	timeout := d.timeout()
	var tidy, answers <-chan time.Time
	for {
		if d.isLeft() {
			return d.leave(stop)
		}
		decision := d.turn(writing, removing, decide)
		switch {
		case decision.Settled:
			return decision
		case decision.Outcome == drain.Left:
			return d.leave(stop)
		case d.led.Ending() == drain.Running && decision.Outcome != drain.Running:
			d.led.End(decision.Outcome)
			continue
		}
		if d.led.Ending() != drain.Running && tidy == nil {
			tidy, answers = time.After(tidyFor), time.After(answersFor)
			close(d.ending)
		}
		select {
		case <-d.Source.Changed():
		case <-d.freed:
		case a := <-d.answers:
			d.answered = append(d.answered, a)
		case <-alarm(decision.Next, d.now):
		case <-interrupted:
			interrupted = nil
			d.led.End(drain.Interrupted)
		case <-timeout:
			d.led.End(drain.TimedOut)
		case <-answers:
			cutOff(errNotAnswered)
		case <-tidy:
			return decision
		case <-d.Leave:
		}
	}
}

// endAtOnce ends a drain that is over before its first turn.
func (d *Runner) endAtOnce(ending drain.Outcome, by decider) drain.Decision {
	if ending == drain.Left {
		return d.leave(func() {})
	}
	d.led.End(ending)
	release := d.Shared.hold()
	decision, whole := d.look(by)
	release()
	if !whole {
		decision.Outcome = ending
	}
	d.report(decision)
	return decision
}

// overBefore returns how a drain ends that is over before its first turn, Running if it is not.
func (d *Runner) overBefore(ctx context.Context) drain.Outcome {
	switch {
	case d.isLeft():
		return drain.Left
	case d.Ending != drain.Running:
		return drain.Running
	case ctx.Err() != nil:
		return drain.Interrupted
	case !d.Until.IsZero() && !time.Now().Before(d.Until):
		return drain.TimedOut
	}
	return drain.Running
}

// timeout fires when the drain's time is over.
func (d *Runner) timeout() <-chan time.Time {
	if d.Until.IsZero() {
		return nil
	}
	return time.After(time.Until(d.Until))
}

// alarm fires when the decision wants another look without an event.
func alarm(next, now time.Time) <-chan time.Time {
	if next.IsZero() {
		return nil
	}
	return time.After(max(next.Sub(now), time.Millisecond))
}

func (d *Runner) prepare() {
	d.led = drain.NewLedger()
	d.answers = make(chan answered, parallelWrites)
	d.slots, d.nodeSlots = make(chan struct{}, parallelWrites), make(chan struct{}, parallelWrites)
	d.ending = make(chan struct{})
}

// turn is one turn of the loop: look, decide, start the actions. Removing is the context of
// evictions and deletions. While the view is not whole the last decision stands, and there is nothing new to do.
func (d *Runner) turn(ctx, removing context.Context, by decider) drain.Decision {
	d.listen()
	decision, whole := d.decide(by)
	if !whole {
		return decision
	}
	for _, a := range decision.Actions {
		d.start(ctx, removing, a)
	}
	d.report(decision)
	return decision
}

// look decides on what is seen now, with the answers that came in since the last look. Where the view is not whole it returns the last
// decision, without its actions.
func (d *Runner) look(by decider) (decision drain.Decision, whole bool) {
	d.Source.Read(func(view snapshot.View) {
		d.now = view.Now
		if whole = view.Whole(); !whole {
			decision = d.last
			decision.Actions, decision.Settled, decision.Next = nil, false, view.Reading.Add(snapshot.ReadingFor)
			return
		}
		if !d.resumed {
			d.led.Resume(view, d.Request)
			d.resumed = true
		}
		for _, a := range d.answered {
			d.led.Answer(a.action, a.answer, view.Now)
		}
		d.led.Observe(view)
		back := d.led.GivenBack()
		d.back.Store(&back)
		decision = by(view)
		d.led.Note(&decision, view.Now)
	})
	return decision, whole
}

// listen takes the answers that are there without waiting for more.
func (d *Runner) listen() {
	for {
		select {
		case a := <-d.answers:
			d.answered = append(d.answered, a)
		default:
			return
		}
	}
}

// start carries out one action. Its answer comes back through the loop, so that the
// ledger has one writer.
func (d *Runner) start(ctx, removing context.Context, a drain.Action) {
	d.writes.Go(func() {
		answer := d.do(ctx, removing, a)
		select {
		case d.answers <- answered{a, answer}:
		case <-ctx.Done():
		}
	})
}

// do carries one action out when a slot is free for it, if it is in time then. Removals end with the drain.
func (d *Runner) do(ctx, removing context.Context, a drain.Action) answers.Answer {
	slots := d.slotsFor(a.Kind)
	slots <- struct{}{}
	defer func() { <-slots }()
	removes := a.Kind == drain.Evict || a.Kind == drain.Delete
	switch {
	case removes && d.hasEnded(), d.isLeft():
		return answers.Answer{Code: answers.Unavailable, Message: errNotSent.Error()}
	case !d.inTime(a):
		return answers.Answer{Code: answers.Conflict, Message: errTooLate.Error()}
	case !removes:
		return d.Writer.Do(ctx, a)
	}
	answer := d.Writer.Do(removing, a)
	if answer.Code == answers.Unavailable && removing.Err() != nil {
		answer.Message = context.Cause(removing).Error()
	}
	return answer
}

func (d *Runner) slotsFor(kind drain.Kind) chan struct{} {
	switch kind {
	case drain.Cordon, drain.Mark, drain.Uncordon, drain.Unmark, drain.RenewLease, drain.DeleteLease:
		return d.nodeSlots
	case drain.Evict, drain.Delete, drain.LowerCost, drain.RestoreCost, drain.Scale, drain.ScaleMin, drain.Ask, drain.Withdraw:
	}
	return d.slots
}

func (d *Runner) hasEnded() bool {
	select {
	case <-d.ending:
		return true
	default:
		return false
	}
}

// inTime looks again just before the act: it may have waited for its slot, and the process may have been suspended.
func (d *Runner) inTime(a drain.Action) bool {
	in := false
	d.Source.Read(func(view snapshot.View) { in = drain.InTime(view, d.Request.Self, *d.back.Load(), a) })
	return in
}

func (d *Runner) report(decision drain.Decision) {
	for _, a := range d.answered {
		if e, ok := drain.AnswerEvent(a.action, a.answer); ok {
			e.At = d.now
			d.Reporter.Event(e)
		}
	}
	d.answered = nil
	for _, e := range drain.Events(d.last, decision, d.now) {
		d.Reporter.Event(e)
	}
	d.Reporter.Frame(d.now, decision)
	d.last = decision
}
