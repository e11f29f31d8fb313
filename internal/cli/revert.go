package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/cli/show"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/drain/runner"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/text"
)

// undone is what undoing did not do, in sentences.
type undone struct {
	failed  []string // what may not be undone, and that undoing was broken off; it was reported
	unknown []string // what could not be read
	running []string // what belongs to drains that may still be running
}

func (u *undone) all() []string { return slices.Concat(u.failed, u.unknown, u.running) }

// breakOff reports that undoing has ended before all that was to be undone was seen to be: what is under way has no
// sentence of its own.
func (u *undone) breakOff(reporter runner.Reporter, now time.Time) {
	rest := []string{"undoing what killed drains left was broken off before all of it was undone; usher drain --revert undoes the rest"}
	note(reporter, now, rest)
	u.failed = append(u.failed, rest...)
}

func (o *drainOptions) runRevert(ctx context.Context, s *session, v *printer) error {
	began := s.clock.Now()
	left := s.revert(ctx, v.reporter())
	end := func(outcome drain.Outcome) { v.idle(s.clock.Now(), s.clock.Now().Sub(began), outcome, left.all()...) }
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return o.late(v, "undoing what killed drains left takes longer", left.all()...)
	case ctx.Err() != nil:
		end(drain.Interrupted)
		return exitWith(exitInterrupted)
	}
	v.say(slices.Concat(left.unknown, left.running)...) // what failed was reported
	outcome := drain.Drained
	if len(left.all()) > 0 {
		outcome = drain.Blocked
	} else {
		v.say("no surge of a killed drain is left")
	}
	s.source.Read(func(view snapshot.View) {
		for _, n := range view.Cluster.Nodes() {
			if s.host.abandoned(n, view) && n.Unschedulable {
				v.say(v.commands.In(n.Name + " stays cordoned: usher uncordon " + n.Name))
			}
		}
	})
	end(outcome)
	return exitWith(outcomeCode(outcome))
}

// note reports sentences.
func note(reporter runner.Reporter, now time.Time, sentences []string) {
	for _, text := range sentences {
		reporter.Event(drain.Event{At: now, Kind: drain.EventNote, Message: text})
	}
}

// undoes are the resources on which killed drains leave something, with what that is and the right that is needed to see it.
// Those that are needed for every decision are not among them: without these no command begins.
var undoes = []struct{ resource, what, right string }{
	{"deployments", "a surge of a Deployment", "list and watch deployments.apps"},
	{"horizontalpodautoscalers", "a raised minReplicas", "list and watch horizontalpodautoscalers.autoscaling"},
	{"evictionrequests", "an eviction request of a killed drain", "list and watch the evictionrequests that the apiserver names"},
}

// unread says of what it is not known whether killed drains left it. A resource that is not served has no objects.
func unread(c *snapshot.Cluster) []string {
	var sentences []string
	for _, u := range undoes {
		if gap, unknown := c.Gap(u.resource); unknown && !gap.Unserved {
			sentences = append(sentences, fmt.Sprintf("%s cannot be read, so whether %s is left is not known; it takes the right to %s: %s", u.resource, u.what, u.right, gap.Reason))
		}
	}
	return sentences
}

// recorded is what carries the record of a drain.
type recorded struct {
	who   snapshot.Drainer
	thing string
}

func recordsIn(c *snapshot.Cluster) []recorded {
	var all []recorded
	for _, w := range c.Surged() {
		if w.Surge != nil {
			all = append(all, recorded{w.Surge.Drainer, fmt.Sprintf("the surge of %s %s", w.Kind, w.Key())})
		}
	}
	for _, a := range c.SurgedAutoscalers() {
		if a.Surge != nil {
			all = append(all, recorded{a.Surge.Drainer, "the raised minReplicas of HorizontalPodAutoscaler " + a.Key().String()})
		}
	}
	for _, r := range c.Requests() {
		if who, drains := r.Drainer(); drains && !r.Deleted {
			all = append(all, recorded{who, fmt.Sprintf("the eviction request %s/%s", r.Namespace, r.Name)})
		}
	}
	return all
}

// leftToRunning says what carries the record of drains that may still be running, whose drains they are and when each counts as dead.
func leftToRunning(v snapshot.View, dead map[string]bool) []string {
	var order []snapshot.Drainer
	things := map[string][]string{}
	for _, r := range recordsIn(v.Cluster) {
		if !mayRun(v, dead, r.who) {
			continue
		}
		if things[r.who.ID] == nil {
			order = append(order, r.who)
		}
		things[r.who.ID] = append(things[r.who.ID], r.thing)
	}
	sentences := make([]string, 0, len(order))
	for _, who := range order {
		by := "a drain"
		if who.By != "" {
			by = "the drain of " + text.Name(who.By)
		}
		sentences = append(sentences, fmt.Sprintf("left alone: %s, of %s that may still be running; %s", strings.Join(things[who.ID], ", "), by, signOfLife(v, who)))
	}
	return sentences
}

// mayRun reports whether a drain has to be taken for one that is running.
func mayRun(v snapshot.View, dead map[string]bool, who snapshot.Drainer) bool {
	return !dead[who.ID] && drain.LiveUntil(v, who).After(v.Now)
}

// signOfLife says when a drain gave its last one, and when it counts as dead.
func signOfLife(v snapshot.View, who snapshot.Drainer) string {
	last, until, unread := drain.SignOfLife(v, who)
	at := until.In(v.Now.Location()).Format(time.TimeOnly)
	if unread != "" {
		return fmt.Sprintf("%s, so it counts as dead at %s", unread, at)
	}
	return fmt.Sprintf("its last sign of life was %s ago, and it counts as dead at %s if it gives none until then", show.Span(v.Now.Sub(last)), at)
}

// scaledSince returns the Deployments that were surged by drains that have ended, and scaled by others since.
func scaledSince(v snapshot.View, dead map[string]bool) []types.UID {
	var found []types.UID
	for _, w := range v.Cluster.Surged() {
		if w.Surge != nil && w.Replicas != w.Surge.To && !mayRun(v, dead, w.Surge.Drainer) {
			found = append(found, w.UID)
		}
	}
	return found
}

// keptScales says which of these Deployments have lost the record of their surge, and keep their scale.
func keptScales(c *snapshot.Cluster, scaled []types.UID) []string {
	var sentences []string
	for _, uid := range scaled {
		if w := c.Workload(uid); w != nil && w.Surge == nil && w.SurgeError == "" {
			sentences = append(sentences, fmt.Sprintf("%s %s keeps the %s to which it was scaled since its surge, whose record was removed", w.Kind, w.Key(), show.Count(int(w.Replicas), "replica")))
		}
	}
	return sentences
}
