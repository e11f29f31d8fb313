package sim_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// together runs drains of one process over one cluster until all have settled, or nothing will happen.
type together struct {
	drains []*driver
	still  int
	short  string // the first budget that had fewer healthy pods than it wants, and when
}

// look notes that a budget wants more than it has.
func (all *together) look(v snapshot.View) {
	for _, b := range v.Cluster.Budgets() {
		if n := v.Cluster.HealthyUnder(b); n < b.Desired && all.short == "" {
			all.short = fmt.Sprintf("%s has %d of %d at %s", b.Name, n, b.Desired, v.Now)
		}
	}
}

// newTogether has all drains share what they have sent, or each know of its own alone, as drains of different processes do.
func newTogether(s *sim.Sim, reqs []drain.Request, late float64, shared bool) *together {
	charges, all, steps := &drain.Charges{}, &together{}, new(int)
	for i, req := range reqs {
		d := newDriver(s, req, 0)
		d.dice, d.late = rand.New(rand.NewPCG(uint64(i), 7)), late //nolint:gosec // few
		d.removals.steps = steps
		if shared {
			charges.Join(d.led)
		}
		d.led.Resume(s.View(), req)
		all.drains = append(all.drains, d)
	}
	return all
}

// run returns what went wrong in the driving, "" if nothing did.
func (all *together) run() string {
	s := all.drains[0].sim
	end := all.drains[0].req.Started.Add(patience)
	for s.View().Now.Before(end) {
		all.look(s.View())
		ended := false
		for _, d := range all.drains {
			if !d.last.Settled {
				d.turn()
				ended = d.ended() || ended
			}
		}
		if all.settled() {
			return ""
		}
		if !ended && !all.wait() {
			return ""
		}
		if all.still > 100 {
			return "hot loop: 100 turns at one moment"
		}
	}
	return ""
}

func (all *together) settled() bool {
	for _, d := range all.drains {
		if !d.last.Settled {
			return false
		}
	}
	return true
}

// wait lets time pass until something can have changed for one of the drains, and reports whether anything can.
func (all *together) wait() bool {
	s := all.drains[0].sim
	now := s.View().Now
	until, some := s.Next()
	again := false
	for _, d := range all.drains {
		again = again || len(d.inFlight) > 0 || d.answered
		if at := d.last.Next; !d.last.Settled && !at.IsZero() && (!some || at.Before(until)) {
			until, some = at, true
		}
	}
	if soon := now.Add(answerTime); again && (!some || soon.Before(until)) {
		until, some = soon, true
	}
	if !some {
		return false
	}
	s.Advance(until)
	all.still++
	if until.After(now) {
		all.still = 0
	}
	return true
}

// sum adds up something of each drain.
func (all *together) sum(of func(*driver) int) int {
	total := 0
	for _, d := range all.drains {
		total += of(d)
	}
	return total
}

// TestTogether: drains of one process use what a budget allows as one drain does: however late the answers are, no eviction of a ready pod
// is sent for which the budget has no room, where the cluster shows at once what was done, and no Deployment is scaled meanwhile. A pod
// that is not ready goes without room while enough others are healthy, which may end while its eviction is on its way, and uses room where
// it has become ready meanwhile. Near a deadline pods are deleted past their budgets, also while an eviction under these is on its way.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, nodes := drawWorld(t)
		first, cfg := drawRequest(t, w, nodes), drawConfig(t)
		cfg.Lag = sim.Lag{}
		second := first
		second.Self.ID, second.Nodes = "d2", nodes[len(first.Nodes):]
		if len(second.Nodes) == 0 {
			second.Nodes, first.Nodes = first.Nodes[1:], first.Nodes[:1]
		}
		late := rapid.SampledFrom([]float64{0.3, 0.8, 0.95}).Draw(t, "late answers")
		all := newTogether(sim.New(w.view(), cfg), []drain.Request{first, second}, late, true)
		wrong := all.run()
		d := all.drains[0]
		d.log = append(d.log, append([]string{"-- the other drain:"}, all.drains[1].log...)...)
		must(t, d, wrong == "", "%s", wrong)
		refused := all.sum(func(d *driver) int { return d.refused - d.unready })
		scaled := all.sum(func(d *driver) int { return d.writes[drain.Scale] }) // of more pods a budget may want more, while an eviction is under way
		ready := all.sum(func(d *driver) int { return d.ready })
		past := all.crossing()
		must(t, d, refused <= scaled+ready+past, "%d evictions refused by budgets, beside %d scalings, %d pods that became ready and %d deletions past them", refused, scaled, ready, past)
		for _, d := range all.drains {
			settledClean(t, d)
		}
	})
}

