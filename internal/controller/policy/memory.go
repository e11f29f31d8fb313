package policy

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// absences remembers since when a policy is missing that labels still name. A process that was restarted begins anew.
type absences struct {
	mu    sync.Mutex
	since map[absence]time.Time
}

type absence struct{ namespace, label string }

func newAbsences() *absences { return &absences{since: map[absence]time.Time{}} }

// wait returns how long the pods of a missing policy stay labelled yet.
func (a *absences) wait(namespace, label string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := absence{namespace, label}
	if _, known := a.since[key]; !known {
		a.since[key] = now
	}
	return a.since[key].Add(replaceGrace).Sub(now)
}

// forget ends the absence of what is there, or names nobody any more.
func (a *absences) forget(namespace string, missing map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.since {
		if key.namespace == namespace && !missing[key.label] {
			delete(a.since, key)
		}
	}
}

// unneeded remembers since when finalizers of policies are not needed. A process that was restarted begins anew.
type unneeded struct {
	mu    sync.Mutex
	since map[client.ObjectKey]time.Time
}

func newUnneeded() *unneeded { return &unneeded{since: map[client.ObjectKey]time.Time{}} }

// wait returns how long the finalizer of a policy stays yet.
func (u *unneeded) wait(policy client.ObjectKey, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.since[policy]; !known {
		u.since[policy] = now
	}
	return u.since[policy].Add(releaseAfter).Sub(now)
}

// forget is for a policy whose finalizer is needed again, or off.
func (u *unneeded) forget(policy client.ObjectKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, policy)
}

// refusals remembers by namespace why labels could not be written, for the status of its policies.
type refusals struct {
	mu   sync.Mutex
	last map[string]string
}

func newRefusals() *refusals { return &refusals{last: map[string]string{}} }

func (r *refusals) note(namespace string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, namespace)
	if err != nil {
		r.last[namespace] = err.Error()
	}
}

func (r *refusals) of(namespace string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[namespace]
}

// judging is how often all members of a policy are judged at most: a storm of events says no more than its last one. rest is how
// many times as long as its last judgement took a policy then has to wait: rules that are expensive leave the processor to others.
const (
	judging = time.Second
	rest    = 10
)

// pace spaces the judgements of each policy.
type pace struct {
	mu   sync.Mutex
	last map[reconcile.Request]judged
}

type judged struct {
	at    time.Time
	pause time.Duration
}

func newPace() *pace { return &pace{last: map[reconcile.Request]judged{}} }

// wait returns how long the next judgement has to wait; 0 is taken for one that begins now. Whoever waits has to ask again.
func (p *pace) wait(policy reconcile.Request, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[policy]; ok && now.Sub(last.at) < last.pause {
		return last.pause - now.Sub(last.at)
	}
	p.last[policy] = judged{now, judging}
	return 0
}

// took notes how long the judgement took that began last.
func (p *pace) took(policy reconcile.Request, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[policy]; ok {
		last.pause = max(judging, rest*d)
		p.last[policy] = last
	}
}

func (p *pace) forget(policy reconcile.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, policy)
}
