package drain

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// Decide returns what to do now, every blocker with its words, and how things stand.
func Decide(view snapshot.View, req Request, led *Ledger) Decision {
	return newDecider(view, req, led, true).decide()
}

// Step is Decide without the words: the same actions and the same outcome, for
// forecasts that decide many thousand times.
func Step(view snapshot.View, req Request, led *Ledger) Decision {
	return newDecider(view, req, led, false).decide()
}

// decider holds one decision while it is being made.
type decider struct {
	snapshot.View
	req      Request
	led      *Ledger
	verbose  bool
	schedule deadlineSchedule

	out      Decision
	acting   map[tryKey]int
	targets  map[string]bool
	passages map[types.UID]*passage          // as in the ledger, and of this decision
	used     map[types.UID]int32             // evictions under each budget that its status does not show yet
	taken    map[types.UID]int32             // of these, of this decision
	evicting map[types.UID]int32             // pods under each budget that are ready, and whose eviction was sent
	ready    map[types.UID][]*snapshot.Pod   // of each workload that was looked at
	losses   map[types.UID]*losses           // by budget, as far as that was asked
	scaled   map[string][]*snapshot.Workload // by namespace: those that may have more pods than they are to keep; nil before the first look
	unready  map[types.UID]shortage          // of each budget that was looked at
	// terminating is how many pods of each budget do, as far as that was asked.
	terminating map[types.UID]int32
	onNode      map[string]snapshot.Resources // what pods have requested of each node that was looked at
	places      map[types.UID]string          // by owner: why no other node may run its pods
	surges      map[types.UID]*surge
	zones       map[string]bool // zones with a draining node
	active      int             // draining nodes
	cordoning   bool            // a cordon is on its way: nothing moves before all nodes have theirs
	renewing    bool            // a node is being claimed anew: no surge goes on, or is taken back
	costs       map[string]bool // namespaces in which a deletion cost is to be restored before anything is scaled down
	later       bool            // something of a drain that has ended came later than the first look, and is left
	undoing     bool            // a surge is being taken back
	pending     bool            // something is under way or may clear: the drain goes on
	vain        int             // actions that are tried again, and for which nothing waits
	left        int             // pods that still have to leave
	recovering  bool            // a replacement is waited for
	forbidden   int             // of these, pods that the caller may not evict
}

func newDecider(view snapshot.View, req Request, led *Ledger, verbose bool) *decider {
	d := &decider{
		View: view, req: req, led: led, verbose: verbose,
		passages: maps.Clone(led.passages),
		used:     map[types.UID]int32{},
		taken:    map[types.UID]int32{},
		evicting: map[types.UID]int32{},
		ready:    map[types.UID][]*snapshot.Pod{},
		losses:   map[types.UID]*losses{},
		unready:  map[types.UID]shortage{}, terminating: map[types.UID]int32{}, places: map[types.UID]string{}, onNode: map[string]snapshot.Resources{},
		surges:  map[types.UID]*surge{},
		acting:  map[tryKey]int{},
		costs:   map[string]bool{},
		targets: make(map[string]bool, len(req.Nodes)),
		zones:   map[string]bool{},
	}
	for _, name := range req.Nodes {
		d.targets[name] = true
	}
	for _, t := range led.uncounted {
		d.used[t.budget.uid]++
		if p := d.Cluster.Pod(t.action.Pod.UID); p != nil && p.Healthy() {
			d.evicting[t.budget.uid]++
		}
	}
	d.rememberSurplus()
	d.schedule = d.scheduleOf()
	d.out.Phase = d.phaseText()
	d.out.Notes = append(d.out.Notes, led.deletedPastBudget...)
	return d
}

func (d *decider) decide() Decision {
	if d.led.ending == Running {
		d.goOn()
	} else {
		d.tidyUp()
	}
	if holder, taken := d.takenOver(); taken {
		d.out.Actions, d.out.Outcome, d.out.Settled = nil, Left, false
		d.out.Notes = append(d.out.Notes, fmt.Sprintf("the drain is left as it is: the Lease %s is held by %s now", leaseKey(d.req.Self.ID), holder))
	}
	return d.out
}

func (d *decider) goOn() {
	nodes := d.admitNodes()
	if d.works(nodes) {
		d.keepLease()
		d.noteLease()
	}
	d.letStay(nodes)
	if !d.renewing {
		d.surgeWhereNeeded(nodes)
	}
	for i := range nodes {
		d.drainNode(&nodes[i])
	}
	d.warn()
	d.noteOrders(nodes)
	d.noteOutOfService(nodes)
	d.recover()
	d.conclude(nodes)
}

