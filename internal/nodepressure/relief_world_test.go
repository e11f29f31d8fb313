package nodepressure

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// world is a node with pods that grow, leave and give back what they used, and an agent on it.
type world struct {
	t          *rapid.T
	relief     Relief
	thresholds []Threshold
	real       time.Duration // time that has really passed
	jumps      time.Duration // how wrong the clock is
	counted    time.Duration // what jumps may have counted for
	free       int64         // memory that would be free, were there no pods
	pods       map[types.UID]*body
	refused    map[types.UID]Refusal
	until      map[types.UID]time.Duration // when refusals end, in felt time
	requested  map[types.UID]bool
	written    map[Written]bool   // what the agent does not know to be taken back
	denied     map[types.UID]bool // whose withdrawal was refused, and that are requested since then
	late       map[types.UID]bool // whose withdrawn request may still be carried out, and that are not requested since then
	broken     map[types.UID]bool
	lossy      bool // answers may be lost, and actions take a while
	reachable  bool
	self       types.UID
	rates      map[Signal]float64
	held       map[string]time.Duration // since when thresholds are met, in felt time
	input      ReliefInput
}

// body is a pod and what becomes of it.
type body struct {
	Pod

	growth int64         // bytes per second
	goal   int64         // it grows no further
	ends   time.Duration // when it is gone, real time; 0: it stays
	asked  time.Duration // when it was asked to go, in felt time
	stops  time.Duration // how long it takes to shut down
	moods  int           // how many times its eviction is refused
	firm   int           // how many times its removal is
	shut   time.Duration // until when that stands, in felt time
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, thresholds: drawThresholds(t), pods: map[types.UID]*body{}, refused: map[types.UID]Refusal{}, until: map[types.UID]time.Duration{},
		requested: map[types.UID]bool{}, written: map[Written]bool{}, denied: map[types.UID]bool{}, late: map[types.UID]bool{},
		broken: map[types.UID]bool{}, lossy: true, reachable: true, rates: map[Signal]float64{}, held: map[string]time.Duration{}, free: gi,
	}
	for _, p := range drawPods(t, 8) {
		b := &body{Pod: p, moods: rapid.IntRange(0, 3).Draw(t, "moods"), stops: time.Duration(rapid.IntRange(0, 60).Draw(t, "stops")) * time.Second}
		b.firm = rapid.IntRange(0, 2).Draw(t, "firm")
		b.growth = rapid.SampledFrom([]int64{0, 0, mi, 20 * mi, 300 * mi}).Draw(t, "growth")
		b.goal = rapid.SampledFrom([]int64{0, 100 * mi, gi}).Draw(t, "goal")
		w.pods[p.UID] = b
		if rapid.IntRange(0, 9).Draw(t, "self") == 0 {
			w.self = p.UID
		}
	}
	return w
}

func (w *world) now() time.Time { return noon.Add(w.real + w.jumps) }

// felt is real time and what jumps may have counted for.
func (w *world) felt() time.Duration { return w.real + w.counted }

// jump sets the clock.
func (w *world) jump(d time.Duration) {
	w.jumps += d
	w.counted += min(max(d, 0), maxStep)
}

func (w *world) available() int64 {
	left := w.free
	for _, b := range w.pods {
		if b.Usage != nil {
			left -= b.Usage.Memory
		}
	}
	return left
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.real += d
	before := w.available()
	for uid, b := range w.pods {
		if b.ends != 0 && b.ends <= w.real {
			delete(w.pods, uid)
			continue
		}
		if b.Usage != nil && b.Usage.Memory < b.goal {
			u := *b.Usage
			u.Memory = min(u.Memory+int64(d.Seconds()*float64(b.growth)), b.goal)
			b.Usage = &u
		}
	}
	delete(w.rates, MemoryAvailable)
	if d > 0 && rapid.Bool().Draw(w.t, "rate known") {
		w.rates[MemoryAvailable] = float64(w.available()-before) / d.Seconds()
	}
}

// look lets the agent look and does what it says. fresh: readings are of now.
func (w *world) look(fresh bool) []Action {
	in := ReliefInput{
		Now: w.now(), Thresholds: w.thresholds, Refused: maps.Clone(w.refused), Reachable: w.reachable, Rates: w.rates, Self: w.self,
		Order: rapid.SampledFrom(Orders()).Draw(w.t, "order"),
	}
	if fresh || w.input.Node.Readings == nil {
		in.Node = memoryNode(w.available(), w.now())
	} else {
		in.Node = w.input.Node
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		b := w.pods[uid]
		p := b.Pod
		p.Terminating = b.ends != 0
		if p.Usage != nil {
			u := *p.Usage
			u.At = w.now()
			p.Usage = &u
		}
		in.Pods = append(in.Pods, p)
	}
	w.outstanding(&in)
	w.input = in
	next, actions := w.relief.Next(in)
	w.relief = next
	return actions
}

