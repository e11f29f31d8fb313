package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// namespace is where everything happens.
const namespace = "db"

// world is a history in the making. But for the gate, the trace and the queues, which goroutines write when they end, only
// the scheduler changes it while nothing else runs, or a call while it has its effect.
type world struct {
	ctx  context.Context //nolint:containedctx // the life of the world
	seed uint64
	// without are the watches that are missing, as Watches names them.
	without []string
	// foundationDB: a set is of FoundationDB.
	foundationDB bool
	// locked: it is about locks on nodes.
	locked bool
	// ofOpenStack: it is about a region of OpenStack.
	ofOpenStack bool
	dice        *rand.Rand
	theme       theme
	odds        odds

	store    *store
	site     site
	replicas []*replica
	lives    int
	tasks    int
	jobs     chan func() // for goroutines that are there already
	calm     bool        // nothing goes wrong any more
	givenUp  bool        // Usher said that it leaves something behind
	left     []string    // what Usher said of steps that stay in force
	safety   safety
	podLives map[string]life
	crashed  map[string]bool
	ghosts   map[string]ghost
	revived  map[string]time.Time // when a drain gave a sign of life after a time without one
	kept     map[string]time.Time // when a drain left its node drained
	machines map[string]*machine  // of members
	moved    int                  // how many members have come to other machines
	// fresh are the members that have had a claim made anew for them.
	fresh map[string]bool
	// makesNone are the members for which no pod is made for now, as under a quota.
	makesNone map[string]bool
	// replacing are the members whose claims were deleted for a successor that has not begun.
	replacing map[string]bool
	// awaits are those whose pods were deleted for one.
	awaits map[string]awaited
	// erased are the requests that people have taken away by force.
	erased    map[types.UID]bool
	operator  *operator               // nil: there is none
	locks     *locks                  // nil: no policy has a nodeLock
	ends      map[types.UID]time.Time // when the process of a terminating pod ends
	draws     uint64
	tight     bool // a budget allows no disruption
	regime    regime
	repairing *v1alpha1.Repair   // what the first policy says of the repair of its members; nil: nothing
	health    map[string]*health // of members, by the looks of repair
	endings   int                // how many events of requests for replacements were taken note of
	focus     string             // the role that people are after
	quiet     bool               // no removal is requested any more

	admissions int

	mu       sync.Mutex
	gate     []*waiting
	belated  []belated
	over     bool
	begun    time.Time
	ticked   time.Time
	trace    []string
	failures []string
}

// fail notes that a property does not hold.
func (w *world) fail(property, format string, args ...any) {
	text := property + ": " + fmt.Sprintf(format, args...)
	w.note("FAILED %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, text)
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.failures) > 0
}

// note writes a line of the trace.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%10.3f  ", time.Since(w.begun).Seconds()) + fmt.Sprintf(format, args...)
	w.trace = append(w.trace, strings.TrimRight(line, " "))
}

// spawn runs a task, in a goroutine that has nothing to do if there is one: its stack has grown already.
func (w *world) spawn(f func()) {
	select {
	case w.jobs <- f:
	default:
		go w.work(f)
	}
}

func (w *world) work(f func()) {
	for ok := true; ok; f, ok = <-w.jobs {
		w.guard(f)
	}
}

// guard makes a panic of Usher's a failure of the history, not of the simulator.
func (w *world) guard(f func()) {
	defer func() {
		if fault := recover(); fault != nil {
			w.fail("PANIC", "%v\n%s", fault, debug.Stack())
		}
	}()
	f()
}

// option is something that may happen next.
type option struct {
	weight int
	happen func()
}

// step lets one thing happen.
func (w *world) step() {
	synctest.Wait()
	options := w.options()
	total := 0
	for _, o := range options {
		total += o.weight
	}
	drawn := w.dice.IntN(total)
	for _, o := range options {
		if drawn -= o.weight; drawn < 0 {
			o.happen()
			break
		}
	}
	synctest.Wait()
	w.sleep(time.Millisecond) // no two deadlines fall together
}

