package runner

import (
	"time"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// leaveFor bounds how long leaving a drain waits for the answers to writes that are under way. It is shorter than the time between a
// leader's last claim to lead and the first moment of the next one, 5 s by Kubernetes' defaults.
const leaveFor = 3 * time.Second

// isLeft reports whether the drain is to be left.
func (d *Runner) isLeft() bool {
	select {
	case <-d.Leave:
		return true
	default:
		return false
	}
}

// leave waits for the answers to what was sent, and returns how things stood. What has no answer by then is cut off by stop; it may be
// carried out yet, which the next process sees, or meets with a precondition that no longer holds.
func (d *Runner) leave(stop func()) drain.Decision {
	d.Shared.shareNothing(d)
	done := make(chan struct{})
	go func() {
		d.writes.Wait()
		close(done)
	}()
	settled := d.awaitAnswers(done)
	if !settled {
		stop()
		<-done
	}
	d.Source.Read(func(view snapshot.View) { d.now = view.Now })
	decision := d.last
	decision.Actions, decision.Next = nil, time.Time{}
	decision.Outcome, decision.Settled = drain.Left, settled
	d.report(decision)
	return decision
}

// awaitAnswers takes answers until all writes are done, and reports whether they are in time.
func (d *Runner) awaitAnswers(done <-chan struct{}) bool {
	late := time.After(leaveFor)
	for {
		select {
		case a := <-d.answers:
			d.answered = append(d.answered, a)
		case <-done:
			d.listen()
			return true
		case <-late:
			return false
		}
	}
}
