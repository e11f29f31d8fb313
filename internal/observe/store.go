package observe

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"usher.sh/usher/internal/snapshot"
)

// store is what a reflector fills. It keeps facts only: an object is turned into
// facts as it leaves the decoder and is then garbage.
type store[O runtime.Object, T any] struct {
	observer *Observer
	feed     *feed
	kind     kind[O, T]
	known    map[string]*T // by id
}

// Transformer lets the reflector hold facts, not objects, while it collects the
// first ones.
func (s *store[O, T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.kind.convert(object) }
}

// Add takes an object in.
func (s *store[O, T]) Add(object any) error {
	fact, err := s.kind.convert(object)
	if err != nil {
		return err
	}
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	if s.feed.retired {
		return nil
	}
	old := s.known[s.kind.id(fact)]
	if s.set(fact) && (old == nil || s.kind.quiet == nil || !s.kind.quiet(old, fact)) {
		s.observer.signal()
	}
	return nil
}

// Update takes a changed object in.
func (s *store[O, T]) Update(object any) error { return s.Add(object) }

// Delete takes an object out.
func (s *store[O, T]) Delete(object any) error {
	fact, err := s.kind.convert(object)
	if err != nil {
		return err
	}
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	if s.feed.retired {
		return nil
	}
	s.drop(fact)
	s.observer.signal()
	return nil
}

// Replace takes all objects in and those out that are not among them.
func (s *store[O, T]) Replace(objects []any, _ string) error {
	fresh := make(map[string]*T, len(objects))
	for _, object := range objects {
		fact, err := s.kind.convert(object)
		if err != nil {
			return err
		}
		fresh[s.kind.id(fact)] = fact
	}
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	if s.feed.retired {
		return nil
	}
	s.swap(fresh)
	s.feed.synced, s.feed.err = true, nil
	s.observer.retire(s.feed.question)
	s.observer.closeGap(s.feed.question.resource)
	s.observer.signal()
	s.observer.step()
	return nil
}

// swap drops before it sets: a name that now belongs to another object must stay.
func (s *store[O, T]) swap(fresh map[string]*T) {
	for id, old := range s.known {
		if _, ok := fresh[id]; !ok {
			s.drop(old)
		}
	}
	s.known = make(map[string]*T, len(fresh))
	for _, fact := range fresh {
		s.set(fact)
	}
}

// set reports whether the fact is news: no other feed has shown a newer state of the object, or its end.
func (s *store[O, T]) set(fact *T) bool {
	id := s.kind.id(fact)
	s.known[id] = fact
	if s.observer.over[ended{s.feed.question.resource, id}] || s.kind.older(s.observer.cluster, fact) {
		return false
	}
	s.kind.set(s.observer.cluster, fact)
	if s.kind.seen != nil {
		s.kind.seen(fact)
	}
	return true
}

// drop takes an object out that the feed shows no longer. By a label selector it may only have other labels: it stays while another feed
// shows it. Otherwise it is gone, and no feed that is behind brings it back.
func (s *store[O, T]) drop(fact *T) {
	id := s.kind.id(fact)
	delete(s.known, id)
	q := s.feed.question
	switch {
	case q.labels != "" && s.observer.shown(q.resource, id):
		return
	case q.labels == "" && s.kind.named != nil && len(s.observer.feedsOf(q.resource)) > 1:
		s.observer.over[ended{q.resource, id}] = true
	}
	if !s.kind.replaced(s.observer.cluster, fact) {
		s.kind.drop(s.observer.cluster, fact)
	}
}

// shows reports whether the feed shows the object.
func (s *store[O, T]) shows(id string) bool { return s.known[id] != nil }

// leave takes out what no other feed shows: this one has been retired.
func (s *store[O, T]) leave() {
	for id, fact := range s.known {
		if !s.observer.shown(s.feed.question.resource, id) && !s.kind.replaced(s.observer.cluster, fact) {
			s.kind.drop(s.observer.cluster, fact)
		}
	}
	s.known = nil
}

// Resync does nothing: nothing is resynced.
func (s *store[O, T]) Resync() error { return nil }

var _ cache.TransformingStore = (*store[runtime.Object, snapshot.Pod])(nil)
