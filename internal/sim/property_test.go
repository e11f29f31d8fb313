package sim_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/sim"
	"usher.sh/usher/internal/snapshot"
)

// patience is how long a drain may go on in a property before it is looked at as it
// stands: budgets that never allow a disruption are waited for without end.
const patience = 2 * time.Hour

// start makes a drain over a drawn cluster.
func start(t *rapid.T, faults bool) *driver {
	w, nodes := drawWorld(t)
	req := drawRequest(t, w, nodes)
	cfg := drawConfig(t)
	if faults {
		cfg.Faults = drawFaults(t)
	}
	cfg.Judge = &req
	d := newDriver(sim.New(w.view(), cfg), req, cfg.Seed)
	d.behind = cfg.Lag != sim.Lag{}
	d.late = rapid.SampledFrom([]float64{0, 0, 0.3, 0.8}).Draw(t, "late answers")
	return d
}

// must fails with everything that a person needs to understand it.
func must(t *rapid.T, d *driver, ok bool, format string, args ...any) {
	t.Helper()
	if ok {
		return
	}
	t.Logf("%s", strings.Join(d.log, "\n"))
	t.Logf("request %+v", d.req)
	t.Logf("outcome %q ending %q settled=%v next=%s in flight %d", d.last.Outcome, d.led.Ending(), d.last.Settled, d.last.Next, len(d.inFlight))
	for _, n := range d.last.Nodes {
		t.Logf("node %s %s, %d left", n.Name, n.State, n.Left)
	}
	for _, b := range d.verdict.Blockers() {
		t.Logf("blocker %s %s: %s: %s (dead=%v)", b.Pod, b.Node, b.Reason, b.Message, b.Dead)
	}
	t.Fatalf(format, args...)
}

func drive(t *rapid.T, d *driver) {
	t.Helper()
	wrong := d.run(d.req.Started.Add(patience))
	must(t, d, wrong == "", "%s", wrong)
}

func safe(t *rapid.T, d *driver) {
	t.Helper()
	must(t, d, len(d.sim.Violations()) == 0, "violations: %s", d.sim.Violations())
}

// TestQuietDrains: where nothing goes wrong a drain ends or explains every pod that is
// left, does nothing it must not do, and sends few requests.
func TestQuietDrains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, false)
		drive(t, d)
		safe(t, d)
		must(t, d, len(d.silent()) == 0, "waits in silence: %s", d.silent())
		nothingHeldByOrder(t, d)
		settledClean(t, d)
		pods := d.writes[drain.Evict] + d.writes[drain.Delete]
		must(t, d, d.refused <= 2+pods, "%d evictions refused by budgets of %d sent", d.refused, pods)
		must(t, d, d.refused == 0 || d.late > 0 || d.behind, "%d evictions refused by budgets, though nothing was seen late", d.refused)
		// The drain's last mark of a node may be seen up to 3 s late; until then it is in the way of taking it off.
		targets := len(d.req.Nodes)
		must(t, d, d.writes[drain.Unmark] <= 6*targets, "%d writes to unmark %d nodes", d.writes[drain.Unmark], targets)
		renewals := d.writes[drain.RenewLease]
		must(t, d, renewals <= int(d.elapsed()/snapshot.BeatEvery)+2, "%d renewals of the Lease in %s", renewals, d.elapsed())
		seldom := targets * int(d.elapsed()/snapshot.MarkEvery)
		must(t, d, renewals == 0 || d.writes[drain.Mark] <= 6*targets+seldom, "%d marks of %d nodes beside the Lease", d.writes[drain.Mark], targets)
		marks := d.writes[drain.Mark] + d.writes[drain.Cordon] + d.writes[drain.Unmark] + renewals
		scalings := 6 * len(d.sim.Truth().Cluster.Workloads())
		must(t, d, d.totalWrites()-marks <= 4*(pods+len(d.writes))+scalings, "%d writes for %d pods: %v", d.totalWrites(), pods, d.writes)
	})
}

