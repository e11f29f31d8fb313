package policy

import (
	"maps"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// since remembers by key since when something is so. A process that was restarted begins anew.
type since[K comparable] struct {
	mu    sync.Mutex
	times map[K]time.Time
}

func newSince[K comparable]() *since[K] { return &since[K]{times: map[K]time.Time{}} }

// wait returns how much of a grace period is left of what is so now.
func (s *since[K]) wait(key K, grace time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.times[key]; !known {
		s.times[key] = now
	}
	return s.times[key].Add(grace).Sub(now)
}

// forget is for what is not so any more.
func (s *since[K]) forget(over func(K) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.times, func(key K, _ time.Time) bool { return over(key) })
}

// is compares with one key.
func is[K comparable](key K) func(K) bool { return func(other K) bool { return other == key } }

// missingPolicy is a policy that labels name and that is missing.
type missingPolicy struct{ namespace, label string }

// labelErrors remembers by namespace why labels could not be written, for the status of its policies.
type labelErrors struct {
	mu   sync.Mutex
	last map[string]string
}

func newLabelErrors() *labelErrors { return &labelErrors{last: map[string]string{}} }

func (r *labelErrors) note(namespace string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, namespace)
	if err != nil {
		r.last[namespace] = err.Error()
	}
}

func (r *labelErrors) of(namespace string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[namespace]
}

// judging is how often all members of a policy are judged at most: a storm of events says no more than its last one. restFactor is how
// many times as long as its last judgement took a policy then has to wait: rules that are expensive leave the processor to others.
const (
	judging    = time.Second
	restFactor = 10
)

// throttle spaces the judgements of each policy.
type throttle struct {
	mu   sync.Mutex
	last map[reconcile.Request]judged
}

type judged struct {
	at      time.Time
	pause   time.Duration
	wrote   time.Time // when what was judged was written last
	settled time.Time // when what became of members was written last
}

func newThrottle() *throttle { return &throttle{last: map[reconcile.Request]judged{}} }

// wait returns how long the next judgement has to wait; 0 is taken for one that begins now. A caller that waits has to ask again.
func (p *throttle) wait(policy reconcile.Request, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[policy]; ok && now.Sub(last.at) < last.pause {
		return last.pause - now.Sub(last.at)
	}
	p.last[policy] = judged{at: now, pause: judging, wrote: p.last[policy].wrote, settled: p.last[policy].settled}
	return 0
}

// took notes how long the judgement took that began last.
func (p *throttle) took(policy reconcile.Request, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[policy]; ok {
		last.pause = max(judging, restFactor*d)
		p.last[policy] = last
	}
}

// wrote notes that what was judged was written.
func (p *throttle) wrote(policy reconcile.Request, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[policy]; ok {
		last.wrote = at
		p.last[policy] = last
	}
}

// settles notes that what became of members was written.
func (p *throttle) settles(policy reconcile.Request, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.last[policy]
	last.settled = at
	p.last[policy] = last
}

// unsettled returns how long it is after that what is judged stays unwritten.
func (p *throttle) unsettled(policy reconcile.Request, often time.Duration, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.last[policy].settled.Add(often).Sub(now))
}

// unwritten returns how long what is judged is to stay unwritten, where it is written only so often.
func (p *throttle) unwritten(policy reconcile.Request, often time.Duration, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.last[policy].wrote.Add(often).Sub(now))
}

func (p *throttle) forget(policy reconcile.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, policy)
}
