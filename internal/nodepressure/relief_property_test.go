package nodepressure

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// Whatever happens, the agent does no harm that it is not allowed to do; and when the load ends, it ends, or says why not.
func TestReliefNeverHarmsAndEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			w.pass(rapid.SampledFrom([]time.Duration{20 * time.Millisecond, time.Second, 10 * time.Second}).Draw(t, "after"))
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0:
				w.jump(time.Duration(rapid.IntRange(-3600, 3600).Draw(t, "jump")) * time.Second)
			case 1:
				w.reachable = !w.reachable
			}
			w.turn(rapid.IntRange(0, 4).Draw(t, "fresh") > 0)
		}
		w.reachable, w.lossy = true, false
		var last []Action
		for range 420 { // a pod may take 1,024 s to grow; then the load has ended, and there is time for all that follows
			w.pass(5 * time.Second)
			last = w.turn(true)
		}
		w.ended(last)
	})
}

// turn looks, checks what is done and does it.
func (w *world) turn(fresh bool) []Action {
	w.t.Helper()
	before, _ := json.Marshal(w.relief)
	old := w.relief
	actions := w.look(fresh)
	if after, _ := json.Marshal(old); string(after) != string(before) {
		w.t.Fatalf("Next changed what it was given:\n%s\n%s", before, after)
	}
	shuffled := w.input
	shuffled.Pods = rapid.Permutation(w.input.Pods).Draw(w.t, "permutation")
	if _, again := old.Next(shuffled); !cmp.Equal(actions, again) {
		w.t.Fatalf("another order of pods (-want +got)\n%s", cmp.Diff(actions, again))
	}
	w.hold()
	gone := 0
	for _, a := range actions {
		switch a.Kind {
		case Evict, Remove, KillLocally:
			gone++
			w.checkVictim(a)
		case Request, Withdraw, Unbreak:
			w.checkRequest(a)
		default:
		}
	}
	if gone > 1 {
		w.t.Fatalf("%d pods at once: %v", gone, briefs(actions))
	}
	w.checkSilence(actions, gone)
	for _, a := range actions {
		w.carryOut(a)
	}
	return actions
}

func briefs(actions []Action) []string {
	out := []string{}
	for _, a := range actions {
		out = append(out, brief(a))
	}
	return out
}

// hold notes since when thresholds are met, in felt time.
func (w *world) hold() {
	for _, t := range w.thresholds {
		if !t.MetWithReclaim(w.input.Node.Readings[t.Signal]) {
			delete(w.held, t.key())
		} else if _, known := w.held[t.key()]; !known {
			w.held[t.key()] = w.felt()
		}
	}
}

// checkVictim checks that a pod may go the way it is to go.
func (w *world) checkVictim(a Action) {
	w.t.Helper()
	p, reading := a.Pod, w.input.Node.Readings[a.Threshold.Signal]
	b, m := w.pods[p.UID], measure(a.Threshold.Signal, w.input.Node.Layout, a.Pod)
	age := w.input.Now.Sub(reading.At)
	fail := func(what string) {
		w.t.Helper()
		w.t.Fatalf("%s: %s", what, a.Message)
	}
	switch {
	case b == nil:
		fail("a pod that is gone")
	case p.Exempt != "" || p.UID == w.self:
		fail("an exempt pod, or the agent's own")
	case !p.Governed && b.asked == 0 && m.known && !m.exceeds() && w.hogged(a):
		fail("a pod within its request in place of a governed one that exceeds its own")
	case p.Usage == nil || m.usage < leastHelp(a.Threshold.Signal):
		fail("a pod that cannot help")
	case age > maxAge || age < -maxAhead:
		fail("on a reading of another time")
	case !a.Threshold.MetWithReclaim(reading):
		fail("without need")
	case w.felt()-w.held[a.Threshold.key()] < a.Threshold.Grace:
		fail("within the grace period")
	case a.Kind != Evict && !a.Threshold.Hard():
		fail("past its budgets above a hard threshold")
	case a.Kind != Evict && p.Governed && (!a.BreakGlass || !p.lastResort()):
		fail("past its verdict")
	case a.Kind != KillLocally && !w.reachable:
		fail("through an apiserver that does not answer")
	case a.Kind == Evict && w.felt() < w.until[p.UID]:
		fail("although its refusal stands")
	case a.Kind == Remove && w.felt() < b.shut:
		fail("although its removal was refused")
	case a.Kind == Remove && a.Grace < time.Second:
		fail("without grace")
	case b.ends != 0 && (a.Kind == Evict || b.asked == 0):
		fail("a pod that is leaving already")
	case b.asked == 0 && w.spared(*a.Threshold, p):
		fail("a Guaranteed pod within its request, and others are left")
	}
	w.checkAlone(a)
}

