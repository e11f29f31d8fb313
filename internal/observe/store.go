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
	old := s.known[s.kind.id(fact)]
	s.set(fact)
	if old == nil || s.kind.quiet == nil || !s.kind.quiet(old, fact) {
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
	delete(s.known, s.kind.id(fact))
	s.kind.drop(s.observer.cluster, fact)
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
	s.swap(fresh)
	s.feed.synced, s.feed.err = true, nil
	s.observer.cluster.DeleteGap(s.feed.resource.name)
	s.observer.signal()
	s.observer.step()
	return nil
}

// swap drops before it sets: a name that now belongs to another object must stay.
func (s *store[O, T]) swap(fresh map[string]*T) {
	for id, old := range s.known {
		if _, ok := fresh[id]; !ok {
			s.kind.drop(s.observer.cluster, old)
		}
	}
	s.known = make(map[string]*T, len(fresh))
	for _, fact := range fresh {
		s.set(fact)
	}
}

func (s *store[O, T]) set(fact *T) {
	s.known[s.kind.id(fact)] = fact
	s.kind.set(s.observer.cluster, fact)
	if s.kind.seen != nil {
		s.kind.seen(fact)
	}
}

// Resync does nothing: nothing is resynced.
func (s *store[O, T]) Resync() error { return nil }

var _ cache.TransformingStore = (*store[runtime.Object, snapshot.Pod])(nil)
