package drain

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// Ledger is what this process has asked of the cluster and what was answered. It
// holds nothing that a restarted drain could not find out again by asking. It is
// not safe for concurrent use.
type Ledger struct {
	self              snapshot.Drainer // whose drain it is; no ID before Resume
	ending            Outcome
	inFlight          int
	tries             map[tryKey]*try
	uncounted         map[types.UID]*try      // evictions, of this process, that the budget's status may not show yet, by pod
	surplus           map[types.UID]Surplus   // workloads with more ready pods than they are to have, as in the last decision
	scales            map[types.UID]*try      // the last scaling of each Deployment
	heldLease         bool                    // this process has held the drain's Lease
	charges           *Charges                // with other drains of this process; nil: it is alone
	offer             offer                   // to the surges of those
	offerBefore       offer                   // when they were last to look at it
	goesOn            bool                    // as others see it: it has not ended
	shared            shared                  // with the drains of members
	sharedBefore      shared                  // when they were last to look at it
	lowerSince        map[types.UID]time.Time // since when those of each Deployment are to lower deletion costs
	ungrowable        map[types.UID]bool      // Deployments whose surges were refused to grow
	refused           map[types.UID]time.Time // since when budgets hold pods of a maintenance's drain, as this process has seen it
	passages          map[types.UID]*passage  // by what pods share of which one passes its budgets at a time: the last one
	evictedUnder      map[types.UID]time.Time // when each budget has let a pod go last
	departures        map[types.UID]*departure
	leaving           map[types.UID]*departure         // departures that were not seen gone yet
	costLowered       map[types.UID]*snapshot.Pod      // pods that a scaling down is to remove
	present           map[types.UID]*snapshot.Pod      // pods that were still to leave when last looked
	deletedPastBudget []string                         // pods that were deleted past what held them, and why
	nodes             map[string]types.UID             // targets that were claimed
	residents         map[types.UID]bool               // pods that were seen on a target before its cordon
	records           map[string]*snapshot.DrainRecord // this drain's record on each target whose cordon was seen, as last seen
	back              map[string]*givenBack            // targets that were given back, for as long as the drain goes on
	begun             map[string]bool                  // targets that a pod was asked to leave
	moved             map[string]time.Time             // when a pod of a target last moved; at first, when its turn came
	moves             map[tryKey]bool                  // what counted as moving, once for each pod and kind; "" is that it was seen gone
	since             map[sinceKey]time.Time
	verdict           map[verdictKey][]Blocker // what held pods and nodes in the last decision before the end
	unsurgeable       map[types.UID]string     // what cannot be surged, and why
	costImmutable     map[types.UID]bool       // pods whose deletion cost may not be changed
	removals          map[types.UID]removal    // by workload: what was to leave by scaling it down
	undone            map[tryKey]int           // undoings in a row that were accepted
	foreign           map[types.UID]int        // undoings of surges of other drains that were accepted, by workload
	recorded          map[types.UID]time.Time  // when a workload was first seen with a record of a surge
	found             map[types.UID]bool       // what may be undone though this process has not written it; nil before the first look
	foundUntil        time.Time                // until when more is
	successors        map[types.UID]types.UID  // as in the last decision
}

type tryKey struct {
	kind   Kind
	target types.UID
}

// try is one action that was sent, with its latest answer.
type try struct {
	action  Action
	sent    time.Time
	done    time.Time // zero while in flight
	answer  answers.Answer
	count   int       // refusals in a row
	failing time.Time // since when there are some
	retryAt time.Time
	version string    // resource version of the target when it was decided upon
	budget  budgetRef // evictions, and deletions past a budget: what they use of it
	seen    bool      // requests: what was asked for was seen
	before  *try      // growing surges: the scaling before it
}

type budgetRef struct {
	key     snapshot.Key
	uid     types.UID
	version string
	before  time.Time // since when its status counted a pod of this name as being evicted when that was decided; zero: it did not
}

// departure is a pod that left, or is about to, because this drain asked for it.
type departure struct {
	pod  *snapshot.Pod
	at   time.Time
	gone time.Time // seen gone; zero until then
}

// verdictKey is a pod or a node.
type verdictKey struct {
	pod  types.UID
	node string
}

