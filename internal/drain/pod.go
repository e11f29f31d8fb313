package drain

import (
	"fmt"
	"time"

	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// drainNode looks at every pod of a node and lets those go that may.
func (d *decider) drainNode(t *target) {
	if t.another {
		d.drainReplaced(t)
		return
	}
	for i := range t.queue {
		d.enter(&t.queue[i], t)
	}
	for _, s := range t.staying {
		d.show(s)
	}
	d.nodeState(t)
}

// enter judges a pod that still has to leave, and counts it.
func (d *decider) enter(q *queued, t *target) {
	status := d.judge(q, t)
	if !stuck(status.Blockers) {
		t.alive++
	}
	d.count(status, t)
	d.show(status)
	t.status.Left++
}

// nodeState sums up what is left on the node.
func (d *decider) nodeState(t *target) {
	switch {
	case t.node == nil:
		t.status.State = NodeMissing
	case t.status.State == NodeBlocked, t.status.State == NodeDrained:
	case !t.claimed || !t.placed:
		t.status.State = NodePending
		d.pending = d.pending || t.status.Left == 0
	case t.status.Left == 0:
		d.awaitVolumes(t)
	case t.alive == 0 && !t.deletes:
		t.status.State = NodeBlocked
		if !t.keepsEmpty() { // or else the record goes on giving signs of life, without which the requests are withdrawn
			d.mark(t, string(NodeBlocked))
		}
	default:
		t.status.State = NodeDraining
		d.mark(t, string(NodeDraining)) // it may have been blocked before
	}
}

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
func (d *decider) judge(q *queued, t *target) PodStatus {
	p := q.pod
	s := PodStatus{Pod: p, State: Waiting, Wave: q.number, Blockers: q.filtered.objections}
	if p.Terminating() {
		s.State = Terminating
		s.Blockers = append(s.Blockers, d.whyStillThere(p, d.Cluster.Node(p.Node)))
		if t.claimed {
			d.shortenGrace(p)
		}
		return s
	}
	if t.another && d.asked(p) != nil {
		s.State = Evicting
		return s
	}
	if !t.claimed {
		if t.node == nil && !t.another {
			s.Blockers = append(s.Blockers, orphanedBy(p))
		}
		return s
	}
	if at := d.asked(p); at != nil {
		s.State = Evicting
		return s
	}
	s.Blockers = append(s.Blockers, d.blindness(p)...)
	s.Blockers = append(s.Blockers, d.turn(q, t)...)
	switch {
	case q.filtered.load && !d.loads(p):
		s.Blockers = append(s.Blockers, d.policiesUnread(p))
		return s
	case d.mayAsk(p):
		return d.judgeGoverned(s)
	}
	ref, found := d.budgetsAllow(p)
	s.Blockers = append(s.Blockers, d.refusal(p, ref, len(found) > 0)...)
	if su := d.surgeOf(p); su != nil {
		return d.judgeSurged(s, su, ref, found, q)
	}
	if len(s.Blockers) > 0 {
		d.surgeComes(p, found)
	}
	s.Blockers = append(s.Blockers, found...)
	d.letGo(&s, ref)
	d.limitHold(&s, ref, time.Time{})
	return s
}

// nodeGone is said of pods whose node was deleted.
const nodeGone = "its node is gone; the pod garbage collector of the control plane removes it"

func orphanedBy(p *snapshot.Pod) Blocker {
	return Blocker{Reason: NodeUnreachable, Pod: p.Key(), Node: p.Node, Message: nodeGone, Remedy: "wait"}
}

// surgeComes takes back that budgets never allow it to a pod that waits for its turn, where its Deployment is surged then.
func (d *decider) surgeComes(p *snapshot.Pod, found []Blocker) {
	if !stuck(found) || !d.surgeMoves(p, len(d.Cluster.BudgetsFor(p))) {
		return
	}
	for i := range found {
		found[i].Dead = false
		if d.verbose {
			found[i].Message += "; replacements are started first in its turn"
			found[i].Remedy = "wait"
		}
	}
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
		Remedy:  "wait until the API server answers again",
	}}
}