func (w *world) options() []option {
	var all []option
	for _, call := range w.waiters() {
		all = append(all, option{weightOf(call), func() { w.open(call, w.fate(call)) }})
	}
	for _, r := range w.replicas {
		all = append(all, w.optionsOf(r)...)
	}
	if len(w.belated) > 0 {
		all = append(all, option{1, w.catchUp})
	}
	if e := w.foreignTurn(); e != nil && w.odds.silent == 0 {
		all = append(all, option{1, func() { w.answer(e) }})
	}
	all = append(all, w.cluster()...)
	if !w.calm {
		all = append(all, w.trouble()...)
	}
	return append(all, option{2 + 3*w.odds.haste, w.pause})
}

// weightOf is that of a call: of a region of OpenStack a look takes a dozen.
func weightOf(call *waiting) int {
	if strings.Contains(call.label, ".sim/") {
		return 24
	}
	return 4
}

func (w *world) optionsOf(r *replica) []option {
	var all []option
	if r.dead {
		return all
	}
	r.spread()
	for _, k := range kinds {
		if r.cache.backlog(k) > 0 {
			all = append(all, option{w.odds.delivery, func() { r.deliver(k) }})
		}
	}
	if r.leads {
		for _, item := range r.due() {
			all = append(all, option{3, func() { r.reconcile(item) }})
		}
	}
	return all
}

// fate draws what becomes of a call.
func (w *world) fate(call *waiting) fate {
	if w.calm {
		return arrives
	}
	drawn := w.dice.IntN(1000)
	if strings.HasPrefix(call.label, "(") {
		if drawn < w.odds.lost {
			return lost
		}
		return arrives
	}
	limits := []struct {
		fate fate
		odds int
	}{{slow, w.odds.slow}, {lost, w.odds.lost}, {unheard, w.odds.lost}, {late, w.odds.late}}
	for _, l := range limits {
		if drawn -= l.odds; drawn < 0 {
			if l.fate == late && call.manner != canBeLate {
				return lost
			}
			return l.fate
		}
	}
	return arrives
}

// catchUp lets a call arrive whose caller has given up.
func (w *world) catchUp() {
	i := w.dice.IntN(len(w.belated))
	b := w.belated[i]
	w.belated = slices.Delete(w.belated, i, i+1)
	w.note("belated: %s", b.label)
	if w.locks != nil && strings.Contains(b.label, " patch "+string(nodes)+" ") { // its policy may be gone
		w.locks.givenUp = true
	}
	if err := b.effect(); err != nil {
		w.note("  answered: %v", err)
	}
}

// pause lets time pass: mostly little.
func (w *world) pause() {
	d := time.Duration(100+w.dice.IntN(900)) * time.Millisecond
	switch drawn := w.dice.IntN(100); {
	case drawn < 25:
		d = time.Duration(1+w.dice.IntN(5)) * time.Second
	case drawn < 25+w.odds.long:
		d = time.Duration(10+w.dice.IntN(150)) * time.Second
	}
	w.sleep(d)
}

// sleep lets time pass.
func (w *world) sleep(d time.Duration) {
	for d > 0 {
		part := min(d, time.Second)
		time.Sleep(part)
		synctest.Wait()
		w.tick()
		d -= part
	}
}

// tick lets the system go on for each second that has passed.
func (w *world) tick() {
	for !w.ticked.Add(time.Second).After(time.Now()) {
		w.ticked = w.ticked.Add(time.Second)
		w.site.tick()
		w.safety.changed(w, natural, "the system goes on")
	}
}

// leaving reports whether people have nothing more to do.
func (w *world) leaving() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet || w.over
}

// pod is a pod as the apiserver has it.
func (w *world) pod(name string) *corev1.Pod { return w.store.pod(name) }

// audit looks at what is written: the part of a status that lets members go is only ever written upon a version.
func (w *world) audit(k kind, p part, body []byte) {
	if k != policies || p != status {
		return
	}
	var patch struct {
		Metadata struct{ ResourceVersion string }
		Status   map[string]json.RawMessage
	}
	if json.Unmarshal(body, &patch) != nil {
		return
	}
	for _, field := range []string{"epoch", "leaving", "preparations", "emptied", "replacing", "unhealthy"} {
		if _, writes := patch.Status[field]; writes && patch.Metadata.ResourceVersion == "" {
			w.fail("PRECONDITION", "%s of a policy's status is written without a version", field)
		}
	}
}
