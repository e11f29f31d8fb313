// Package share answers: may a namespace have one more of something now? What serves all namespaces, such as workers, calls to systems
// and verdicts, is handed out so many at a time to each, so that one tenant's hanging system or expensive policy leaves the others
// theirs.
package share

import (
	"context"
	"fmt"
	"sync"
)

// Shares hands out so many at a time to each namespace. It may be used by several goroutines at once.
type Shares struct {
	most int

	mu    sync.Mutex
	slots map[string]*slots
}

// slots are those of one namespace, with how many have one or wait for one.
type slots struct {
	taken chan struct{}
	users int
}

// New returns Shares of which each namespace may have most at a time, at least 1.
func New(most int) *Shares { return &Shares{most: max(most, 1), slots: map[string]*slots{}} }

// Try takes one if one is free. It is given back by release.
func (s *Shares) Try(namespace string) (release func(), ok bool) {
	of := s.of(namespace)
	select {
	case of.taken <- struct{}{}:
		return func() { <-of.taken; s.leave(namespace, of) }, true
	default:
		s.leave(namespace, of)
		return nil, false
	}
}

// Take waits for one until ctx ends. It is given back by release.
func (s *Shares) Take(ctx context.Context, namespace string) (release func(), err error) {
	of := s.of(namespace)
	select {
	case of.taken <- struct{}{}:
		return func() { <-of.taken; s.leave(namespace, of) }, nil
	case <-ctx.Done():
		s.leave(namespace, of)
		return nil, fmt.Errorf("namespace %s has %d under way already, as many as it may: %w", namespace, s.most, ctx.Err())
	}
}

func (s *Shares) of(namespace string) *slots {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.slots[namespace]
	if of == nil {
		of = &slots{taken: make(chan struct{}, s.most)}
		s.slots[namespace] = of
	}
	of.users++
	return of
}

func (s *Shares) leave(namespace string, of *slots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.users--; of.users == 0 {
		delete(s.slots, namespace)
	}
}
