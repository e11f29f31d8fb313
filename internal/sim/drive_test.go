package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// driver runs the loop of a drain over a simulated cluster, as package runner does
// over a real one, with answers that may come late.
type driver struct {
	sim    *sim.Sim
	req    drain.Request
	led    *drain.Ledger
	dice   *rand.Rand
	behind bool    // what it sees may be late
	late   float64 // chance, for each write, that it and those after it are still under way at the next turn

	trace    *trace
	inFlight []drain.Action
	last     drain.Decision
	verdict  drain.Decision // with which the drain came to its outcome
	log      []string
	writes   map[drain.Kind]int
	accepted map[types.UID]int // evictions of each pod
	refused  int
	unready  int // of these, those of pods that were not ready: they go by how many others are healthy, and not by room
	ready    int // accepted evictions of pods that became ready on the way: they use room, of which the drain knows nothing
	removals removals
	turns    int
	answered bool // an answer came in the last turn
	still    int  // turns in a row in which no time passed
}

func newDriver(s *sim.Sim, req drain.Request, seed uint64) *driver {
	return &driver{
		sim: s, req: req, trace: newTrace(s.Truth().Cluster), led: drain.NewLedger(), dice: rand.New(rand.NewPCG(seed, 9)), writes: map[drain.Kind]int{}, accepted: map[types.UID]int{},
	}
}

// turn decides once, sends what is to be sent and enters the answers that are there.
func (d *driver) turn() {
	d.turns++
	for _, line := range d.trace.changes(d.sim.Truth().Cluster) {
		d.note("          %s", line)
	}
	view := d.sim.View()
	d.led.Observe(view)
	d.last = drain.Decide(view, d.req, d.led)
	d.led.Note(&d.last, view.Now)
	for _, a := range d.last.Actions {
		d.led.Begin(a, view.Now)
		d.removals.decided(a)
		d.inFlight = append(d.inFlight, a)
	}
	d.deliver()
}

func (d *driver) deliver() {
	d.answered = false
	for len(d.inFlight) > 0 {
		if d.late > 0 && d.dice.Float64() < d.late {
			return
		}
		a := d.inFlight[0]
		d.inFlight = d.inFlight[1:]
		becameReady, healthy := d.becameReady(a), d.healthy(a)
		answer := d.send(a)
		d.led.Answer(a, answer, d.sim.View().Now)
		d.answered = true
		d.removals.answered(a, answer, healthy)
		d.count(a, answer)
		if answer.Code == answers.RefusedByBudget {
			d.refused++
			if !a.Pod.Ready {
				d.unready++
			}
		}
		if answer.Code == answers.Accepted && becameReady {
			d.ready++
		}
		d.say(a, answer)
	}
}

// becameReady reports whether an eviction's pod is ready, and was not when it was decided.
func (d *driver) becameReady(a drain.Action) bool {
	if a.Kind != drain.Evict || a.Pod.Ready {
		return false
	}
	pod := d.sim.Truth().Cluster.PodNamed(a.Pod.Key())
	return pod != nil && pod.UID == a.Pod.UID && pod.Ready
}

// healthy reports whether an action removes a pod that budgets count as healthy.
func (d *driver) healthy(a drain.Action) bool {
	if a.Kind != drain.Evict && a.Kind != drain.Delete {
		return false
	}
	pod := d.sim.Truth().Cluster.Pod(a.Pod.UID)
	return pod != nil && pod.Healthy()
}

// send looks again just before the act.
func (d *driver) send(a drain.Action) answers.Answer {
	if !drain.InTime(d.sim.View(), d.req.Self, d.led.GivenBack(), a) {
		return answers.Answer{Code: answers.Conflict, Message: "too late"}
	}
	d.writes[a.Kind]++
	return d.sim.Do(a)
}

func (d *driver) say(a drain.Action, answer answers.Answer) {
	line := string(a.Kind) + " " + nameOf(a)
	if answer.Code != answers.Accepted {
		line += fmt.Sprintf(" -> %s: %s", answer.Code, answer.Message)
	}
	d.note("%s", line)
}