// TestForecastOfAPausedRollout: what a rollout that does not go on keeps is waited for as long as in the drain itself.
func TestForecastOfAPausedRollout(t *testing.T) {
	w := newWorld()
	for _, n := range []string{"a", "b", "c"} {
		w.node(n, "z")
	}
	paused := *w.workload("Deployment", "web", []string{"a", "b", "b", "c"})
	paused.Replicas, paused.Settled = 3, false
	w.cluster.SetWorkload(&paused)
	w.budget("web", "web", minAvailable("3"))
	if p := sim.Forecast(w.view(), request("a")); p.Outcome != drain.Drained || p.Duration > 3*time.Minute {
		t.Errorf("%s after %s: %v", p.Outcome, p.Duration, p.Blockers)
	}
}

// TestLowestCosts: a Deployment whose template has the lowest deletion cost that there is loses its replacement, which is younger, to each
// scaling down. It is not surged again and again: the pod is evicted beside its replacement.
func TestLowestCosts(t *testing.T) {
	w := newWorld()
	for _, n := range []string{"a", "b"} {
		w.node(n, "z")
	}
	w.workload("Deployment", "web", []string{"a"}, func(p *snapshot.Pod) { p.DeletionCost = snapshot.LowestCost })
	w.budget("web", "web", minAvailable("1"))
	all := newTogether(sim.New(w.view(), steady()), []drain.Request{request("a")}, 0, false)
	wrong := all.run()
	d := all.drains[0]
	if scaled := d.writes[drain.Scale]; wrong != "" || all.short != "" || d.last.Outcome != drain.Drained || scaled > 10 {
		t.Errorf("%s, %s, %s, scaled %d times\n%s", wrong, all.short, d.last.Outcome, scaled, strings.Join(d.log[:min(len(d.log), 60)], "\n"))
	}
}

// TestTogetherSurge: a Deployment on nodes that drains of one process drain at once is surged for all of them, in little more time than one
// drain of all takes.
func TestTogetherSurge(t *testing.T) {
	var nodes []string
	for i := range 10 {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	var apart []drain.Request
	for _, node := range nodes {
		one := request(node)
		one.Self.ID = "d-" + node
		apart = append(apart, one)
	}
	one, _ := surged(t, nodes, []drain.Request{request(nodes...)})
	took, scalings := surged(t, nodes, apart)
	if took > one*11/10 {
		t.Errorf("drains of their own took %s, one drain %s", took, one)
	}
	if scalings > 10 {
		t.Errorf("scaled %d times", scalings)
	}
}

// TestApart: drains of different processes leave budgets what they want: what ends the surge of one is no room for the eviction of another,
// nor is what a surge has added room for the pods of another workload under the same budget.
func TestApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(t, "replicas")
		var nodes []string
		w := newWorld()
		for i := range n {
			nodes = append(nodes, fmt.Sprintf("n%d", i))
			w.node(nodes[i], "a")
			w.node("spare-"+nodes[i], "a")
		}
		w.workload("Deployment", "web", nodes)
		least, late := n, 0.0
		kind := rapid.SampledFrom([]string{"", "", "StatefulSet", "Deployment"}).Draw(t, "beside it")
		if kind != "" {
			beside := nodes[:rapid.IntRange(1, n).Draw(t, "pods beside it")]
			w.workload(kind, "db", beside, func(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} })
			least += len(beside) - rapid.IntRange(0, 1).Draw(t, "to spare")
		}
		if kind == "" { // under a budget over two workloads, writes of two processes that cross are judged by neither: scaling asks no budget
			late = rapid.Float64Range(0, 0.9).Draw(t, "late answers")
		}
		w.budget("web", "web", minAvailable(fmt.Sprint(least)))
		var reqs []drain.Request
		for i, node := range nodes[:rapid.IntRange(2, n).Draw(t, "drains")] {
			reqs = append(reqs, request(node))
			reqs[i].Self.ID = "d-" + node
		}
		cfg := drawConfig(t)
		cfg.Lag = sim.Lag{}
		cfg.Controllers = rapid.SampledFrom([]time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond}).Draw(t, "controllers of pods")
		all := newTogether(sim.New(w.view(), cfg), reqs, late, false)
		wrong := all.run()
		for _, d := range all.drains {
			must(t, d, wrong == "" && all.short == "", "%s, %s", wrong, all.short)
			settledClean(t, d)
		}
	})
}

// surged returns how long drains of nodes take that have one Deployment whose budget allows nothing, and how often they scale that.
func surged(t *testing.T, nodes []string, reqs []drain.Request) (took time.Duration, scalings int) {
	t.Helper()
	w := newWorld()
	for _, node := range nodes {
		w.node(node, "a")
		w.node("spare-"+node, "a")
	}
	w.workload("Deployment", "web", nodes)
	w.budget("web", "web", minAvailable(fmt.Sprint(len(nodes))))
	all := newTogether(sim.New(w.view(), steady()), reqs, 0.3, true)
	wrong := all.run()
	for _, d := range all.drains {
		if wrong != "" || d.last.Outcome != drain.Drained || !d.last.Settled {
			t.Fatalf("%s, %s\n%s", wrong, d.last.Outcome, strings.Join(d.log, "\n"))
		}
	}
	return all.drains[0].elapsed(), all.sum(func(d *driver) int { return d.writes[drain.Scale] })
}