// hogged reports whether a governed pod that could be asked exceeds its request of what is short.
func (w *world) hogged(a Action) bool {
	for i := range a.Ranking {
		r := &a.Ranking[i]
		if r.Pod.Governed && r.Over > 0 && (r.Exempt == "" || strings.HasPrefix(r.Exempt, "refused")) {
			return true
		}
	}
	return false
}

// checkAlone checks that no other pod is on the way, but for those that take too long.
func (w *world) checkAlone(a Action) {
	w.t.Helper()
	others := 0
	for uid, b := range w.pods {
		recent := w.felt()-b.asked < hardPatience
		if uid != a.Pod.UID && b.ends != 0 && b.Usage != nil && b.Usage.Memory >= 300*mi && recent {
			others++
		}
	}
	if others > 0 && a.Kind != KillLocally {
		w.t.Fatalf("%d others are on the way: %s", others, a.Message)
	}
}

// spared reports whether a pod is surely spared: Guaranteed, within its request, and not alone with its like. Below a hard
// threshold, pods that would help and were refused, or are governed and may have been, do not count.
func (w *world) spared(t Threshold, p *Pod) bool {
	if w.input.Order == OrderKubelet || t.Signal.Resource() != resourceMemory || !p.guaranteed() || p.Usage.Memory > p.Requests.Memory {
		return false
	}
	return slices.ContainsFunc(w.input.Pods, func(o Pod) bool {
		_, refused := w.refused[o.UID]
		barred := t.Hard() && (refused || o.Governed) && o.Usage != nil && o.Usage.Memory >= leastHelp(t.Signal)
		return o.Exempt == "" && o.UID != w.self && !o.guaranteed() && !barred
	})
}

func (w *world) checkRequest(a Action) {
	w.t.Helper()
	switch {
	case !w.reachable:
		w.t.Fatalf("through an apiserver that does not answer: %v", brief(a))
	case w.input.Busy[a.Pod.UID]:
		w.t.Fatalf("beside what is under way on the pod: %v", brief(a))
	case a.Kind == Request && (!a.Pod.Governed || w.alive(a.Pod.UID) > 0):
		w.t.Fatalf("a request for %s, beside %d", a.Pod.Key(), w.alive(a.Pod.UID))
	case a.Kind != Request && !w.written[Written{UID: a.Pod.UID, Kind: a.Kind}]:
		w.t.Fatalf("taken back and never written: %v", brief(a))
	}
}

// alive counts requests for pods that are still there, but for one and those whose withdrawal was refused or has been answered.
func (w *world) alive(but types.UID) int {
	n := 0
	for uid := range w.requested {
		if w.pods[uid] != nil && uid != but && !w.denied[uid] && !w.late[uid] {
			n++
		}
	}
	return n
}

// checkSilence checks that nothing is short without something being done or said.
func (w *world) checkSilence(actions []Action, gone int) {
	w.t.Helper()
	for _, t := range w.thresholds {
		if t.Met(w.input.Node.Readings[t.Signal]) && gone == 0 && waitsFor(actions, t.Signal) == "" {
			w.t.Fatalf("%s is met, and nothing is done or said: %v", t.key(), briefs(actions))
		}
	}
}

// ended checks that nothing is short any more or that it is said truly why no pod can help.
func (w *world) ended(last []Action) {
	w.t.Helper()
	if len(w.relief.Acts) > 0 {
		w.t.Fatalf("after the load has ended, still waiting: %v", briefs(last))
	}
	reading := w.input.Node.Readings[MemoryAvailable]
	for _, t := range w.thresholds {
		if !t.Met(reading) {
			continue
		}
		if reasons := waitsFor(last, t.Signal); reasons != string(ReasonNoCandidate) {
			w.t.Fatalf("%s is met and it is waited for %q: %v", t.key(), reasons, briefs(last))
		}
		for _, p := range w.input.Pods {
			enough := p.Usage != nil && p.Usage.Memory >= max(leastHelp(t.Signal), t.Below.Of(0)-reading.Available)
			if t.Hard() && enough && !w.spared(t, &p) && p.Exempt == "" && p.UID != w.self && (!p.Governed || p.lastResort()) {
				w.t.Fatalf("%s is met and %s could help: %v", t.key(), p.Key(), briefs(last))
			}
		}
	}
	clear(w.denied)
	clear(w.late)
	if w.alive("") > 0 && len(w.relief.Breaches) == 0 {
		w.t.Fatalf("a request was left behind")
	}
	for uid := range w.broken {
		if b := w.pods[uid]; b != nil && b.ends == 0 {
			w.t.Fatalf("the glass of %s was left broken", b.Key())
		}
	}
}
