package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/snapshot"
)

// responderRetry is how long a responder waits after a refusal.
const responderRetry = 5 * time.Second

// ask makes a drain's EvictionRequest. The responder of the simulated cluster evicts the pod
// under its budgets once it has made it safe.
func (s *Sim) ask(a drain.Action) answers.Answer {
	p := s.truth.PodNamed(a.Pod.Key())
	if p == nil || p.UID != a.Pod.UID {
		return gone()
	}
	requester := snapshot.RequesterOf(a.Drain)
	if s.truth.RequestBy(requester, p) != nil {
		return answers.Answer{Code: answers.Accepted}
	}
	name := p.Name + "-" + a.Drain
	s.setRequest(&snapshot.Request{
		Namespace: p.Namespace, Name: name, UID: types.UID("request-" + s.version()), PodUID: p.UID, Requester: requester, Created: s.now,
	})
	if s.truth.EvictionOf(p) == nil { // there is one of a pod, whoever asks for it
		s.setEviction(&snapshot.Eviction{
			Namespace: p.Namespace, Name: "pod-" + p.Name, UID: types.UID("eviction-" + s.version()), PodUID: p.UID,
			Created: s.now, Since: s.now, Responder: "responder", Message: "making it safe to leave",
		})
	}
	s.after(s.takes(s.cfg.Respond, p), func() { s.respond(p) })
	if s.cfg.Expire && s.loads(p) {
		key := snapshot.Key{Namespace: p.Namespace, Name: name}
		s.after(snapshot.LiveFor, func() { s.expire(key) })
	}
	return answers.Answer{Code: answers.Accepted}
}

// respond evicts the pod if a request for it still stands, and tries again while budgets hold it.
func (s *Sim) respond(p *snapshot.Pod) {
	if now := s.truth.Pod(p.UID); now == nil || now.Terminating() || !s.wantedGone(p) {
		return
	}
	s.oracle.responded(s, p)
	if s.awaitsRole(p) {
		s.after(responderRetry, func() { s.respond(p) })
		return
	}
	if s.loads(p) {
		s.empty(p)
		return
	}
	if s.evict(drain.Action{Kind: drain.Evict, Pod: p}).Code != answers.Accepted {
		s.after(responderRetry, func() { s.respond(p) })
	}
}

func (s *Sim) wantedGone(p *snapshot.Pod) bool {
	for _, r := range s.truth.Requests() {
		if r.PodUID == p.UID && !r.Withdrawn {
			return true
		}
	}
	return false
}

func (s *Sim) withdraw(a drain.Action) answers.Answer {
	for _, r := range s.truth.Requests() {
		if r.UID == a.Request.UID {
			s.deleteRequest(r)
			return answers.Answer{Code: answers.Accepted}
		}
	}
	return gone()
}

func (s *Sim) setRequest(r *snapshot.Request) {
	s.truth.SetRequest(r)
	s.tellRequests(func(c *snapshot.Cluster) { c.SetRequest(r) })
}

func (s *Sim) deleteRequest(r *snapshot.Request) {
	s.truth.DeleteRequest(r.Key())
	s.tellRequests(func(c *snapshot.Cluster) { c.DeleteRequest(r.Key()) })
	s.fill(r.PodUID)
}

func (s *Sim) setEviction(e *snapshot.Eviction) {
	s.truth.SetEviction(e)
	s.tellRequests(func(c *snapshot.Cluster) { c.SetEviction(e) })
}

func (s *Sim) tellRequests(show func(*snapshot.Cluster)) {
	if !s.watch.direct {
		s.watch.send(requestChannel, s.now, show)
	}
}
