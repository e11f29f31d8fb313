package sim_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
)

// leave ends a driver as a process does that leaves its drain: of what is under way some is carried out, and its answer never comes.
func (d *driver) leave() {
	for _, a := range d.inFlight {
		if d.dice.IntN(2) == 0 {
			d.note("%s %s, whose answer comes to none", a.Kind, nameOf(a))
			d.count(a, d.send(a))
		}
	}
	d.inFlight = nil
	d.note("-- left")
}

// goOn is another process that runs the same drain, after a while.
func (d *driver) goOn(t *rapid.T, seed uint64) *driver {
	pause := rapid.SampledFrom([]time.Duration{0, 0, 5 * time.Second, 5 * time.Minute}).Draw(t, "goes on after")
	d.sim.Advance(d.sim.View().Now.Add(pause))
	d.sim.Relist()
	next := newDriver(d.sim, d.req, seed)
	next.req.Self.PID++
	next.log, next.late, next.behind, next.accepted = d.log, d.late, d.behind, d.accepted
	next.led.Resume(next.sim.View(), next.req)
	return next
}

// count counts the evictions of each pod that were accepted.
func (d *driver) count(a drain.Action, answer answers.Answer) {
	if a.Kind == drain.Evict && answer.Code == answers.Accepted {
		d.accepted[a.Pod.UID]++
	}
}

var leaveAfter = []time.Duration{0, 10 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second, time.Minute}

// TestLeftAndGoneOn: a drain that is left at any moments, by process after process, does nothing that one must not do that was never
// left, leaves nothing behind, and evicts no pod twice.
func TestLeftAndGoneOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, false)
		for i := range rapid.IntRange(1, 3).Draw(t, "leaders") {
			wrong := d.run(d.sim.View().Now.Add(rapid.SampledFrom(leaveAfter).Draw(t, "left after")))
			must(t, d, wrong == "", "%s", wrong)
			if d.led.Ending() != drain.Running {
				break
			}
			d.leave()
			d = d.goOn(t, uint64(i)) //nolint:gosec // few
		}
		drive(t, d)
		safe(t, d)
		must(t, d, len(d.silent()) == 0, "waits in silence: %s", d.silent())
		nothingHeldByOrder(t, d)
		settledClean(t, d)
		for uid, n := range d.accepted {
			must(t, d, n == 1, "%s was evicted %d times", uid, n)
		}
	})
}

// TestLeftWhileCancelled: a drain that is cancelled, and left at any moment before it has settled, takes back what it did.
func TestLeftWhileCancelled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, false)
		before := stateOf(d.sim.Truth().Cluster)
		before.forgetKilled(d.sim.Truth().Cluster)
		wrong := d.run(d.req.Started.Add(rapid.SampledFrom(leaveAfter).Draw(t, "cancelled after")))
		must(t, d, wrong == "", "%s", wrong)
		drained := d.last.Outcome == drain.Drained
		d.note("-- interrupted")
		d.led.End(drain.Interrupted)
		wrong = d.run(d.sim.View().Now.Add(rapid.SampledFrom(leaveAfter).Draw(t, "left after")))
		must(t, d, wrong == "", "%s", wrong)
		d.leave()
		next := d.goOn(t, 1)
		next.led.End(drain.Interrupted)
		drive(t, next)
		safe(t, next)
		must(t, next, next.last.Settled, "not settled")
		restored(t, next, before, drained)
	})
}
