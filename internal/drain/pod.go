package drain

import (
	"fmt"
	"strings"
	"time"

	"usher.sh/usher/internal/snapshot"
)

// drainNode looks at every pod of a node and lets those go that may.
func (d *decider) drainNode(t *target) {
	g := gate{placed: t.placed, unclaimed: !t.claimed}
	var staying []*snapshot.Pod
	if t.another {
		t.status.State = NodeMissing
		return
	}
	for _, p := range inWaves(d.Cluster.PodsOn(t.status.Name)) {
		f := d.fateOf(p)
		if f.stays != "" {
			staying = append(staying, p)
			d.show(PodStatus{Pod: p, State: Staying, Note: f.stays})
			continue
		}
		g.enter(waveOf(p))
		status := d.judge(p, f, &g, t)
		g.leave(status)
		d.count(status, t)
		d.show(status)
		t.status.Left++
	}
	d.nodeState(t, &g, staying)
}

// nodeState sums up what is left on the node.
func (d *decider) nodeState(t *target, g *gate, staying []*snapshot.Pod) {
	switch {
	case t.node == nil:
		t.status.State = NodeMissing
	case t.status.State == NodeBlocked:
	case !t.claimed || !t.placed:
		t.status.State = NodePending
		d.pending = d.pending || t.status.Left == 0
	case t.status.Left == 0:
		d.awaitVolumes(t, staying)
	case g.alive == 0 && !t.deletes:
		t.status.State = NodeBlocked
		d.mark(t, string(NodeBlocked))
	default:
		t.status.State = NodeDraining
		d.mark(t, string(NodeDraining)) // it may have been blocked before
	}
}

// gate lets the waves of a node through one after the other.
type gate struct {
	placed    bool
	unclaimed bool // nothing may leave the node yet, or ever: the node's blockers say why
	wave      waveKey
	index     int
	begun     bool
	alive     int // pods that may still leave, in this wave and earlier ones
	all       int // pods that are left, likewise
	earlier   int // alive in earlier waves
	before    int // all in earlier waves
}

func (g *gate) enter(wave waveKey) {
	if !g.begun || wave != g.wave {
		if g.begun {
			g.index++
		}
		g.begun, g.wave, g.earlier, g.before = true, wave, g.alive, g.all
	}
}

func (g *gate) leave(s PodStatus) {
	g.all++
	if !stuck(s.Blockers) {
		g.alive++
	}
}

// shut reports whether pods of the present wave have to wait for earlier ones.
func (g *gate) shut() bool { return g.earlier > 0 || (g.wave.serving() && g.before > 0) }

// stuck reports whether at least one blocker cannot clear by itself.
func stuck(blockers []Blocker) bool {
	for i := range blockers {
		if blockers[i].Dead {
			return true
		}
	}
	return false
}

// judge says where a pod stands and evicts it if nothing holds it.
func (d *decider) judge(p *snapshot.Pod, f fate, g *gate, t *target) PodStatus {
	s := PodStatus{Pod: p, State: Waiting, Wave: g.index, Blockers: f.objections}
	if p.Terminating() {
		s.State = Terminating
		s.Blockers = append(s.Blockers, d.whyStillThere(p, t.node))
		if !g.unclaimed {
			d.hasten(p)
		}
		return s
	}
	if g.unclaimed {
		if t.node == nil {
			s.Blockers = append(s.Blockers, Blocker{
				Reason: NodeUnreachable, Pod: p.Key(), Node: p.Node,
				Message: "its node is gone; the pod garbage collector removes it", WayOut: "wait",
			})
		}
		return s
	}
	if at := d.asked(p); at != nil {
		s.State = Evicting
		return s
	}
	s.Blockers = append(s.Blockers, d.blindness(p)...)
	s.Blockers = append(s.Blockers, d.turn(p, g)...)
	if d.mayAsk(p) {
		return d.judgeGoverned(s)
	}
	ref, found := d.budgetsAllow(p)
	s.Blockers = append(s.Blockers, d.refusal(p, ref, len(found) > 0)...)
	if su := d.surgeOf(p); su != nil {
		return d.judgeSurged(s, su, ref, found, g)
	}
	s.Blockers = append(s.Blockers, found...)
	d.letGo(&s, ref)
	return s
}

// blindAfter is how old the picture of the cluster may be: a watch that breaks is
// usually back within a second or two.
const blindAfter = 10 * time.Second

