package sim_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// TestGivenBack: whatever becomes of nodes that are given back while the drain goes on, it leaves them and their pods alone, takes
// back what it had asked of these, and ends.
func TestGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, false)
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			if rapid.Bool().Draw(t, "in the midst") {
				d.runTo(rapid.SampledFrom([]drain.Kind{drain.Evict, drain.Ask, drain.LowerCost}).Draw(t, "once it has sent"))
			} else {
				after := rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second, 20 * time.Second}).Draw(t, "after")
				wrong := d.run(d.sim.View().Now.Add(after))
				must(t, d, wrong == "", "%s", wrong)
			}
			pass(t, d, rapid.SampledFrom(d.req.Nodes).Draw(t, "node"))
		}
		drive(t, d)
		safe(t, d)
		must(t, d, len(d.silent()) == 0, "waits in silence: %s", d.silent())
		must(t, d, !d.last.Settled || len(d.leftovers()) == 0, "left behind: %s", d.leftovers())
	})
}

// TestKeptEmpty: what a drain has emptied stays so for as long as its node is out of service, and not a moment longer, whoever gives that back.
func TestKeptEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := start(t, false)
		drive(t, d)
		safe(t, d)
		if d.last.Outcome != drain.Drained || !d.last.Settled {
			return
		}
		wait := func() { d.sim.Advance(d.sim.View().Now.Add(2 * snapshot.LiveFor)) }
		for range rapid.IntRange(0, 2).Draw(t, "looks of the manager") {
			wait()
		}
		for i := range d.last.Pods {
			s := &d.last.Pods[i]
			must(t, d, s.State != drain.Emptied || d.sim.Emptied(s.Pod), "%s is filled on %s, which is drained", s.Pod.Key(), s.Pod.Node)
		}
		for _, node := range d.req.Nodes {
			if rapid.Bool().Draw(t, "by usher uncordon") {
				d.sim.GiveBack(node)
			} else {
				d.sim.Cordon(node, false)
			}
		}
		wait()
		must(t, d, len(d.sim.Leftovers(d.req.Self.ID)) == 0, "left behind: %s", d.sim.Leftovers(d.req.Self.ID))
	})
}

// runTo drives the drain until it has sent something of this kind, or decided to end, for a minute at most.
func (d *driver) runTo(kind drain.Kind) {
	limit, before := d.sim.View().Now.Add(time.Minute), d.writes[kind]
	for d.turn(); d.writes[kind] == before && d.last.Outcome == drain.Running && d.sim.View().Now.Before(limit) && d.wait(limit); {
		d.turn()
	}
}

// pass lets a node pass from hand to hand: it is given back, another drain takes it where it may, and ends.
func pass(t *rapid.T, d *driver, node string) {
	now := d.sim.View().Now
	n := d.sim.Truth().Cluster.Node(node)
	others := n.Drain != nil && n.Drain.ID == "other"
	switch what := rapid.SampledFrom([]string{"uncordon", "kubectl uncordon", "kubectl cordon", "applied cordon", "other drain", "other drain"}).Draw(t, "what"); {
	case what == "uncordon":
		d.note("-- %s is given back", node)
		d.sim.GiveBack(node)
	case what == "kubectl uncordon":
		d.note("-- %s is made schedulable", node)
		d.sim.Cordon(node, false)
	case what == "applied cordon" && n.Unschedulable:
		d.note("-- the cordon of %s is applied by another client", node)
		d.sim.ApplyCordon(node)
	case what == "kubectl cordon", what == "applied cordon":
		d.note("-- %s is cordoned anew by another client", node)
		d.sim.Cordon(node, false)
		d.sim.Cordon(node, true)
	case others:
		record := *n.Drain
		record.State = rapid.SampledFrom([]string{"interrupted", "drained"}).Draw(t, "ends")
		d.note("-- the other drain of %s ends %s", node, record.State)
		d.sim.Claim(node, &record)
	case n.Drain == nil || n.Drain.State != "draining" || !n.Unschedulable:
		who := snapshot.Drainer{ID: "other", By: "other", Beat: now}
		record := &snapshot.DrainRecord{Drainer: who, Since: now, State: "draining", Cordoned: !n.Unschedulable || n.UsherCordon()}
		if n.Unschedulable && n.UsherCordon() {
			record.CordonTime = n.Drain.CordonedSince()
		}
		d.note("-- another drain takes %s", node)
		d.sim.Claim(node, record)
	}
}
