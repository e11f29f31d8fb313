package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

func ofWeb(p *snapshot.Pod) { p.Labels = map[string]string{"app": "web"} }

func tailOf(d *driver, n int) string {
	log := d.log[max(0, len(d.log)-n):]
	var blockers []string
	for _, b := range d.last.Blockers() {
		blockers = append(blockers, fmt.Sprintf("%s %s dead=%t: %s (remedy: %s)", b.Pod.Name, b.Reason, b.Dead, b.Message, b.Remedy))
	}
	return strings.Join(log, "\n") + "\n-- blockers:\n" + strings.Join(blockers, "\n")
}

// twoOnANode has two Deployments of one replica on one node, under one budget with maxUnavailable 1.
func twoOnANode() *world {
	w := newWorld()
	for _, n := range []string{"a", "b", "c"} {
		w.node(n, "z")
	}
	w.workload("Deployment", "web", []string{"a"})
	w.workload("Deployment", "db", []string{"a"}, ofWeb)
	w.budget("web", "web", maxUnavailable("1"))
	return w
}

// Two Deployments of one replica are on one node, under one budget with maxUnavailable 1, and leave by evictions, since a grace was given or
// their deletion costs may not be lowered: neither surge waits for the end of the other.
func TestTwoSurgesByEvictionUnderMaxUnavailable(t *testing.T) {
	five := 5 * time.Second
	for name, c := range map[string]struct {
		grace  *time.Duration
		noCost bool
	}{"--grace-period=5": {&five, false}, "may not patch pods": {nil, true}} {
		t.Run(name, func(t *testing.T) {
			w := twoOnANode()
			req, cfg := request("a"), steady()
			req.Grace, cfg.Faults.NoCost = c.grace, c.noCost
			d := newDriver(sim.New(w.view(), cfg), req, 0)
			d.led.Resume(d.sim.View(), req)
			wrong := d.run(req.Started.Add(patience))
			if wrong != "" || d.last.Outcome != drain.Drained || !d.last.Settled {
				t.Errorf("%s; outcome %q after %s\n%s", wrong, d.last.Outcome, d.elapsed(), tailOf(d, 8))
			}
		})
	}
}

// A surge that was turned to evictions holds a maintenance no longer than its budgets may.
func TestSurgeByEvictionIsBoundedByMaxHold(t *testing.T) {
	lowest := func(p *snapshot.Pod) { p.DeletionCost = snapshot.LowestCost }
	junk := func(p *snapshot.Pod) { p.Ready, p.ReadySince = false, time.Time{} }
	for name, prepare := range map[string]func(*world){
		"pods that never get ready under the budget": func(w *world) {
			w.workload("Deployment", "web", []string{"a"}, lowest)
			w.workload("Deployment", "junk", []string{"b", "b"}, ofWeb, junk)
			w.budget("web", "web", minAvailable("3"))
		},
		"two Deployments under maxUnavailable": func(w *world) {
			w.workload("Deployment", "web", []string{"a"}, lowest)
			w.workload("Deployment", "db", []string{"a"}, ofWeb, lowest)
			w.budget("web", "web", maxUnavailable("1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for _, n := range []string{"a", "b", "c"} {
				w.node(n, "z")
			}
			prepare(w)
			req, cfg := request("a"), steady()
			req.Self.ID, req.Persistent = snapshot.MaintenancePrefix+"1", true
			cfg.HoldLimits = map[string]snapshot.HoldLimit{"shop": {Policy: "tenants", MaxHold: time.Minute}}
			cfg.Faults.NeverReady = func(p *snapshot.Pod) bool { return strings.HasPrefix(p.Name, "junk") }
			d := newDriver(sim.New(w.view(), cfg), req, 0)
			d.led.Resume(d.sim.View(), req)
			wrong := d.run(req.Started.Add(patience))
			if left := d.sim.Truth().Cluster.PodsOn("a"); wrong != "" || len(left) > 0 {
				t.Errorf("%s; %d pods are on the node after %s, with a maxHold of a minute\n%s", wrong, len(left), d.elapsed(), tailOf(d, 8))
			}
		})
	}
}

// Drains that surge and cut graces in their own ways, in one process or in several, end under a budget over two workloads, and never have
// fewer pods healthy than it needs. What one needs that is no fixed number of pods grows with a surge, and shrinks when the last pod of a
// workload is gone: the disruption controller expects only what has pods.
func TestApartInModes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, nodes, fixed := twoWorkloads(t)
		var reqs []drain.Request
		five := 5 * time.Second
		for i, node := range nodes[:rapid.IntRange(1, len(nodes)).Draw(t, "drains")] {
			reqs = append(reqs, request(node))
			reqs[i].Self.ID = "d-" + node
			reqs[i].Surge = rapid.SampledFrom([]drain.SurgeMode{drain.SurgeAuto, drain.SurgeAlways, drain.SurgeNever}).Draw(t, "surge")
			reqs[i].Grace = rapid.SampledFrom([]*time.Duration{nil, &five}).Draw(t, "grace")
		}
		cfg := drawConfig(t)
		cfg.Lag = sim.Lag{}
		cfg.Controllers = rapid.SampledFrom([]time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond}).Draw(t, "controllers of pods")
		all := newTogether(sim.New(w.view(), cfg), reqs, 0, rapid.Bool().Draw(t, "one process"))
		wrong := all.run()
		for _, d := range all.drains {
			must(t, d, wrong == "" && (all.short == "" || !fixed), "%s, %s", wrong, all.short)
			settledClean(t, d)
		}
	})
}

// twoWorkloads draws a Deployment with a pod on each node, perhaps another workload beside it, and a budget over both, which may need a fixed
// number of pods.
func twoWorkloads(t *rapid.T) (w *world, nodes []string, fixed bool) {
	n := rapid.IntRange(1, 4).Draw(t, "replicas")
	w = newWorld()
	for i := range n {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
		w.node(nodes[i], "a")
		w.node("spare-"+nodes[i], "a")
	}
	w.workload("Deployment", "web", nodes)
	least := n
	if kind := rapid.SampledFrom([]string{"", "StatefulSet", "Deployment"}).Draw(t, "beside it"); kind != "" {
		beside := nodes[:rapid.IntRange(1, n).Draw(t, "pods beside it")]
		w.workload(kind, "db", beside, ofWeb)
		least += len(beside) - rapid.IntRange(0, 1).Draw(t, "to spare")
	}
	switch rapid.SampledFrom([]string{"minAvailable", "minAvailable, a share", "maxUnavailable", "maxUnavailable, a share"}).Draw(t, "budget") {
	case "minAvailable":
		fixed = true
		w.budget("web", "web", minAvailable(fmt.Sprint(least)))
	case "minAvailable, a share":
		w.budget("web", "web", minAvailable(rapid.SampledFrom([]string{"30%", "60%", "90%"}).Draw(t, "share")))
	case "maxUnavailable":
		w.budget("web", "web", maxUnavailable(rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, "most")))
	default:
		w.budget("web", "web", maxUnavailable(rapid.SampledFrom([]string{"10%", "30%", "50%"}).Draw(t, "share")))
	}
	return w, nodes, fixed
}

func TestForecastOfTwoSurgesByEviction(t *testing.T) {
	w := twoOnANode()
	five := 5 * time.Second
	req := request("a")
	req.Grace = &five
	if p := sim.Forecast(w.view(), req); p.Outcome != drain.Drained {
		t.Errorf("%q after %s: %v", p.Outcome, p.Duration, p.Blockers)
	}
}