type sinceKey struct {
	pod    snapshot.Key
	node   string
	reason Reason
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		tries:         map[tryKey]*try{},
		uncounted:     map[types.UID]*try{},
		scales:        map[types.UID]*try{},
		refused:       map[types.UID]time.Time{},
		passages:      map[types.UID]*passage{},
		evictedUnder:  map[types.UID]time.Time{},
		departures:    map[types.UID]*departure{},
		leaving:       map[types.UID]*departure{},
		costLowered:   map[types.UID]*snapshot.Pod{},
		residents:     map[types.UID]bool{},
		moved:         map[string]time.Time{},
		nodes:         map[string]types.UID{},
		begun:         map[string]bool{},
		records:       map[string]*snapshot.DrainRecord{},
		back:          map[string]*givenBack{},
		moves:         map[tryKey]bool{},
		since:         map[sinceKey]time.Time{},
		unsurgeable:   map[types.UID]string{},
		costImmutable: map[types.UID]bool{},
		removals:      map[types.UID]removal{},
		undone:        map[tryKey]int{},
		foreign:       map[types.UID]int{},
		lowerSince:    map[types.UID]time.Time{},
		shared:        newShared(),
		ungrowable:    map[types.UID]bool{},
		recorded:      map[types.UID]time.Time{},
	}
}

// End makes every later Decide tidy up instead of draining. The first outcome stands. What could not be undone while the drain went on is
// tried as often again.
func (l *Ledger) End(outcome Outcome) {
	if l.ending != Running {
		return
	}
	l.ending = outcome
	for _, t := range l.tries {
		t.count = 0
	}
}

// Ending returns the outcome given to End, Running before that.
func (l *Ledger) Ending() Outcome { return l.ending }

// Begin enters an action that is about to be sent.
func (l *Ledger) Begin(a Action, now time.Time) {
	key := tryKey{a.Kind, a.Target()}
	t := &try{action: a, sent: now, version: a.version(), budget: a.budget}
	if former := l.tries[key]; former != nil && former.answer.Code != answers.Accepted {
		t.count, t.failing = former.count, former.failing
	}
	if a.grows() {
		t.before = l.tries[key]
	}
	l.tries[key] = t
	l.inFlight++
	if a.budget.uid != "" {
		l.charge(t)
	}
	l.pass(a, now)
	l.scaling(t)
	switch a.Kind {
	case Cordon:
		l.nodes[a.Node.Name] = a.Node.UID
	case Evict, Delete, LowerCost, Ask:
		l.begun[a.Pod.Node] = true
	case Mark, Uncordon, Unmark, RestoreCost, Scale, ScaleMin, Withdraw, RenewLease, DeleteLease:
	}
	if a.GiveUp != "" {
		l.unsurgeable[a.surgeTarget()] = a.GiveUp
	}
}

// Answer enters what the cluster said to an action for which Begin was called.
func (l *Ledger) Answer(a Action, answer answers.Answer, now time.Time) {
	t := l.tries[tryKey{a.Kind, a.Target()}]
	if t == nil || !t.done.IsZero() {
		return
	}
	l.inFlight--
	t.done, t.answer = now, answer
	l.scaling(t)
	if answer.Code == answers.Accepted {
		t.count, t.failing = 0, time.Time{}
		l.countRemovals(a)
		l.accepted(a, now)
		return
	}
	if final(answer.Code) && a.grows() {
		l.refusedToGrow(t)
		return
	}
	if t.count++; t.failing.IsZero() {
		t.failing = now
	}
	t.retryAt = now.Add(backoff(answer, t.count))
	if answer.Code != answers.Unavailable {
		l.release(t)
		l.notPassed(a)
	}
	if final(answer.Code) || a.Kind == LowerCost && answer.Code == answers.Conflict && t.count >= mostConflicts {
		l.refusedForGood(a, answer)
	}
}