// carryOut does what the agent says.
func (w *world) carryOut(a Action) {
	switch a.Kind {
	case Evict:
		b := w.pods[a.Pod.UID]
		if b.moods > 0 {
			b.moods--
			w.refuse(b)
			return
		}
		w.leave(b, cmpOr(a.Grace, b.Grace))
	case Remove:
		b := w.pods[a.Pod.UID]
		if b.firm > 0 {
			b.firm--
			if a.BreakGlass && w.loses() {
				w.broken[b.UID], w.written[Written{UID: b.UID, Kind: Unbreak}] = true, true
			}
			w.refuse(b)
			b.shut = w.until[b.UID]
			return
		}
		w.leave(b, a.Grace)
	case KillLocally:
		b := w.pods[a.Pod.UID]
		u := *b.Usage
		u.Memory, b.growth = 0, 0
		b.Usage = &u
		if w.reachable {
			w.leave(b, time.Second)
		}
	case Request:
		w.requested[a.Pod.UID], w.written[Written{UID: a.Pod.UID, Kind: Withdraw}] = true, true
		delete(w.late, a.Pod.UID)
	case Withdraw:
		w.takenBack(a, w.requested)
	case Unbreak:
		w.takenBack(a, w.broken)
	default:
	}
}

// loses draws whether an answer is lost.
func (w *world) loses() bool { return w.lossy && rapid.Bool().Draw(w.t, "lost") }

// takenBack carries a withdrawal out or not; its answer is lost in either case or arrives, and may be that it is refused.
func (w *world) takenBack(a Action, from map[types.UID]bool) {
	if a.Kind == Withdraw && w.lossy && rapid.IntRange(0, 2).Draw(w.t, "denied") == 0 {
		w.denied[a.Pod.UID] = from[a.Pod.UID]
		return
	}
	lost := w.loses()
	if lost && !rapid.Bool().Draw(w.t, "carried out") {
		return
	}
	delete(from, a.Pod.UID)
	if a.Kind == Withdraw {
		delete(w.denied, a.Pod.UID)
	}
	if lost {
		return
	}
	if a.Kind == Withdraw && w.lossy && rapid.Bool().Draw(w.t, "late") {
		w.late[a.Pod.UID] = true
		if rapid.Bool().Draw(w.t, "it comes") {
			from[a.Pod.UID] = true
		}
		return
	}
	delete(w.late, a.Pod.UID)
	delete(w.written, Written{UID: a.Pod.UID, Kind: a.Kind})
}

// outstanding enters what the agent has written, and on which pods an action is under way.
func (w *world) outstanding(in *ReliefInput) {
	in.Busy = map[types.UID]bool{}
	for _, p := range in.Pods {
		for _, kind := range []ActionKind{Withdraw, Unbreak} {
			if one := (Written{UID: p.UID, Kind: kind}); w.written[one] {
				one.Later = w.lossy && rapid.Bool().Draw(w.t, "later")
				one.Late = w.late[p.UID] && kind == Withdraw
				one.Refused = w.denied[p.UID] && kind == Withdraw && rapid.Bool().Draw(w.t, "refused")
				in.Written = append(in.Written, one)
			}
		}
		if w.lossy && rapid.IntRange(0, 5).Draw(w.t, "busy") == 0 {
			in.Busy[p.UID] = true
		}
	}
}

func (w *world) refuse(b *body) {
	after := time.Duration(rapid.IntRange(1, 30).Draw(w.t, "look again")) * time.Second
	never := rapid.IntRange(0, 4).Draw(w.t, "never") == 0
	w.refused[b.UID] = Refusal{At: w.now(), Message: "not now", LookAgain: w.now().Add(after), Never: never}
	w.until[b.UID] = w.felt() + after
}

func cmpOr(a, b time.Duration) time.Duration {
	if a != 0 {
		return a
	}
	return b
}

// leave makes a pod shut down: as fast as it does, at the latest when its grace ends.
func (w *world) leave(b *body, grace time.Duration) {
	ends := w.real + max(min(b.stops, grace), time.Millisecond)
	if b.ends == 0 || ends < b.ends {
		b.ends = ends
	}
	if b.asked == 0 {
		b.asked = w.felt() + 1
	}
	b.Grace = grace
}

// waitsFor returns the reasons of what is waited for on account of a signal.
func waitsFor(actions []Action, s Signal) string {
	var out []string
	for _, a := range actions {
		if a.Kind == Wait && a.Threshold.Signal == s {
			out = append(out, string(a.Reason))
		}
	}
	return strings.Join(out, " ")
}
