package maintenance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/maintenance"
	"usher.sh/usher/internal/snapshot"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// leading is a process that leads, whose drain of n1 has ended.
func leading(t *testing.T) *Drains {
	t.Helper()
	d := newDrains(Options{Now: func() time.Time { return noon }})
	d.ctx = t.Context()
	d.known["n1"] = &run{over: true, leave: make(chan struct{}), state: maintenance.Drain{Outcome: drain.Drained, Begun: true}}
	return d
}

func nodes(state string) maintenance.Input {
	n := &maintenance.Node{Node: &snapshot.Node{Name: "n1", UID: "n1"}}
	if state != "" {
		n.Drain = &snapshot.DrainRecord{Drainer: snapshot.Drainer{ID: snapshot.MaintenancePrefix + "1"}, Cordoned: true, State: state}
	}
	return maintenance.Input{Now: noon, Nodes: []*maintenance.Node{n}}
}

// A decision that holds a maintenance because of a drain that is forgotten then is followed by another one.
func TestWhatIsForgottenIsLookedAtAgain(t *testing.T) {
	for name, orders := range map[string][]maintenance.Order{
		"a node that is back":           {{Node: "n1", Want: maintenance.GiveBack}},
		"a drain that is not wanted":    nil,
		"a node that has lost its mark": {{Node: "n1", Want: maintenance.StopDrain}},
	} {
		t.Run(name, func(t *testing.T) {
			d := leading(t)
			d.Apply(nodes(""), orders)
			if len(d.States()) > 0 {
				t.Errorf("the drain is still known: %v", d.States())
			}
			select {
			case <-d.changed:
			default:
				t.Error("it is not looked at again")
			}
			d.Apply(nodes(""), orders)
			select {
			case <-d.changed:
				t.Error("it is looked at again and again")
			default:
			}
		})
	}
}

// A node whose drain has ended is given back by the caller, and one that was drained under the same terms is not drained again.
func TestApply(t *testing.T) {
	cases := map[string]struct {
		orders []maintenance.Order
		want   []string // nodes to be given back
		known  int
	}{
		"drained, and to be given back": {[]maintenance.Order{{Node: "n1", Want: maintenance.GiveBack}}, []string{"n1"}, 1},
		"drained, and wanted so":        {[]maintenance.Order{{Node: "n1", Want: maintenance.DrainNode}}, nil, 1},
		"drained, and not written yet":  {[]maintenance.Order{{Node: "n1", Want: maintenance.KeepDrain}}, nil, 1},
		"drained, and to stay":          {[]maintenance.Order{{Node: "n1", Want: maintenance.StopDrain}}, nil, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := leading(t)
			got := d.Apply(nodes("drained"), c.orders)
			if diff := cmp.Diff(c.want, got.giveBack); diff != "" || len(d.States()) != c.known {
				t.Errorf("known %d; given back (-want +got):\n%s", len(d.States()), diff)
			}
		})
	}
}

// While the answer to giving one node back is awaited it is not given back twice, and not drained; both are looked at again afterwards.
func TestNodeIsGivenBackApart(t *testing.T) {
	d := leading(t)
	answered, calls := make(chan struct{}), 0
	giveBack := func(context.Context) error {
		calls++
		<-answered
		return nil
	}
	d.giveBackApart("n1", giveBack)
	d.giveBackApart("n1", giveBack)
	d.known["n1"].left = true // so that it is to be drained anew
	d.Apply(nodes("drained"), []maintenance.Order{{Node: "n1", Want: maintenance.DrainNode}})
	if !d.known["n1"].over {
		t.Error("a drain begins while the node is given back")
	}
	close(answered)
	d.running.Wait()
	select {
	case <-d.changed:
	default:
		t.Error("it is not looked at again")
	}
	if calls != 1 || len(d.givenBack) > 0 {
		t.Errorf("given back %d times, under way %v", calls, d.givenBack)
	}
}