func (l *Ledger) accepted(a Action, now time.Time) {
	if a.past {
		l.deletedPastBudget = append(l.deletedPastBudget, a.Pod.Key().String()+" was deleted past what held it (--at-deadline=delete)")
	}
	if a.HoldExpired != "" {
		l.deletedPastBudget = append(l.deletedPastBudget, a.Pod.Key().String()+" was deleted past its budgets: "+a.HoldExpired)
	}
	if a.Kind == Evict {
		l.underBudget(a.budget.uid, now)
	}
	l.countUndone(a)
	switch a.Kind {
	case Evict, Delete, LowerCost, Ask:
		l.move(a.Pod, a.Kind, now)
	case Cordon, Mark, Uncordon, Unmark, RestoreCost, Scale, ScaleMin, Withdraw, RenewLease, DeleteLease:
	}
	switch a.Kind {
	case RenewLease:
		l.heldLease = true
	case Evict, Delete:
		l.depart(a.Pod, now)
	case LowerCost:
		l.costLowered[a.Pod.UID] = a.Pod
	case RestoreCost:
		delete(l.costLowered, a.Pod.UID)
	case Cordon, Mark, Uncordon, Unmark, Scale, ScaleMin, Ask, Withdraw, DeleteLease:
	}
}

// move enters that a pod was asked to leave in this way, or seen gone. It counts once, and only of pods that were on the node
// before its cordon: clients that may write in a namespace can take a request back, and start pods on the node, without end.
func (l *Ledger) move(p *snapshot.Pod, how Kind, now time.Time) {
	key := tryKey{how, p.UID}
	if l.moves[key] || l.records[p.Node] != nil && !l.residents[p.UID] {
		return
	}
	l.moves[key] = true
	l.moved[p.Node] = now
}

// depart enters a pod whose leaving is this drain's doing.
func (l *Ledger) depart(p *snapshot.Pod, now time.Time) {
	if l.departures[p.UID] != nil {
		return
	}
	d := &departure{pod: p, at: now}
	l.departures[p.UID] = d
	l.leaving[p.UID] = d
}

func (l *Ledger) refusedForGood(a Action, answer answers.Answer) {
	switch a.Kind {
	case Scale, ScaleMin:
		l.unsurgeable[a.surgeTarget()] = answer.Message
	case LowerCost:
		l.costImmutable[a.Target()] = true
	case Cordon, Mark, Uncordon, Unmark, Evict, Delete, RestoreCost, Ask, Withdraw, RenewLease, DeleteLease:
	}
}

// final reports whether asking again cannot help.
func final(code answers.Code) bool {
	return code == answers.Forbidden || code == answers.Rejected || code == answers.Denied
}

// backoff returns how long to wait before asking again; budgets are watched, so
// this only bounds how long a missed event can hold a pod.
func backoff(answer answers.Answer, count int) time.Duration {
	doubled := func(first, most time.Duration) time.Duration {
		for range min(count-1, 10) {
			first *= 2
		}
		return max(min(first, most), answer.RetryAfter)
	}
	switch answer.Code {
	case answers.Conflict:
		return doubled(250*time.Millisecond, 5*time.Second)
	case answers.Unavailable:
		return doubled(time.Second, 30*time.Second)
	case answers.RefusedForNow:
		count -= mostUndoTries // what is given up after as many is not tried less often before
		return doubled(time.Second, 30*time.Second)
	case answers.Denied:
		return doubled(5*time.Second, 2*time.Minute)
	case answers.Accepted, answers.Gone, answers.RefusedByBudget, answers.SeveralBudgets, answers.NamespaceTerminating, answers.Forbidden, answers.Rejected:
	}
	return doubled(10*time.Second, 2*time.Minute)
}

// Observe compares the ledger with the cluster: which pods were seen gone, and
// which evictions a budget's status shows by now.
func (l *Ledger) Observe(view snapshot.View) {
	l.observeShared(view)
	l.observeTargets(view.Cluster)
	l.observeFound(view.Cluster, view.Now)
	l.observeRecords(view)
	for uid, t := range l.uncounted {
		if counted(view, t) {
			delete(l.uncounted, uid)
		}
	}
	l.observeRequests(view)
	l.observeHolds(view)
	for uid, p := range l.costLowered {
		if now := view.Cluster.Pod(uid); now == nil || now.Terminating() {
			l.depart(p, view.Now)
			delete(l.costLowered, uid)
		}
	}
	for uid, p := range l.present {
		if view.Cluster.Pod(uid) == nil {
			l.depart(p, view.Now) // another client removed it: its node was deleted, say
			delete(l.present, uid)
		}
	}
	for uid, d := range l.leaving {
		if view.Cluster.Pod(uid) == nil {
			d.gone = view.Now
			l.move(d.pod, "", view.Now)
			delete(l.leaving, uid)
		}
	}
}