// nothingHeldByOrder checks that no order of pods or nodes holds for good what could go.
func nothingHeldByOrder(t *rapid.T, d *driver) {
	t.Helper()
	if d.led.Ending() != drain.Running {
		return
	}
	// A node keeps its place while it has a pod that may go by itself.
	busy := slices.ContainsFunc(d.last.Pods, func(s drain.PodStatus) bool {
		return slices.ContainsFunc(s.Blockers, func(b drain.Blocker) bool { return !b.Dead && b.Reason != drain.NodeWaitsTurn })
	})
	for i := range d.last.Pods {
		s := &d.last.Pods[i]
		inOrder := func(b drain.Blocker) bool {
			return b.Reason == drain.EarlierWave || b.Reason == drain.EarlierRole || b.Reason == drain.NodeWaitsTurn && !busy
		}
		held := len(s.Blockers) > 0 && !slices.ContainsFunc(s.Blockers, func(b drain.Blocker) bool { return !inOrder(b) })
		must(t, d, !held || s.Pod.Owner.Kind == "DaemonSet", "%s is held by nothing but its turn", s.Pod.Key())
	}
}

// settledClean checks what must hold once a drain has settled.
func settledClean(t *rapid.T, d *driver) {
	t.Helper()
	if !d.last.Settled {
		return
	}
	must(t, d, len(d.leftovers()) == 0, "left behind: %s", d.leftovers())
	if d.last.Outcome == drain.Drained {
		must(t, d, len(d.onTargets()) == 0, "drained, but still there: %s", d.onTargets())
	}
	if d.last.Outcome == drain.Blocked {
		must(t, d, len(d.verdict.Blockers()) > 0, "blocked without a blocker")
	}
}

// TestFaultyDrains: whatever goes wrong, a drain does nothing it must not do and does
// not wait in silence.
func TestFaultyDrains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, true)
		for range rapid.IntRange(0, 6).Draw(t, "meddlings") {
			wrong := d.run(d.sim.View().Now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 20 * time.Second}).Draw(t, "after")))
			must(t, d, wrong == "" || strings.HasPrefix(wrong, "hangs"), "%s", wrong)
			meddle(t, d)
		}
		drive(t, d)
		safe(t, d)
		must(t, d, len(d.silent()) == 0, "waits in silence: %s", d.silent())
		nothingHeldByOrder(t, d)
		nothingHidden(t, d)
	})
}

// nothingHidden checks that what a settled drain could not take back is said.
func nothingHidden(t *rapid.T, d *driver) {
	t.Helper()
	left := d.leftovers()
	said := strings.Contains(strings.Join(d.last.Notes, " "), "--revert")
	must(t, d, !d.last.Settled || len(left) == 0 || said, "left behind without a word: %s", left)
}

// TestFaultyCancels: a drain that is cancelled while everything goes wrong settles all
// the same, and says what it could not take back.
func TestFaultyCancels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, true)
		stop := rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second, 20 * time.Second}).Draw(t, "cancelled after")
		wrong := d.run(d.req.Started.Add(stop))
		must(t, d, wrong == "", "%s", wrong)
		d.note("-- interrupted")
		d.led.End(drain.Interrupted)
		drive(t, d)
		safe(t, d)
		must(t, d, d.last.Settled, "not settled")
		nothingHidden(t, d)
	})
}

// meddle changes the cluster as others would.
func meddle(t *rapid.T, d *driver) {
	c := d.sim.Truth().Cluster
	node := rapid.SampledFrom(d.req.Nodes).Draw(t, "node")
	workloads := c.Workloads()
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0:
		d.note("-- node %s is deleted", node)
		d.sim.DeleteNode(node)
	case 1:
		ready := rapid.Bool().Draw(t, "ready")
		d.note("-- node %s ready=%v", node, ready)
		d.sim.SetNodeReady(node, ready)
	case 2:
		unschedulable := rapid.Bool().Draw(t, "unschedulable")
		d.note("-- node %s is made unschedulable=%v", node, unschedulable)
		d.sim.Cordon(node, unschedulable)
	case 3, 4:
		if len(workloads) > 0 {
			w := rapid.SampledFrom(workloads).Draw(t, "workload")
			if w.Kind == "Deployment" || w.Kind == "StatefulSet" {
				n := rapid.Int32Range(1, 6).Draw(t, "replicas")
				d.note("-- %s is scaled to %d by its owner", w.Name, n)
				d.sim.SetReplicas(w.UID, n)
			}
		}
	default:
		for _, p := range c.PodsIn("shop") {
			if rapid.IntRange(0, 4).Draw(t, "flip") == 0 {
				d.note("-- %s ready=%v", p.Name, !p.Ready)
				d.sim.Flip(p.UID, !p.Ready)
			}
		}
	}
}

