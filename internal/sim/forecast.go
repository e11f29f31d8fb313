package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// Bounds of a forecast.
const (
	horizon   = 24 * time.Hour
	mostTurns = 20000
)

// Forecast runs the drain in a simulated future of the view and says how it goes.
// It decides with the same code as the drain itself.
func Forecast(view snapshot.View, req drain.Request) Plan {
	f := newForecast(view, req)
	f.run()
	f.settle()
	return f.finish()
}

type forecast struct {
	req   drain.Request
	sim   *Sim
	led   *drain.Ledger
	learn *learner
	log   forecastLog

	excluded map[types.UID]bool // pods of the nodes that are not part of the drain

	window window
	end    drain.Decision // as the drain ended, with all its words
	turns  int            // decisions so far
}

func newForecast(view snapshot.View, req drain.Request) *forecast {
	req.Started, req.Forecast = view.Now, true
	learn := newLearner(view.Cluster)
	tick := tickFor(view, req)
	f := &forecast{
		req: req, led: drain.NewLedger(), learn: learn,
		sim: New(view, Config{
			Tick: tick, Ready: learn.start, Stop: learn.stop,
			Scaler: 15 * time.Second, ScaleDown: 5 * time.Minute, PodGC: time.Minute,
			Binds: func(p *snapshot.Pod) string { return templateNode(view.Cluster, p) },
		}),
	}
	f.log = newDiary(f.sim)
	f.excluded = drain.Excluded(view, req)
	return f
}

// templateNode returns the node that the template of the pod's owner names, "" where the scheduler decides.
func templateNode(c *snapshot.Cluster, p *snapshot.Pod) string {
	if w := c.WorkloadOf(p.OwnerKey()); w != nil {
		return w.NodeName
	}
	return ""
}

// tickFor returns the precision that the number of pods leaves time for.
func tickFor(view snapshot.View, req drain.Request) time.Duration {
	pods := 0
	for _, name := range req.Nodes {
		pods += len(view.Cluster.PodsOn(name))
	}
	switch {
	case pods <= 2000:
		return time.Second
	case pods <= 10000:
		return 2 * time.Second
	case pods <= 25000:
		return 5 * time.Second
	}
	return 10 * time.Second
}

// run runs the loop until the drain ends.
func (f *forecast) run() {
	nodes := f.req.Nodes
	for first := true; f.turns < mostTurns && f.sim.now.Sub(f.sim.start) < horizon; first = false {
		d := f.turn(drain.Step)
		if first {
			f.narrow(d)
		} else if f.slide(d) {
			continue
		}
		if d.Outcome != drain.Running {
			f.req.Nodes = nodes
			if f.end = f.turn(drain.Decide); f.end.Outcome != drain.Running {
				f.led.End(f.end.Outcome)
				return
			}
		}
		if !f.wait(d) {
			break
		}
	}
	f.req.Nodes = nodes
	f.end = f.turn(drain.Decide)
}

type decide func(snapshot.View, drain.Request, *drain.Ledger) drain.Decision

func (f *forecast) turn(decide decide) drain.Decision {
	f.turns++
	view := f.sim.View()
	f.led.Observe(view)
	d := decide(view, f.req, f.led)
	f.led.NoteNodes(&d, view.Now)
	for _, a := range d.Actions {
		f.led.Begin(a, view.Now)
		answer := f.sim.Do(a)
		f.led.Answer(a, answer, view.Now)
		if answer.Code == answers.Accepted {
			f.log.note(a)
		}
	}
	f.sim.Advance(view.Now)
	return d
}

// wait lets time pass until something may have changed; it reports whether anything
// will.
func (f *forecast) wait(d drain.Decision) bool {
	if opensTheWay(d.Actions) {
		return true
	}
	next, some := f.sim.Next()
	if !d.Next.IsZero() && (!some || d.Next.Before(next)) {
		next, some = d.Next, true
	}
	if !some || next.Sub(f.sim.now) > horizon {
		return len(d.Actions) > 0
	}
	f.sim.Advance(next)
	return true
}

// opensTheWay reports whether other actions follow at once upon these. What the rest
// do takes its time.
func opensTheWay(actions []drain.Action) bool {
	for i := range actions {
		switch actions[i].Kind {
		case drain.Cordon, drain.Mark, drain.Uncordon, drain.Unmark, drain.LowerCost, drain.RestoreCost, drain.ScaleMin:
			return true
		case drain.Evict, drain.Delete, drain.Scale, drain.Ask, drain.Withdraw, drain.RenewLease, drain.DeleteLease:
		}
	}
	return false
}

// settle lets the drain tidy up and the cluster come to rest.
func (f *forecast) settle() {
	f.log.ended = f.sim.now.Sub(f.sim.start)
	for f.led.Ending() != drain.Running && f.turns < mostTurns {
		d := f.turn(drain.Step)
		if d.Settled || !f.wait(d) {
			break
		}
	}
	rest := f.sim.now.Add(horizon)
	for {
		next, some := f.sim.Next()
		if !some || next.After(rest) {
			return
		}
		f.sim.Advance(next)
	}
}
