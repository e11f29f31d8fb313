package drain

import (
	"fmt"
	"strings"
	"time"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/snapshot"
)

// requests is the resource whose gap says that no eviction can be requested.
const requests = "evictionrequests"

// mayAsk reports whether the pod is governed and leaves by an EvictionRequest. Where the
// cluster has no such objects, where the drain may not make them, or where its request came
// to nothing, the eviction API is left, and Usher's admission decides there. A pod that stays is never evicted.
func (d *decider) mayAsk(p *snapshot.Pod) bool {
	if d.loads(p) {
		return true
	}
	if p.Policy() == "" || d.req.DisableEviction {
		return false
	}
	if gap, unknown := d.Cluster.Gap(requests); unknown && gap.Final {
		return false
	}
	if own := d.requestFor(p); own != nil {
		return own.Failed == ""
	}
	_, t := d.standing(Ask, p.UID, "")
	return t == nil || !final(t.answer.Code)
}

func (d *decider) requestFor(p *snapshot.Pod) *snapshot.Request {
	return d.Cluster.RequestBy(snapshot.RequesterOf(d.req.Self.ID), p)
}

// judgeGoverned asks for the pod's eviction, and says what the responder that makes it safe reports.
func (d *decider) judgeGoverned(s PodStatus) PodStatus {
	p := s.Pod
	own := d.requestFor(p)
	switch gap, unknown := d.Cluster.Gap(requests); {
	case unknown && gap.Final:
		s.Blockers = append(s.Blockers, cannotBeEmptied(p, gap.Reason))
	case unknown:
		s.Blockers = append(s.Blockers, Blocker{
			Reason: EvidenceUnavailable, Pod: p.Key(), Node: p.Node,
			Message: "whether its eviction was asked for is not known: " + gap.Reason, Remedy: "wait",
		})
	case own != nil && own.Deleted && d.askedInVain(p):
		s.Blockers = append(s.Blockers, requestStays(p, own))
		d.limitAsked(&s, own)
	case (own == nil || own.Deleted) && len(s.Blockers) == 0: // one that is being deleted may have a finalizer, and says nothing
		s.Blockers = d.ask(p)
		if len(s.Blockers) == 0 {
			s.State = Evicting
		}
	case own != nil && own.Failed != "" && d.loads(p):
		s.Blockers = append(s.Blockers, requestFailed(p, own))
	case own != nil && own.Withdrawn:
		s.Blockers = append(s.Blockers, d.clearAway(p, own))
	case own != nil:
		s.Blockers = append(s.Blockers, d.responderSays(p))
		d.limitAsked(&s, own)
	}
	return s
}

// limitAsked ends the hold of a governed pod, which its responder evicts under its budgets.
func (d *decider) limitAsked(s *PodStatus, own *snapshot.Request) {
	if !d.limited(s.Pod) {
		return
	}
	ref, found := d.budgetsAllow(s.Pod)
	s.Blockers = append(s.Blockers, found...)
	d.limitHold(s, ref, own.Created)
}

// askedInVain reports whether a request was made, and none is seen that stands: one of the same name that is being deleted is in its way.
// After patience it is made anew: there may have been another reason.
func (d *decider) askedInVain(p *snapshot.Pod) bool {
	t := d.led.tries[tryKey{Ask, p.UID}]
	if t == nil || t.done.IsZero() || t.answer.Code != answers.Accepted {
		return false
	}
	again := t.done.Add(patience)
	d.wake(again)
	return !d.Now.Before(t.done.Add(unseenFor)) && d.Now.Before(again)
}

func requestStays(p *snapshot.Pod, own *snapshot.Request) Blocker {
	return Blocker{
		Reason: AskedFor, Pod: p.Key(), Node: p.Node,
		Message: fmt.Sprintf("request %s for its eviction is being deleted, and a finalizer keeps it, so that none can be made", own.Name),
		Remedy:  fmt.Sprintf(`kubectl patch evictionrequest -n %s %s --type=merge -p '{"metadata":{"finalizers":null}}'`, own.Namespace, own.Name),
	}
}