// A drain that has ended by itself, and was stopped then, is begun anew where it is wanted again: nothing else says why the node waits.
func TestStoppedDrainBeginsAnew(t *testing.T) {
	d := leading(t)
	d.observe = func(ctx context.Context, _ []string) (runner.Source, func(), error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	t.Cleanup(d.running.Wait)
	d.Apply(nodes("deadline"), []maintenance.Order{{Node: "n1", Want: maintenance.StopDrain}})
	d.Apply(nodes("deadline"), []maintenance.Order{{Node: "n1", Want: maintenance.DrainNode}})
	if r := d.known["n1"]; r == nil || r.over || r.ending {
		t.Errorf("the drain is %+v", r)
	}
}

// A drain whose deadline has passed is looked into again: what was deleted at the deadline ends after it. Until then it stays known as
// ended, so that its node does not seem to be drained meanwhile.
func TestDrainPastItsDeadlineIsLookedIntoAgain(t *testing.T) {
	d := leading(t)
	d.observe = func(ctx context.Context, _ []string) (runner.Source, func(), error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	t.Cleanup(d.running.Wait)
	ended := d.known["n1"]
	ended.state.Outcome, ended.retry = drain.DeadlinePassed, noon.Add(afterObjection)
	order, in := []maintenance.Order{{Node: "n1", Want: maintenance.DrainNode}}, nodes("deadline")
	if next := d.Apply(in, order).next; !next.Equal(ended.retry) || d.known["n1"] != ended {
		t.Errorf("before its time: looked at again at %s, %+v", next, d.known["n1"])
	}
	in.Now = ended.retry
	d.Apply(in, order)
	if r := d.known["n1"]; r == ended || r.over || d.States()["n1"].Outcome != drain.DeadlinePassed {
		t.Errorf("the drain is %+v", r)
	}
}

// What held the pods of a drain whose deadline has passed is said after the next look, too, which comes later each time.
func TestDrainPastItsDeadlineKeepsWhatHeldIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := snapshot.NewCluster()
		cluster.SetNode(&snapshot.Node{Name: "n1", UID: "n1", Ready: true})
		pod := &snapshot.Pod{Namespace: "shop", Name: "web", UID: "web", Node: "n1", Phase: corev1.PodRunning, Ready: true, Owner: snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs"}}
		cluster.SetPod(pod)
		d := newDrains(Options{Now: now})
		d.ctx, d.writer = t.Context(), cordons(make(chan string, 100))
		source := newStill(cluster)
		d.observe = func(context.Context, []string) (runner.Source, func(), error) { return source, func() {}, nil }
		held := []drain.Blocker{{Reason: drain.BudgetExhausted, Pod: pod.Key(), Node: "n1", Message: "a budget"}}
		order := maintenance.Order{Node: "n1", Want: maintenance.DrainNode, Terms: maintenance.Terms{Deadline: noon.Add(-time.Hour).Unix()}}
		d.known["n1"] = &run{over: true, late: afterObjection, retry: now(), heldBy: map[types.UID][]drain.Blocker{"web": held}, state: maintenance.Drain{Terms: order.Terms, Begun: true, Outcome: drain.DeadlinePassed, Blockers: held}}
		var waits []time.Duration
		for range 5 {
			in := nodes("")
			in.Now = d.known["n1"].retry
			d.Apply(in, []maintenance.Order{order})
			d.running.Wait()
			r := d.known["n1"]
			waits = append(waits, r.retry.Sub(now()))
			r.retry = now()
			if diff := cmp.Diff(held, r.state.Blockers); diff != "" || r.state.Outcome != drain.DeadlinePassed {
				t.Errorf("ended %s, held by (-want +got):\n%s", r.state.Outcome, diff)
			}
		}
		if diff := cmp.Diff([]time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, longestLate, longestLate}, waits); diff != "" {
			t.Errorf("looked at again after (-want +got):\n%s", diff)
		}
	})
}

// What held a pod is not said of another one of its name, which has come to the node since.
func TestWhatHeldAPodIsNotSaidOfItsSuccessor(t *testing.T) {
	held := []drain.Blocker{{Reason: drain.TwoBudgets, Pod: snapshot.Key{Namespace: "shop", Name: "db-0"}, Message: "two budgets", Dead: true}}
	ended := []drain.Blocker{{Reason: drain.DrainEnded, Pod: held[0].Pod}}
	decision := func(uid types.UID) drain.Decision {
		pod := &snapshot.Pod{Namespace: "shop", Name: "db-0", UID: uid}
		return drain.Decision{Pods: []drain.PodStatus{{Pod: pod, Blockers: ended}}}
	}
	for uid, want := range map[types.UID][]drain.Blocker{"old": held, "new": ended} {
		r := &run{former: map[types.UID][]drain.Blocker{"old": held}}
		if diff := cmp.Diff(want, r.blockersOf(decision(uid))); diff != "" {
			t.Errorf("the %s pod is held by (-want +got):\n%s", uid, diff)
		}
		if diff := cmp.Diff(map[types.UID][]drain.Blocker{uid: want}, r.heldBy); diff != "" {
			t.Errorf("kept for the next drain (-want +got):\n%s", diff)
		}
	}
}

// A drain that is to begin anew, and was left for that, is looked at once it has returned, and not all the time before.
func TestDrainThatIsLeftIsNotPolled(t *testing.T) {
	d := leading(t)
	r := d.known["n1"]
	r.over, r.state.Outcome, r.retry = false, drain.Running, noon.Add(-time.Second)
	if next := d.Apply(nodes("draining"), []maintenance.Order{{Node: "n1", Want: maintenance.DrainNode}}).next; !next.IsZero() || !r.left {
		t.Errorf("looked at again at %s", next)
	}
}

// What a drain that has not ended has asked for is withdrawn, and its surges taken back, before its node is given back or left: also
// where its record says that it is blocked, which a drain of a maintenance outlasts.
func TestDrainsEndUnderTheirIDs(t *testing.T) {
	for state, ends := range map[string]bool{"draining": true, "blocked": true, "drained": false, "interrupted": false} {
		for _, want := range []maintenance.Want{maintenance.GiveBack, maintenance.StopDrain} {
			t.Run(state+", "+string(want), func(t *testing.T) {
				d := leading(t)
				d.observe = func(ctx context.Context, _ []string) (runner.Source, func(), error) {
					<-ctx.Done()
					return nil, nil, ctx.Err()
				}
				t.Cleanup(d.running.Wait)
				got := d.Apply(nodes(state), []maintenance.Order{{Node: "n1", Want: want}})
				r := d.known["n1"]
				if r == nil || r.ending != ends || len(got.giveBack) > 0 == (ends || want == maintenance.StopDrain) {
					t.Fatalf("given back %v, with %+v", got.giveBack, r)
				}
				if ends && (r.request.Self.ID != snapshot.MaintenancePrefix+"1" || r.request.UncordonOnFailure != (want == maintenance.GiveBack)) {
					t.Errorf("it is ended as %s, uncordons %v", r.request.Self.ID, r.request.UncordonOnFailure)
				}
			})
		}
	}
}

// What limits how long a maintenance is held knows the requests of its drains.
func TestItsRequestsAreThoseOfAMaintenance(t *testing.T) {
	self := newDrains(Options{Now: time.Now}).selfFor(nil)
	if requester := snapshot.RequesterOf(self.ID); !evictionrequest.ByMaintenance(requester) {
		t.Errorf("requester %s is taken for another client", requester)
	}
}
