package observe_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/evictionrequest/client"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/snapshot"
)

// TestPropertyDrainReadsWhatDecides: what a drain decides by what it reads is what it would decide by everything.
func TestPropertyDrainReadsWhatDecides(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		diff := ""
		inBubble(t, func() { diff = compareDrains(drawWorld(rt)) })
		if diff != "" { // said here, since what shrinks distinguishes failures by where they are reported
			rt.Fatalf("decided by everything -, by what is read +:\n%s", diff)
		}
	})
}

// compareDrains returns how what two drains decide differs, "" if it does not.
func compareDrains(w *world) string {
	c := newComparison(w)
	defer c.stop()
	for range rapid.IntRange(2, 5).Draw(w.t, "rounds") {
		w.happen()
		if c.turn(); c.over {
			break
		}
		if all := c.unneeded(); len(all) > 0 {
			return fmt.Sprintf("all %v are read", all)
		}
		w.control()
		<-time.After(draw(w, "pause", time.Second, 16*time.Second, 70*time.Second, 6*time.Minute, 45*time.Minute))
	}
	return c.diff
}

// inBubble runs a check in a bubble. What it fails with is passed on to who called.
func inBubble(t *testing.T, check func()) {
	t.Helper()
	var failure any
	synctest.Test(t, func(*testing.T) {
		defer func() { failure = recover() }()
		check()
	})
	if failure != nil {
		panic(failure)
	}
}

// settled is how long watches take at most to bring what has happened, broken ones included.
const settled = 20 * time.Second

// side is a drain that reads the cluster in one way.
type side struct {
	observer *observe.Observer
	led      *drain.Ledger
}

// comparison is one drain that reads what decides about its nodes, and one that reads everything.
type comparison struct {
	world  *world
	req    drain.Request
	writer *act.Writer
	narrow side
	wide   side
	over   bool
	diff   string
	cancel context.CancelFunc

	selects bool // the narrow side may have as many feeds as it needs
}

func newComparison(w *world) *comparison {
	config := &rest.Config{Host: "http://cluster.example.com", Transport: w.apiserver, QPS: -1}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &comparison{world: w, req: drawRequest(w), writer: &act.Writer{Client: kube}}
	if w.governed {
		c.writer.Evictions = client.New(config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	start := func(options observe.Options) side {
		options.Evictions = c.writer.Evictions
		o, err := observe.Start(ctx, kube, options)
		if err != nil {
			c.stop()
			w.t.Fatal(err)
		}
		return side{o, drain.NewLedger()}
	}
	feeds := draw(w, "most feeds", 500, 500, 500, 6)
	c.selects = feeds == 500
	c.narrow = start(observe.Options{Nodes: w.targets}.Limited(draw(w, "most selecting", 1, 8), feeds, draw(w, "sample", 1, 2, 20)))
	c.wide = start(observe.Options{})
	return c
}

func (c *comparison) stop() {
	c.cancel()
	for _, s := range []side{c.narrow, c.wide} {
		if s.observer != nil {
			s.observer.Stop()
		}
	}
}

func drawRequest(w *world) drain.Request {
	req := drain.Request{
		Self: snapshot.Drainer{ID: "own", By: "rapid"}, Nodes: w.targets, Started: time.Now(),
		Force:          !w.once(3, "no force"),
		DaemonSets:     draw(w, "daemonsets", drain.DaemonSetsIgnore, drain.DaemonSetsIgnore, drain.DaemonSetsEvict, drain.DaemonSetsObject),
		DeleteEmptyDir: !w.once(3, "keep data"),
		Surge:          draw(w, "surge", drain.SurgeAuto, drain.SurgeAuto, drain.SurgeAlways, drain.SurgeNever),
		MaxParallel:    rapid.IntRange(0, 1).Draw(w.t, "max parallel"),
		MaxZones:       rapid.IntRange(0, 1).Draw(w.t, "max zones"),

		DisableEviction:   w.once(8, "disable eviction"),
		UncordonOnFailure: rapid.Bool().Draw(w.t, "uncordon on failure"),
		WaitReplaced:      rapid.Bool().Draw(w.t, "wait replaced"),
	}
	if w.once(6, "selected") {
		req.PodSelector = labels.SelectorFromSet(labels.Set{"app": "w0"})
	}
	if w.once(6, "grace given") {
		req.Grace = new(draw(w, "grace for all", 0, 2*time.Second))
	}
	if w.once(5, "deadline") {
		req.Deadline = time.Now().Add(draw(w, "in", time.Minute, 10*time.Minute))
		req.AtDeadline = draw(w, "then", drain.AtDeadlineStop, drain.AtDeadlineDelete)
	}
	if w.once(6, "skip deleted") {
		req.SkipDeletedBefore = time.Minute
	}
	if w.once(3, "known to be dead") {
		req.Dead = map[string]bool{"dead": true}
	}
	return req
}

// unneeded are resources of which the narrow side reads everything although it need not.
func (c *comparison) unneeded() []string {
	return slices.DeleteFunc(c.narrow.observer.Unselected(), func(name string) bool {
		return !c.selects || name == "volumeattachments" || name == "nodes" // nodes: where some pod has no place
	})
}

// turn looks at the cluster once all that has happened was brought, and has what was decided carried out. What that brings is
// looked at as well.
func (c *comparison) turn() {
	for range 2 {
		<-time.After(settled)
		synctest.Wait()
		narrow, wide := c.look(&c.narrow), c.look(&c.wide)
		c.diff = difference(narrow, wide)
		if c.over = c.diff != "" || narrow.Settled; c.over {
			return
		}
		if narrow.Outcome != drain.Running {
			c.narrow.led.End(narrow.Outcome)
			c.wide.led.End(wide.Outcome)
		}
		c.carryOut(narrow, wide)
	}
}

// look decides as package runner does.
func (c *comparison) look(s *side) (decision drain.Decision) {
	s.observer.Read(func(view snapshot.View) {
		s.led.Observe(view)
		decision = drain.Decide(view, c.req, s.led)
		s.led.Note(&decision, view.Now)
	})
	return decision
}

// difference compares all of two decisions, what the ledger is to keep of their actions included.
func difference(narrow, wide drain.Decision) string {
	if reflect.DeepEqual(narrow, wide) {
		return ""
	}
	everything := cmp.Exporter(func(reflect.Type) bool { return true })
	return cmp.Diff(wide, narrow, everything, cmpopts.EquateEmpty())
}

// carryOut has the cluster do what both have decided. Some of it gets lost.
func (c *comparison) carryOut(narrow, wide drain.Decision) {
	for i, a := range narrow.Actions {
		now := time.Now()
		c.narrow.led.Begin(a, now)
		c.wide.led.Begin(wide.Actions[i], now)
		answer := answers.Answer{Code: answers.Unavailable, Message: "lost"}
		if !c.world.once(12, "lost") {
			answer = c.writer.Do(context.Background(), a)
		}
		c.narrow.led.Answer(a, answer, now)
		c.wide.led.Answer(wide.Actions[i], answer, now)
	}
}