// clearAway deletes a request of this drain that was withdrawn, as the manager does with
// those of drains that show no sign of life, so that it can be made anew.
func (d *decider) clearAway(p *snapshot.Pod, own *snapshot.Request) Blocker {
	b := Blocker{
		Reason: AskedFor, Pod: p.Key(), Node: p.Node, Remedy: "wait",
		Message: "the request for its eviction was withdrawn, and is made anew",
	}
	if !d.try(Action{Kind: Withdraw, Request: own, Why: "it was withdrawn while the drain goes on"}) {
		_, t := d.standing(Withdraw, own.UID, "")
		b.Reason, b.Dead = refusalReason[t.answer.Code], true
		b.Message = "the request for its eviction was withdrawn and cannot be made anew: " + t.answer.Message
		b.Remedy = fmt.Sprintf("kubectl delete evictionrequest -n %s %s", own.Namespace, own.Name)
	}
	return b
}

// ask makes the request, or returns what the server said to the last attempt.
func (d *decider) ask(p *snapshot.Pod) []Blocker {
	d.try(Action{Kind: Ask, Pod: p, Drain: d.req.Self.ID, Why: "policy " + p.Policy() + " governs it"})
	at, t := d.standing(Ask, p.UID, "")
	refused := t != nil && !t.done.IsZero() && final(t.answer.Code)
	if at != held && !refused {
		return nil
	}
	return []Blocker{{
		Reason: refusalReason[t.answer.Code], Pod: p.Key(), Node: p.Node, Retry: t.retryAt, Dead: refused,
		Message: "asking for its eviction: " + t.answer.Message, Remedy: refusalRemedy(t, p.Namespace),
	}}
}

// TakenUpWithin is how long a request may stand before the drain says that no responder works on it.
const TakenUpWithin = 10 * time.Second

// responderSays returns the message of the responder that works on the pod's eviction.
func (d *decider) responderSays(p *snapshot.Pod) Blocker {
	b := Blocker{Reason: AskedFor, Pod: p.Key(), Node: p.Node, Remedy: "wait", Message: "its eviction was asked for"}
	e := d.Cluster.EvictionOf(p)
	switch {
	case e == nil || e.Responder == "":
		t := d.led.tries[tryKey{Ask, p.UID}]
		if t != nil && d.Now.Sub(t.sent) > TakenUpWithin {
			b.Message += ", and no responder has taken it up"
			b.Remedy = "see whether usher's manager runs: kubectl get pods -A -l app.kubernetes.io/name=usher"
		} else if t != nil {
			d.wake(t.sent.Add(TakenUpWithin + time.Second))
		}
	case e.Message == "":
		b.Since, b.Message = e.Since, "its eviction was asked for; "+e.Responder+" works on it"
	default:
		b.Reason, b.Since, b.Message = SystemDecides, e.Since, e.Message
		b.Dead = neverSays(e)
		b.Remedy = "wait, or look closer: usher why pod/" + p.Name + " -n " + p.Namespace
	}
	return b
}

// neverSays reports whether the pod's system never lets it go.
func neverSays(e *snapshot.Eviction) bool { return strings.HasPrefix(e.Message, v1alpha1.NeverPrefix) }

// withdraw takes back the requests of the drains that owns accepts. Those of pods that are
// gone are only in the way. One that is being deleted asks for nothing: a tenant's finalizer keeps no drain waiting.
func (d *decider) withdraw(owns func(snapshot.Drainer) bool, failed []string) []string {
	for _, r := range d.Cluster.Requests() {
		if who, drains := r.Drainer(); r.Deleted || !drains || !owns(who) || d.outlives(r, who) || !d.undoable(Withdraw, r.UID) {
			continue
		}
		if _, t := d.standing(Withdraw, r.UID, ""); t != nil && t.answer.Code == answers.Accepted && !d.Now.Before(t.done.Add(unseenFor)) {
			failed = append(failed, "the request "+r.Namespace+"/"+r.Name+" was deleted, and is still seen as it was")
			continue
		}
		failed = d.undoOr(failed, Action{Kind: Withdraw, Request: r, Why: "the drain has ended"}, "the request "+r.Namespace+"/"+r.Name+" still asks for its pod's eviction", revert)
	}
	return failed
}

// awaitRequest waits until a request is seen that was, or may have been, made. One that was
// seen is waited for no more: it may have been taken back since.
func (d *decider) awaitRequest(t *try) {
	p := t.action.Pod
	until := t.done.Add(unseenFor)
	if t.done.IsZero() || !perhapsDone(t.answer.Code) || !d.Now.Before(until) || t.seen || d.Cluster.Pod(p.UID) == nil {
		return
	}
	d.pending = true
	d.wake(until)
}