// observeTargets notes which pods are on a target until its cordon is seen, what this drain's record says from then on, and
// whether the node is given back.
func (l *Ledger) observeTargets(c *snapshot.Cluster) {
	for name, uid := range l.nodes {
		n := c.Node(name)
		if n == nil || n.UID != uid {
			continue
		}
		if l.records[name] == nil {
			for _, p := range c.PodsOn(name) {
				l.residents[p.UID] = true
			}
		}
		if n.Drain != nil && n.Drain.ID == l.ownID(name) {
			l.records[name] = n.Drain
		}
		if l.records[name] != nil && l.back[name] == nil {
			l.observeBack(n)
		}
	}
}

// ownID returns the id under which this drain has claimed, or tries to claim, a target.
func (l *Ledger) ownID(name string) string {
	if record := l.records[name]; record != nil {
		return record.ID
	}
	if t := l.tries[tryKey{Cordon, l.nodes[name]}]; t != nil {
		return t.action.Record.ID
	}
	return ""
}

// observeRequests notes which requests were seen, however short they stand.
func (l *Ledger) observeRequests(view snapshot.View) {
	for key, t := range l.tries {
		if key.kind == Ask && !t.seen {
			r := view.Cluster.RequestBy(snapshot.RequesterOf(t.action.Drain), t.action.Pod)
			if t.seen = r != nil; t.seen {
				l.found[r.UID] = true
			}
		}
	}
}

// counted reports whether the budget's status reflects the eviction. The server
// names the pod in disruptedPods in the very write that uses the budget; later the
// disruption controller takes it out again, once it has seen the deletion. A former pod of the name may be there for two minutes.
func counted(view snapshot.View, t *try) bool {
	b := view.Cluster.Budget(t.budget.key)
	if b == nil || b.UID != t.budget.uid {
		return true
	}
	if at, named := b.Disrupted[t.action.Pod.Name]; named && !at.Equal(t.budget.before) {
		return true
	}
	if t.done.IsZero() {
		return false
	}
	if view.Now.After(t.done.Add(disruptedFor)) {
		return true // it was not carried out, where it had no answer: the process that sent it may have ended
	}
	if b.ResourceVersion == t.budget.version {
		return false
	}
	p := view.Cluster.Pod(t.action.Pod.UID)
	return p == nil || p.Terminating()
}

// runningOf returns how many pods of a workload are there to stay.
func runningOf(c *snapshot.Cluster, w *snapshot.Workload) int {
	running := 0
	for _, p := range podsOf(c, w) {
		if !p.Terminating() && !p.Finished() {
			running++
		}
	}
	return running
}

// disruptedFor is how long the disruption controller counts an entry of
// disruptedPods (DeletionTimeout upstream).
const disruptedFor = 2 * time.Minute

// InFlight reports whether an answer is still awaited.
func (l *Ledger) InFlight() bool { return l.inFlight > 0 }

// ofAnotherDrain reports whether a node with these blockers is drained by another drain.
func ofAnotherDrain(blockers []Blocker) bool {
	return slices.ContainsFunc(blockers, func(b Blocker) bool { return b.Reason == AnotherDrain })
}

// keepVerdict remembers what held each pod and node, so that a drain which has ended
// can still say why.
func (l *Ledger) keepVerdict(d *Decision) {
	l.verdict = map[verdictKey][]Blocker{}
	for i := range d.Pods {
		if s := &d.Pods[i]; len(s.Blockers) > 0 {
			l.verdict[verdictKey{pod: s.Pod.UID}] = s.Blockers
		}
	}
	for i := range d.Nodes {
		if n := &d.Nodes[i]; len(n.Blockers) > 0 {
			l.verdict[verdictKey{node: n.Name}] = n.Blockers
		}
	}
}