// state is what a cancelled drain has to give back.
type state struct {
	replicas map[string]int32
	minimum  map[string]int32
	costs    map[string]string
	cordoned map[string]bool
}

func stateOf(c *snapshot.Cluster) state {
	s := state{map[string]int32{}, map[string]int32{}, map[string]string{}, map[string]bool{}}
	for _, w := range c.Workloads() {
		if w.Kind == "Deployment" {
			s.replicas[w.Name] = w.Replicas
		}
	}
	for _, a := range c.Autoscalers() {
		s.minimum[a.Name] = a.Min
	}
	c.EachPod(func(p *snapshot.Pod) {
		if p.DeletionCost != "" && !p.Terminating() {
			s.costs[p.Name] = p.DeletionCost
		}
	})
	for _, n := range c.Nodes() {
		s.cordoned[n.Name] = n.Unschedulable
	}
	return s
}

// forgetKilled takes the cordons of killed drains for none: the next drain has them, and may take them away.
func (s state) forgetKilled(c *snapshot.Cluster) {
	for _, n := range c.Nodes() {
		s.cordoned[n.Name] = s.cordoned[n.Name] && !n.UsherCordon()
	}
}

// TestCancelRestores: a drain that is cancelled at any step takes back what it did.
func TestCancelRestores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, false)
		before := stateOf(d.sim.Truth().Cluster)
		before.forgetKilled(d.sim.Truth().Cluster)
		stop := rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second, 20 * time.Second, time.Minute}).Draw(t, "cancelled after")
		wrong := d.run(d.req.Started.Add(stop))
		must(t, d, wrong == "", "%s", wrong)
		drained := d.last.Outcome == drain.Drained
		d.note("-- interrupted")
		d.led.End(drain.Interrupted)
		drive(t, d)
		safe(t, d)
		must(t, d, d.last.Settled, "not settled")
		restored(t, d, before, drained)
	})
}

func restored(t *rapid.T, d *driver, before state, drained bool) {
	t.Helper()
	must(t, d, len(d.leftovers()) == 0, "left behind: %s", d.leftovers())
	after := stateOf(d.sim.Truth().Cluster)
	for name, n := range before.replicas {
		ruled := before.minimum[name] > 0 // the autoscaler may still be on its way down
		must(t, d, after.replicas[name] == n || ruled && after.replicas[name] > n, "%s has %d replicas, had %d", name, after.replicas[name], n)
	}
	must(t, d, maps.Equal(before.minimum, after.minimum), "minReplicas %v, were %v", after.minimum, before.minimum)
	for name, cost := range after.costs {
		was, known := before.costs[name]
		fromTemplate := !known && slices.Contains(slices.Collect(maps.Values(before.costs)), cost) // a later pod's
		must(t, d, was == cost || fromTemplate, "deletion cost of %s is %q, was %q", name, cost, before.costs[name])
	}
	for name, cordoned := range before.cordoned {
		if n := d.sim.Truth().Cluster.Node(name); n.Drain != nil && n.Drain.ID != d.req.Self.ID {
			continue // a killed drain's still
		}
		want := cordoned || !d.req.UncordonOnFailure || drained
		if n := d.sim.Truth().Cluster.Node(name); n.Drain != nil || cordoned {
			must(t, d, after.cordoned[name] == want, "node %s unschedulable=%v, want %v", name, after.cordoned[name], want)
		}
		must(t, d, after.cordoned[name] || !cordoned, "another client's cordon of %s was removed", name)
	}
}

// TestKilledAndRestarted: a drain that was killed at any step and started again ends
// like one that was not, and leaves nothing of either behind.
func TestKilledAndRestarted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, false)
		kill := rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second, 20 * time.Second, time.Minute}).Draw(t, "killed after")
		wrong := d.run(d.req.Started.Add(kill))
		must(t, d, wrong == "", "%s", wrong)
		d.note("-- killed")

		req := d.req
		req.Self.ID, req.Dead = "d2", map[string]bool{"d1": true}
		d.sim.JudgeAs(req)
		d.sim.Relist()
		next := newDriver(d.sim, req, 3)
		next.log, next.late = d.log, d.late
		drive(t, next)
		safe(t, next)
		must(t, next, len(next.silent()) == 0, "waits in silence: %s", next.silent())
		settledClean(t, next)
		if next.last.Settled {
			must(t, next, len(d.sim.Leftovers("d1")) == 0, "left behind by the killed drain: %s", d.sim.Leftovers("d1"))
		}
	})
}