// blind reports whether the picture is too old to act on (law 3).
func (d *decider) blind() bool {
	if d.Blind.IsZero() {
		return false
	}
	d.wake(d.Blind.Add(blindAfter))
	return !d.Now.Before(d.Blind.Add(blindAfter))
}

func (d *decider) blindness(p *snapshot.Pod) []Blocker {
	if !d.blind() {
		return nil
	}
	return []Blocker{{
		Reason: EvidenceUnavailable, Pod: p.Key(), Node: p.Node, Since: d.Blind,
		Message: "the API server cannot be watched, so what is known of the cluster is too old to act on",
		WayOut:  "wait until the API server answers again",
	}}
}

// letGo evicts the pod if it has no blockers, or deletes it where the ladder says so.
func (d *decider) letGo(s *PodStatus, ref budgetRef) {
	p := s.Pod
	grace := d.graceFor(p)
	switch {
	case len(s.Blockers) == 0 && d.req.DisableEviction:
		d.act(Action{Kind: Delete, Pod: p, Grace: grace, Why: "--disable-eviction"})
	case len(s.Blockers) == 0:
		d.used[ref.uid]++
		d.act(Action{Kind: Evict, Pod: p, Grace: grace, budget: ref})
	case d.pastBudget(s) && d.mayDelete(p):
		d.act(Action{Kind: Delete, Pod: p, Grace: grace, past: true, Why: "the deadline is near (--at-deadline=delete)"})
	default:
		return
	}
	s.State, s.Blockers = Evicting, nil
}

// mayDelete reports whether a deletion may be sent: none is under way or held back.
func (d *decider) mayDelete(p *snapshot.Pod) bool {
	at, _ := d.standing(Delete, p.UID, p.ResourceVersion)
	return at == free
}

// turn says whether the pod's node or wave has to wait for others.
func (d *decider) turn(p *snapshot.Pod, g *gate) []Blocker {
	switch {
	case d.cordoning:
		return []Blocker{{
			Reason: NodeWaitsTurn, Pod: p.Key(), Node: p.Node,
			Message: "every node of the drain is cordoned first", WayOut: "wait",
		}}
	case !g.placed:
		return []Blocker{{
			Reason: NodeWaitsTurn, Pod: p.Key(), Node: p.Node,
			Message: "its node waits until another one is drained (--max-parallel, --max-zones)", WayOut: "wait",
		}}
	case g.shut() && !d.ladder.passed(rungShortGrace):
		return []Blocker{{
			Reason: EarlierWave, Pod: p.Key(), Node: p.Node,
			Message: fmt.Sprintf("waits for %s of earlier waves", counted32(int32(g.before), "pod")), WayOut: "wait",
		}} //nolint:gosec // pods of one node
	}
	return nil
}

// askedFor is how long an accepted eviction that the watch does not show is believed.
const askedFor = 30 * time.Second

// asked returns the eviction or delete of this pod that is under way, nil if none is.
func (d *decider) asked(p *snapshot.Pod) *try {
	for _, kind := range []Kind{Evict, Delete} {
		t := d.led.tries[tryKey{kind, p.UID}]
		if t == nil {
			continue
		}
		settled := t.answer.Code == Accepted || t.answer.Code == Gone
		if t.done.IsZero() || (settled && d.Now.Before(t.done.Add(askedFor))) {
			if settled {
				d.wake(t.done.Add(askedFor))
			}
			return t
		}
	}
	return nil
}

// refusal returns what the server said to the last eviction, as long as that holds.
// Where a budget explains the refusal, the budget's own blocker says it better.
func (d *decider) refusal(p *snapshot.Pod, ref budgetRef, explained bool) []Blocker {
	t := d.lastTry(p)
	if t == nil || t.done.IsZero() {
		return nil
	}
	code := t.answer.Code
	if code == Accepted || code == Gone || (explained && (code == RefusedByBudget || code == SeveralBudgets)) {
		return nil
	}
	if code == RefusedByBudget && ref != t.budget {
		return nil // the budget that refused has changed since
	}
	dead := code == Forbidden || code == Rejected
	if !dead && !d.Now.Before(t.retryAt) {
		return nil
	}
	b := Blocker{Reason: refusalReason[code], Pod: p.Key(), Node: p.Node, Message: t.answer.Message, WayOut: refusalWayOut(code, p), Dead: dead}
	if !dead {
		b.Retry = t.retryAt
		d.wake(t.retryAt)
	}
	return []Blocker{b}
}

