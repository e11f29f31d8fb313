package nodepressure

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The agent's patience.
const (
	// maxStep is how much one look to the next can count at most.
	maxStep = 15 * time.Second
	// maxAge is how old a reading, or what is known of a pod's memory and pids, may be; maxDiskAge likewise for its disk,
	// which takes long to measure. maxAhead is how far in the future a reading may be.
	maxAge     = 15 * time.Second
	maxDiskAge = 3 * time.Minute
	maxAhead   = 2 * time.Second
	// askPatience is how long a pod that was asked to go may show no sign of it.
	askPatience = 10 * time.Second
	// hardPatience is how long a leaving pod is waited for below a hard threshold.
	hardPatience = 10 * time.Second
	// overdue is how long after its grace a leaving pod is still waited for above it.
	overdue = 30 * time.Second
	// settleTime is how long it may take until what a pod used is seen back. A pod's files are removed after it, by a kubelet
	// that sees to dead containers once a minute, and large ones take their time.
	settleTime     = 10 * time.Second
	diskSettleTime = time.Minute
	// settleHurry is how much of it must pass where nothing will be left by its end, but for the very last moment.
	settleHurry = 500 * time.Millisecond
	// killPause is how long nothing is done after a kill.
	killPause = 3 * time.Second
	// askTime is about what it takes from asking the apiserver to the first signal that a pod gets.
	askTime = time.Second
	// leastHold is how long a refusal stands that does not say when to look again.
	leastHold = 5 * time.Second
)

// Next is one look of the agent: what it remembers then, and what is to be done. The Relief given is not changed.
//
// What holds for its actions, in any sequence of looks: no pod goes on a reading that is missing or too old; never an
// exempt pod, the agent's own, one that would give back next to nothing, or one whose refusal stands; one pod at a time,
// and one local kill more below a hard threshold; budgets and verdicts are respected above hard thresholds, and verdicts
// below as well but for policies that say LastResort. Whenever a threshold is met and nothing is done, a Wait says why.
func (r Relief) Next(in ReliefInput) (Relief, []Action) {
	l := &look{Relief: r.clone(), in: in, pods: make(map[types.UID]*Pod, len(in.Pods))}
	l.in.Order = cmp.Or(in.Order, OrderQoS)
	l.in.Pods = slices.Clone(in.Pods)
	for i := range l.in.Pods {
		p := &l.in.Pods[i]
		if l.in.Self != "" && p.UID == l.in.Self {
			p.Exempt = cmp.Or(p.Exempt, passedSelf)
		}
		l.pods[p.UID] = p
	}
	l.tick()
	l.watch(ForLayout(in.Thresholds, in.Node.Layout))
	l.holdRefusals()
	l.followDepartures()
	l.followActs()
	l.followRequest()
	for _, t := range l.due {
		if !l.harder(t) && l.deal(t) {
			break
		}
	}
	l.takeBack()
	l.say()
	return l.Relief, append(l.actions, l.waits...)
}

// look is one look in the making.
type look struct {
	Relief

	in      ReliefInput
	pods    map[types.UID]*Pod
	leaving map[types.UID]time.Duration // with which grace
	due     []Threshold
	met     []Threshold
	actions []Action
	waits   []Action
}

// tick moves the clock.
func (l *look) tick() {
	if !l.Last.IsZero() {
		l.Clock += min(max(l.in.Now.Sub(l.Last), 0), maxStep)
	}
	l.Last = l.in.Now
}

// deal does what there is to be done about a threshold that is due, and reports whether that is all for this look.
func (l *look) deal(t Threshold) bool {
	if u := l.underWay(t); u != nil {
		l.hasten(t, u)
		return true
	}
	if left := l.Pause - l.Clock; left > 0 && !l.exhaustedWithin(t, left) {
		l.wait(t, ReasonPausing, left, "a pod was killed a moment ago; what that brings is awaited")
		return true
	}
	ranking := l.rank(t)
	c := l.finish(t)
	if c == nil {
		c = l.choose(t, ranking)
	}
	switch {
	case c == nil:
		l.waitForCandidate(t, ranking)
	case l.early(t, c):
		l.wait(t, ReasonNoCandidate, 0, c.pod.Key()+" is next, and what was written for it earlier is being taken back first")
	default:
		l.act(t, c, ranking)
		return true
	}
	return false
}

// harder reports whether a soft threshold's signal is below its hard threshold as well, which then decides.
func (l *look) harder(t Threshold) bool {
	return !t.Hard() && slices.ContainsFunc(l.met, func(o Threshold) bool { return o.Signal == t.Signal && o.Hard() })
}

// exhaustedWithin reports whether a hard threshold's signal is at nothing within d if it goes on like this.
func (l *look) exhaustedWithin(t Threshold, d time.Duration) bool {
	left, known := l.exhaustion(t)
	return known && left < d
}

// exhaustion is when a hard threshold's signal is at nothing if it goes on like this.
func (l *look) exhaustion(t Threshold) (time.Duration, bool) {
	rate, known := l.in.Rates[t.Signal]
	available := max(l.in.Node.Readings[t.Signal].Available, 0)
	if !t.Hard() || !known || !(rate < 0) {
		return 0, false
	}
	seconds := float64(available) / -rate
	if seconds > float64(time.Hour/time.Second) {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// sortUrgent puts hard thresholds first, and memory first among equals.
func sortUrgent(due []Threshold) {
	slices.SortStableFunc(due, func(a, b Threshold) int {
		return cmp.Or(first(a.Hard(), b.Hard()), cmp.Compare(a.Signal.place(), b.Signal.place()))
	})
}
