package observe

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"usher.sh/usher/internal/snapshot"
)

// store is what the reflector of a feed fills. It keeps facts only: an object is turned into
// facts as it leaves the decoder and is then garbage. What several feeds show of one object is merged in the cluster: the newest state
// counts, and what is gone stays gone.
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
	if s.feed.ended {
		return nil
	}
	if s.set(fact) {
		s.observer.finish(s.feed.question.resource)
		s.observer.signal()
	} else {
		s.observer.endCovered(s.feed.question.resource)
		s.observer.flush()
	}
	return nil
}

// Update takes a changed object in.
func (s *store[O, T]) Update(object any) error { return s.Add(object) }

// Delete takes an object out.
func (s *store[O, T]) Delete(object any) error {
	fact, err := s.kind.last(object)
	if err != nil {
		return err
	}
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	if s.feed.ended {
		return nil
	}
	s.drop(fact)
	s.observer.finish(s.feed.question.resource)
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
	if s.feed.ended {
		return nil
	}
	s.swap(fresh)
	s.observer.sync(s.feed)
	s.observer.finish(s.feed.question.resource)
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

// set reports whether the fact is news to decisions.
func (s *store[O, T]) set(fact *T) (news bool) {
	id := s.kind.id(fact)
	s.known[id] = fact
	present := s.present(fact)
	if present != nil && older(s.kind.version(fact), s.kind.version(present)) {
		return false
	}
	if s.kind.present != nil && s.observer.absences.holds(objectID{s.feed.question.resource, id}, s.kind.version(fact)) {
		return false
	}
	s.kind.set(s.observer.cluster, fact)
	if s.kind.seen != nil {
		s.kind.seen(fact)
	}
	return present == nil || s.kind.quiet == nil || s.kind.id(present) != id || !s.kind.quiet(present, fact)
}

// present is what the cluster has of the fact's name, nil where it has none.
func (s *store[O, T]) present(fact *T) *T {
	if s.kind.present == nil {
		return nil
	}
	return s.kind.present(s.observer.cluster, fact)
}

// drop takes an object out that the feed shows no longer. By a label selector it may only have other labels: it stays while another feed
// shows it.
func (s *store[O, T]) drop(fact *T) {
	id, q := s.kind.id(fact), s.feed.question
	delete(s.known, id)
	if s.kind.present == nil {
		s.kind.drop(s.observer.cluster, fact)
		return
	}
	if others := s.observer.feedsOf(q.resource); len(others) > 1 {
		if q.labels != "" && shown(others, id) {
			return
		}
		s.observer.absences.enter(objectID{q.resource, id}, absence{version: s.kind.version(fact), gone: q.labels == "", at: s.observer.now()})
	}
	if present := s.present(fact); present != nil && s.kind.id(present) == id {
		s.kind.drop(s.observer.cluster, fact)
	}
}

// shown reports whether one of the feeds shows an object.
func shown(feeds []*feed, id string) bool {
	for _, f := range feeds {
		if f.shows(id) {
			return true
		}
	}
	return false
}

// shows reports whether the feed shows the object.
func (s *store[O, T]) shows(id string) bool { return s.known[id] != nil }

// within reports whether another feed shows all objects that this one shows.
func (s *store[O, T]) within(other *feed) bool {
	for id := range s.known {
		if !other.shows(id) {
			return false
		}
	}
	return true
}

// Resync does nothing: nothing is resynced.
func (s *store[O, T]) Resync() error { return nil }

var _ cache.TransformingStore = (*store[runtime.Object, snapshot.Pod])(nil)