func (d *driver) note(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf("%6s  ", d.elapsed().Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (d *driver) elapsed() time.Duration { return d.sim.View().Now.Sub(d.req.Started) }

func nameOf(a drain.Action) string {
	switch a.Kind {
	case drain.Evict, drain.Delete:
		if a.Grace != nil {
			return fmt.Sprintf("%s grace=%s", a.Pod.Name, *a.Grace)
		}
		return a.Pod.Name
	case drain.LowerCost, drain.RestoreCost, drain.Ask:
		return a.Pod.Name
	case drain.Withdraw:
		return a.Request.Name
	case drain.RenewLease, drain.DeleteLease:
		return a.Lease.ID
	case drain.Scale:
		return fmt.Sprintf("%s to %d", a.Workload.Name, a.Replicas)
	case drain.ScaleMin:
		return fmt.Sprintf("%s to %d", a.Autoscaler.Name, a.Replicas)
	case drain.Mark:
		return a.Node.Name + " " + a.Record.State
	default:
		return a.Node.Name
	}
}

// next returns when something can change, and whether anything can.
func (d *driver) next() (time.Time, bool) {
	next, some := d.sim.Next()
	if at := d.last.Next; !at.IsZero() && (!some || at.Before(next)) {
		next, some = at, true
	}
	return next, some
}

// answerTime passes while answers are awaited.
const answerTime = 10 * time.Millisecond

// wait lets time pass until something can have changed, but not beyond a limit if
// that is not zero. It reports whether anything can change: a drain that goes on
// without anything to wait for hangs.
func (d *driver) wait(limit time.Time) bool {
	now := d.sim.View().Now
	if len(d.inFlight) > 0 {
		d.sim.Advance(now.Add(answerTime))
		d.still = 0
		return true
	}
	next, some := d.next()
	if d.answered && (!some || next.After(now)) {
		d.sim.Advance(now)
		d.still++
		return true
	}
	if !some {
		return false
	}
	if !limit.IsZero() && next.After(limit) {
		next = limit
	}
	d.sim.Advance(next)
	d.still++
	if next.After(now) {
		d.still = 0
	}
	return true
}

// ended starts the tidying up once the drain has come to an outcome.
func (d *driver) ended() bool {
	if d.led.Ending() == drain.Running {
		d.verdict = d.last
	}
	if d.led.Ending() == drain.Running && d.last.Outcome != drain.Running {
		d.led.End(d.last.Outcome)
		return true
	}
	return false
}

// run drives the drain until it has settled, or until a time if that is not zero. It
// returns what went wrong in the driving itself, "" if nothing did.
func (d *driver) run(until time.Time) string {
	for {
		d.turn()
		switch {
		case d.last.Settled:
			return ""
		case d.ended():
		case !until.IsZero() && !d.sim.View().Now.Before(until):
			return ""
		case d.still > 60:
			return "hot loop: 60 turns at one moment"
		case d.wait(until):
		case d.led.Ending() != drain.Running:
			return "hangs: it does not settle, and nothing will happen"
		case len(d.last.Blockers()) == 0:
			return "hangs: it goes on without a blocker, and nothing will happen"
		default:
			return ""
		}
	}
}

// totalWrites counts the writes of all kinds.
func (d *driver) totalWrites() int {
	total := 0
	for _, n := range d.writes {
		total += n
	}
	return total
}

// silent returns the pods that are to leave and say nothing of why they have not.
// Where a deadline or an interruption ended the drain, that is the reason.
func (d *driver) silent() []string {
	if out := d.verdict.Outcome; out != drain.Running && out != drain.Blocked {
		return nil
	}
	var names []string
	for i := range d.verdict.Pods {
		s := &d.verdict.Pods[i]
		waits := s.State == drain.Waiting || s.State == drain.Surging || s.State == drain.Terminating
		explained := slices.ContainsFunc(s.Blockers, func(b drain.Blocker) bool { return b.Message != "" && b.Remedy != "" })
		nodeSays := slices.ContainsFunc(d.verdict.Nodes, func(n drain.NodeStatus) bool {
			return n.Name == s.Pod.Node && len(n.Blockers) > 0
		})
		if waits && !explained && !nodeSays {
			names = append(names, fmt.Sprintf("%s (%s, %+v)", s.Pod.Key(), s.State, s.Blockers))
		}
	}
	return names
}

// leftovers returns what is left of the drain once the manager has looked at its requests: those of pods that stay are withdrawn by it when
// their node is given back after the drain.
func (d *driver) leftovers() []string {
	left := d.sim.Leftovers(d.req.Self.ID)
	if d.last.Settled && slices.ContainsFunc(left, func(what string) bool { return strings.HasPrefix(what, "request ") }) {
		d.sim.Advance(d.sim.View().Now.Add(2 * snapshot.LiveFor))
		left = d.sim.Leftovers(d.req.Self.ID)
	}
	return left
}

// onTargets returns the pods that are still on the drained nodes and not shown as
// staying, or as emptied although they are not.
func (d *driver) onTargets() []string {
	staying := map[snapshot.Key]bool{}
	for i := range d.last.Pods {
		if s := &d.last.Pods[i]; s.State == drain.Staying || s.State == drain.Emptied && d.sim.Emptied(s.Pod) {
			staying[d.last.Pods[i].Pod.Key()] = true
		}
	}
	var names []string
	for _, node := range d.req.Nodes {
		for _, p := range d.sim.Truth().Cluster.PodsOn(node) {
			obeys := !p.ToleratesCordon() && p.Labels[nodeNameLabel] == ""
			if back := (p.Owner.Kind == "DaemonSet" || !obeys) && !p.Created.Before(d.req.Started); !back && !staying[p.Key()] {
				names = append(names, p.Key().String())
			}
		}
	}
	return names
}