// letGo evicts the pod if it has no blockers, or deletes it where the schedule says so.
func (d *decider) letGo(s *PodStatus, ref budgetRef) {
	p := s.Pod
	grace := d.graceFor(p)
	switch {
	case len(s.Blockers) == 0 && d.req.DisableEviction:
		d.act(Action{Kind: Delete, Pod: p, Grace: grace, Why: "--disable-eviction"})
	case len(s.Blockers) == 0:
		d.use(ref.uid)
		d.act(Action{Kind: Evict, Pod: p, Grace: grace, budget: ref})
	case d.pastBudget(s) && d.mayDelete(p):
		if !p.Ready { // nothing is taken from what the budget has
			ref = budgetRef{}
		}
		d.use(ref.uid)
		d.act(Action{Kind: Delete, Pod: p, Grace: grace, past: true, budget: ref, Why: "the deadline is near (--at-deadline=delete)"})
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
func (d *decider) turn(q *queued, t *target) []Blocker {
	p := q.pod
	switch {
	case d.cordoning:
		return []Blocker{{
			Reason: NodeWaitsTurn, Pod: p.Key(), Node: p.Node,
			Message: "every node of the drain is cordoned first", Remedy: "wait",
		}}
	case !t.placed:
		return []Blocker{{
			Reason: NodeWaitsTurn, Pod: p.Key(), Node: p.Node,
			Message: "its node waits until another one is drained (--max-parallel, --max-zones)", Remedy: "wait",
		}}
	case q.earlier.first != nil:
		return []Blocker{d.earlierRole(q, t)}
	case q.behind.first != nil:
		return []Blocker{d.earlierWave(q, t)}
	case q.data.first != nil && d.requestFor(p) == nil:
		return []Blocker{d.afterData(q)}
	}
	return nil
}

// earlierWave names what the pod waits for and for how long. What serves the node waits for what runs there without an
// end, so it is stuck where all of that is.
func (d *decider) earlierWave(q *queued, t *target) Blocker {
	p, first := q.pod, q.behind.first
	b := Blocker{Reason: EarlierWave, Pod: p.Key(), Node: p.Node, Dead: q.wave.daemon && t.alive == 0}
	if !d.verbose {
		return b
	}
	b.Message = "waits for " + nameBeside(first, p)
	if more := q.behind.pods - 1; more > 0 {
		b.Message += fmt.Sprintf(" and %s", text.Count(more, "more pod"))
	}
	b.Message += " of earlier waves"
	look := fmt.Sprintf("usher why pod/%s -n %s", first.Name, first.Namespace)
	if q.wave.daemon {
		b.Message += ", which it may serve"
		b.Remedy = look + ", or --ignore-daemonsets to leave it there"
		return b
	}
	until, _ := d.patient(t.status.Name)
	b.Remedy = fmt.Sprintf("wait, while nothing moves no longer than until %s; or %s", until.Format("15:04:05"), look)
	return b
}

// nameBeside names a pod for a blocker of another one.
func nameBeside(p, other *snapshot.Pod) string {
	if p.Namespace == other.Namespace {
		return p.Name
	}
	return p.Key().String()
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
		settled := t.answer.Code == answers.Accepted || t.answer.Code == answers.Gone
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
	if code == answers.Accepted || code == answers.Gone || (explained && (code == answers.RefusedByBudget || code == answers.SeveralBudgets)) {
		return nil
	}
	if code == answers.RefusedByBudget && ref != t.budget {
		return nil // the budget that refused has changed since
	}
	dead := code == answers.Forbidden || code == answers.Rejected
	if !dead && !d.Now.Before(t.retryAt) {
		return nil
	}
	b := Blocker{Reason: refusalReason[code], Pod: p.Key(), Node: p.Node, Message: unnamed(t.answer.Message, p), Remedy: refusalRemedy(t, p.Namespace), Dead: dead}
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

var refusalReason = map[answers.Code]Reason{
	answers.Conflict:             ChangedMeanwhile,
	answers.RefusedByBudget:      BudgetExhausted,
	answers.RefusedForNow:        ServerAskedToWait,
	answers.SeveralBudgets:       TwoBudgets,
	answers.Denied:               DeniedByAdmission,
	answers.NamespaceTerminating: NamespaceEnding,
	answers.Forbidden:            NoPermission,
	answers.Unavailable:          ServerUnavailable,
	answers.Rejected:             RejectedByServer,
}

// overdueAfter is how long past its grace a terminating pod may take before that is
// worth saying (Karpenter waits as long before it calls a pod stuck).
const overdueAfter = time.Minute

// whyStillThere says why a pod whose deletion was accepted is still there.
func (d *decider) whyStillThere(p *snapshot.Pod, n *snapshot.Node) Blocker {
	b := Blocker{Reason: Leaving, Pod: p.Key(), Node: p.Node, Retry: p.Deletion, Since: p.Deletion.Add(-p.Grace), Remedy: "wait"}
	late := d.Now.Sub(p.Deletion)
	_, unread := d.Cluster.Gap("nodes")
	gone := n == nil && !unread
	switch {
	case gone && len(p.Finalizers) == 0:
		b.Reason, b.Message = NodeUnreachable, nodeGone
	case gone:
		b.Reason, b.Message, b.Remedy = HeldByFinalizers, "its node is gone; held by "+finalizersOf(p), pastFinalizers(p)
	case n != nil && !n.Ready:
		b.Reason, b.Message = NodeUnreachable, "its node does not answer: "+n.ReadyWhy
		b.Remedy = pastDeadNode(n)
	case len(p.Finalizers) > 0 && (late >= 0 || p.Finished()):
		b.Reason, b.Message, b.Remedy = HeldByFinalizers, "held by "+finalizersOf(p), pastFinalizers(p)
	case late > overdueAfter:
		b.Reason, b.Message = OverdueOnNode, fmt.Sprintf("its grace ended %s ago and the kubelet still has it", short(late))
		b.Remedy = fmt.Sprintf("look at the kubelet of %s", p.Node)
	case late >= 0:
		b.Message, b.Retry = "its grace is over, the kubelet is cleaning up", p.Deletion.Add(overdueAfter)
	default:
		b.Message = "ends by itself, at the latest in " + short(-late)
	}
	if b.Reason != Leaving {
		if late >= 0 {
			b.Since = p.Deletion
		}
		b.Retry, b.Dead = d.waitsFor(p, b.Since)
	}
	d.wake(b.Retry)
	return b
}

// waitsFor says until when a pod is waited for that does not end by itself, and whether that time is over: what holds it is
// up to other clients, and a drain has to end.
func (d *decider) waitsFor(p *snapshot.Pod, since time.Time) (time.Time, bool) {
	until, _ := d.patient(p.Node)
	if own := since.Add(patience); own.After(until) {
		until = own
	}
	return until, !d.Now.Before(until)
}

// count enters a pod that has not left yet into the sums of the decision.
func (d *decider) count(s PodStatus, t *target) {
	d.left++
	if t.status.State == NodeBlocked {
		if t.status.Blockers[0].Reason == NoPermission {
			d.forbidden++
		}
		return
	}
	deletes := d.passable(&s)
	t.deletes = t.deletes || deletes
	if deletes || !stuck(s.Blockers) {
		d.pending = true
		return
	}
	for i := range s.Blockers {
		if s.Blockers[i].Reason == NoPermission {
			d.forbidden++
			return
		}
	}
}

func (d *decider) show(s PodStatus) {
	if d.verbose {
		d.out.Pods = append(d.out.Pods, s)
	}
}
