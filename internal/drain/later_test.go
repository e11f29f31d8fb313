package drain_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

const leftLater = "what was written in the name of a drain meanwhile, by others, is left as it is; usher drain --revert undoes it"

// A Job whose template has the mark creates marked pods without end: undoing what killed drains have left ends all the same, and
// what is in other namespaces is undone.
func TestUndoingEndsWhileMoreIsMarked(t *testing.T) {
	s := tell(t, ask("a"), deployment("web", 2, surgedBy("x", 1, start.Add(-time.Hour))))
	var done []string
	for turn := range 20 {
		s.then(time.Second, pod("p"+strconv.Itoa(turn), in("tenant"), marked("x=7")), pod("p"+strconv.Itoa(turn-1), in("tenant")))
		if slices.Contains(done, "scale web to 1, no record") {
			s.then(0, deployment("web", 1, at("2")))
		}
		s.led.Observe(s.view())
		d := drain.Leftovers(s.view(), nil, s.led)
		if d.Settled {
			same(t, "done", []string{"restore-cost p0", "scale web to 1, no record"}, done)
			same(t, "notes", []string{leftLater}, d.Notes)
			return
		}
		done = append(done, deeds(d)...)
		for _, a := range d.Actions {
			s.led.Begin(a, s.now)
			s.led.Answer(a, answers.Answer{Code: answers.Accepted}, s.now)
		}
	}
	t.Errorf("undoing does not end: %v", done)
}

// Deletion costs go before the scalings of their own namespace only.
func TestDeletionCostsHoldTheirOwnNamespace(t *testing.T) {
	long := start.Add(-time.Hour)
	view := snapshot.View{Now: start, Cluster: cluster(
		pod("p", in("tenant"), marked("x=7")), deployment("web", 2, surgedBy("x", 1, long)),
		deployment("api", 2, surgedBy("x", 1, long), func(w *snapshot.Workload) { w.Namespace = "tenant" }),
		autoscaler("api", 2, 5, raisedBy("x", 1), scalerIn("tenant")), autoscaler("alone", 2, 5, raisedBy("x", 1)),
		autoscaler("tenants", 2, 5, raisedBy("x", 1), scalerIn("tenant")))}
	d := drain.Leftovers(view, map[string]bool{"x": true}, drain.NewLedger())
	same(t, "actions", []string{"restore-cost p", "scale web to 1, no record", "scale-min alone to 1, no record"}, deeds(d))
	same(t, "settled", false, d.Settled)
}

func scalerIn(namespace string) func(*autoscalerOf) {
	return func(a *autoscalerOf) { a.Namespace = namespace }
}

// A namespace's users who know the id of a drain create records in its name: it does not wait for them, while it drains and when
// it ends.
func TestRecordsInTheDrainsNameAreLeft(t *testing.T) {
	unused := func(name string) fact {
		return func(c *clusterOf) {
			c.DeleteWorkload(types.UID("uid-" + name))
			c.DeleteAutoscaler(snapshot.Key{Namespace: "default", Name: name})
			c.DeletePod(types.UID("uid-" + name))
			notAskedBy(me, name)(c)
		}
	}
	cases := map[string]func(name string) fact{
		"a surge":           func(name string) fact { return deployment(name, 2, surgedBy(me, 1, start)) },
		"a raised minimum":  func(name string) fact { return autoscaler(name, 2, 5, raisedBy(me, 1)) },
		"a deletion cost":   func(name string) fact { return pod(name, on("b"), marked(me)) },
		"an eviction asked": func(name string) fact { return askedBy(me, name) },
	}
	for name, create := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t, ask("a"), node("a", ours, state("drained")), node("b"))
			s.decide()
			s.answer(answers.Accepted)
			for turn := range 20 {
				s.then(time.Second, create("t"+strconv.Itoa(turn)), unused("t"+strconv.Itoa(turn-1)))
				s.decide()
				s.answer(answers.Accepted)
				if s.last.Outcome == drain.Drained && s.led.Ending() == drain.Running {
					s.led.End(drain.Drained)
				}
				if s.last.Settled {
					same(t, "notes", []string{leftLater}, s.last.Notes)
					return
				}
			}
			t.Errorf("the drain does not end; it ends %q%s", s.last.Outcome, s.where())
		})
	}
}

// What this drain has asked for and marked itself is undone, though it was not there at first.
func TestItsOwnIsUndoneThoughItCameLater(t *testing.T) {
	s := tell(t, ask("a"), node("a", ours), node("b"), pod("db-0", on("a"), governed), solo, autoscaler("web", 1, 5))
	s.expect("scale-min web to 2, was 1", "ask db-0")
	s.answer(answers.Accepted)
	s.then(time.Second, askedBy(me, "db-0"), autoscaler("web", 2, 5, raisedBy(me, 1), scalerVersion("2")))
	s.expect("scale web to 2, was 1")
	s.answer(answers.Accepted)
	s.then(time.Second, deployment("web", 2, surgedBy(me, 1, s.now), at("2")), pods("web", "b", 1))
	s.expect("lower-cost web-a1")
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 1, marked(me)), podVersion("web-a1", "2"))
	s.led.End(drain.Interrupted)
	s.expect("restore-cost web-a1", "withdraw db-0-me")
	s.answer(answers.Accepted)
	s.then(time.Second, pods("web", "a", 1), podVersion("web-a1", "3"), notAskedBy(me, "db-0"))
	s.expect("scale-min web to 1, no record")
	s.answer(answers.Accepted)
	s.then(time.Second, autoscaler("web", 1, 5, scalerVersion("3")))
	s.expect("scale web to 1, no record")
}

// What an earlier process of the same drain has written last, and is seen only after the first look, is undone; what is seen long after is not.
// A scaling down would remove a pod first whose deletion cost is still lowered.
func TestWhatAnEarlierProcessWroteLastIsUndone(t *testing.T) {
	surged := deployment("web", 2, at("2"), surgedBy(me, 1, start))
	for name, c := range map[string]struct {
		seen fact
		want []string
	}{
		"a surge":          {surged, []string{"scale web to 1, no record"}},
		"a deletion cost":  {all(surged, pods("web", "a", 1, marked(me)), podVersion("web-a1", "2")), []string{"restore-cost web-a1"}},
		"a raised minimum": {autoscaler("web", 2, 5, raisedBy(me, 1), scalerVersion("2")), []string{"scale-min web to 1, no record"}},
		"a request":        {askedBy(me, "db-0"), []string{"withdraw db-0-me"}},
	} {
		for when, after := range map[string]time.Duration{"soon after": 2 * time.Second, "long after": 12 * time.Second} {
			t.Run(name+" "+when, func(t *testing.T) {
				s := tell(t, ask("a"), node("a", ours), node("b"), deployment("web", 1), pods("web", "b", 1), pods("web", "a", 1))
				s.led.Resume(s.view(), s.req)
				s.decide()
				s.led.End(drain.Interrupted)
				s.then(after, node("a", drainedBy(me, start.Add(after))), c.seen)
				if when == "soon after" {
					s.expect(c.want...)
					return
				}
				s.expect("mark a interrupted")
			})
		}
	}
}