// conclude says whether the drain goes on, and if not, how it ended.
func (d *decider) conclude(nodes []target) {
	for i := range nodes {
		d.out.Nodes = append(d.out.Nodes, nodes[i].status)
	}
	d.out.Outcome = d.outcome()
	if d.out.Outcome != Running {
		d.out.Actions = nil // a passed deadline: nothing is begun that would only have to be undone
	}
}

func (d *decider) outcome() Outcome {
	if d.late() {
		return DeadlinePassed
	}
	if d.pending || d.led.InFlight() || len(d.out.Actions) > d.vain {
		return Running
	}
	switch {
	case d.left == 0 && !d.anyBlocked():
		return Drained
	case d.req.Persistent:
		return Running
	case d.left > 0 && d.forbidden == d.left:
		return NoAccess
	}
	return Blocked
}

// lateWrites is how long after its deadline, or after its beginning if that is later, a drain goes on for what is only to be written, and how
// long the scaling down of a surge may fail before its pods count as stuck.
const lateWrites = 2 * time.Minute

// late reports whether the deadline has passed with something left, or waited for. What is only to be written is written after it, too.
func (d *decider) late() bool {
	if d.req.Deadline.IsZero() || d.Now.Before(d.req.Deadline) {
		return false
	}
	last := later(d.req.Deadline, d.req.Started).Add(lateWrites)
	d.wake(last)
	waits := d.recovering || d.pending && !d.Now.Before(last)
	for i := range d.out.Nodes {
		waits = waits || len(d.out.Nodes[i].Blockers) > 0 && !d.cordoning && !d.renewing
	}
	return d.left > 0 || waits
}

func (d *decider) anyBlocked() bool {
	for i := range d.out.Nodes {
		if d.out.Nodes[i].State == NodeBlocked {
			return true
		}
	}
	return false
}

// act adds an action. Of two of one kind on one target the later one stands: a node's
// new state says what its sign of life would have said.
func (d *decider) act(a Action) {
	key := tryKey{a.Kind, a.Target()}
	if i, twice := d.acting[key]; twice {
		d.out.Actions[i] = a
		return
	}
	d.acting[key] = len(d.out.Actions)
	d.out.Actions = append(d.out.Actions, a)
}

// wake asks for another look at t, if nothing happens before.
func (d *decider) wake(t time.Time) {
	if t.IsZero() || !t.After(d.Now) {
		return
	}
	if d.out.Next.IsZero() || t.Before(d.out.Next) {
		d.out.Next = t
	}
}

// standing says where an action that was sent before stands.
type standing int

const (
	free     standing = iota // never sent, or its effect was seen: it may be sent
	underWay                 // no answer yet, or its effect was not seen yet
	held                     // refused, and not to be sent again before its time
)

// unseenFor is how long an accepted write that the watch does not show holds back
// another one like it.
const unseenFor = 10 * time.Second

// standing looks up an action on a target that now has this resource version. After one conflict a newer version is tried at
// once. After several the watch is behind what changes the target, so that every version it shows may be an old one, and those
// tries would be used up before it has caught up.
func (d *decider) standing(kind Kind, uid types.UID, version string) (standing, *try) {
	t := d.led.tries[tryKey{kind, uid}]
	switch {
	case t == nil:
		return free, nil
	case t.done.IsZero():
		return underWay, t
	case t.answer.Code == answers.Accepted:
		if t.version == version && d.Now.Before(t.done.Add(unseenFor)) {
			d.wake(t.done.Add(unseenFor))
			return underWay, t
		}
		return free, t
	case t.answer.Code == answers.Conflict && t.version != version && t.count == 1:
		return free, t
	case d.Now.Before(t.retryAt):
		d.wake(t.retryAt)
		return held, t
	}
	return free, t
}

// try adds the action unless it is under way, held or refused for good. It reports
// whether the action is still to take effect.
func (d *decider) try(a Action) bool {
	at, t := d.standing(a.Kind, a.Target(), a.version())
	if t != nil && at != underWay && (final(t.answer.Code) || d.endless(a)) {
		return false
	}
	if at == free {
		if w := d.scaledDown(a); w != nil {
			a.from = d.firstToGo(w)
		}
		d.act(a)
	}
	return true
}