// lastTry returns the latest attempt to remove the pod, nil if there was none.
func (d *decider) lastTry(p *snapshot.Pod) *try {
	evicted, deleted := d.led.tries[tryKey{Evict, p.UID}], d.led.tries[tryKey{Delete, p.UID}]
	if evicted == nil || (deleted != nil && deleted.sent.After(evicted.sent)) {
		return deleted
	}
	return evicted
}

var refusalReason = map[Code]Reason{
	Conflict:             ChangedMeanwhile,
	RefusedByBudget:      BudgetExhausted,
	RefusedForNow:        ServerAskedToWait,
	SeveralBudgets:       TwoBudgets,
	Denied:               DeniedByAdmission,
	NamespaceTerminating: NamespaceEnding,
	Forbidden:            NoPermission,
	Unavailable:          ServerUnavailable,
	Rejected:             RejectedByServer,
}

func refusalWayOut(code Code, p *snapshot.Pod) string {
	switch code {
	case Denied:
		return "satisfy what the admission webhook or policy asks for; the eviction is tried again"
	case Forbidden:
		return "ask for the right to create pods/eviction in namespace " + p.Namespace
	case NamespaceTerminating:
		return "wait for the namespace to go: kubectl get ns " + p.Namespace + " -o yaml shows what holds it"
	case SeveralBudgets:
		return "kubectl get pdb -n " + p.Namespace
	case Rejected:
		return "see the server's words"
	case Accepted, Gone, Conflict, RefusedByBudget, RefusedForNow, Unavailable:
	}
	return "wait; it is tried again"
}

// overdueAfter is how long past its grace a terminating pod may take before that is
// worth saying (Karpenter waits as long before it calls a pod stuck).
const overdueAfter = time.Minute

// whyStillThere says why a pod whose deletion was accepted is still there.
func (d *decider) whyStillThere(p *snapshot.Pod, n *snapshot.Node) Blocker {
	b := Blocker{
		Reason: Leaving, Pod: p.Key(), Node: p.Node, Retry: p.Deletion, Since: p.Deletion.Add(-p.Grace),
		Message: "ends by itself, at the latest in " + short(p.Deletion.Sub(d.Now)), WayOut: "wait",
	}
	late := d.Now.Sub(p.Deletion)
	switch {
	case n == nil:
		b.Reason, b.Message = NodeUnreachable, "its node is gone; the pod garbage collector removes it"
	case !n.Ready && late >= 0:
		b.Reason, b.Message = NodeUnreachable, "its node does not answer: "+n.ReadyWhy
		b.WayOut = fmt.Sprintf("bring the node back, or once it is certainly off: kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", n.Name)
	case len(p.Finalizers) > 0 && late >= 0:
		b.Reason, b.Message = HeldByFinalizers, "held by finalizer "+strings.Join(p.Finalizers, ", ")
		b.WayOut = "look at the controller that owns the finalizer"
	case late > overdueAfter:
		b.Reason, b.Message = OverdueOnNode, fmt.Sprintf("its grace ended %s ago and the kubelet still has it", short(late))
		b.WayOut = fmt.Sprintf("look at the kubelet of %s", p.Node)
	case late >= 0:
		b.Message, b.Retry = "its grace is over, the kubelet is cleaning up", p.Deletion.Add(overdueAfter)
	}
	if b.Reason != Leaving {
		b.Since, b.Retry = p.Deletion, time.Time{}
	}
	d.wake(b.Retry)
	return b
}

// count enters a pod that has not left yet into the sums of the decision.
func (d *decider) count(s PodStatus, t *target) {
	d.left++
	if t.status.State == NodeBlocked {
		if t.status.Blockers[0].Reason == NoPermission {
			d.barred++
		}
		return
	}
	deletes := d.passable(s.Blockers)
	t.deletes = t.deletes || deletes
	if deletes || !stuck(s.Blockers) {
		d.pending = true
		return
	}
	for i := range s.Blockers {
		if s.Blockers[i].Reason == NoPermission {
			d.barred++
			return
		}
	}
}

func (d *decider) show(s PodStatus) {
	if d.wordy {
		d.out.Pods = append(d.out.Pods, s)
	}
}
