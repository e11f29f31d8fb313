package snapshot

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// podSet is a set of pods that sorts itself when it is read after a change. Once
// sorted, a small set stays so. Readers may hold the sorted slice: it is never changed,
// only replaced.
type podSet struct {
	byUID  map[types.UID]*Pod
	sorted []*Pod // nil while it is not known
}

// mostCopied is up to how many sorted pods are copied rather than sorted again.
const mostCopied = 64

func put[K comparable](index map[K]*podSet, key K, p *Pod) {
	set := index[key]
	if set == nil {
		set = &podSet{byUID: map[types.UID]*Pod{}}
		index[key] = set
	}
	set.byUID[p.UID] = p
	if at, found, ok := set.place(p); ok && !found {
		set.sorted = slices.Insert(slices.Clip(set.sorted), at, p)
	} else {
		set.sorted = nil
	}
}

// replace puts a pod in the place of its former state, which keeps the order.
func (s *podSet) replace(p *Pod) {
	s.byUID[p.UID] = p
	if at, found, ok := s.place(p); ok && found {
		s.sorted = slices.Clone(s.sorted)
		s.sorted[at] = p
	} else {
		s.sorted = nil
	}
}

func drop[K comparable](index map[K]*podSet, key K, p *Pod) {
	set := index[key]
	if set == nil {
		return
	}
	delete(set.byUID, p.UID)
	if len(set.byUID) == 0 {
		delete(index, key)
		return
	}
	if at, found, ok := set.place(p); ok && found {
		set.sorted = slices.Concat(set.sorted[:at], set.sorted[at+1:])
	} else {
		set.sorted = nil
	}
}

// place finds a pod among the sorted ones; ok is false where sorting anew is better.
func (s *podSet) place(p *Pod) (at int, found, ok bool) {
	if s.sorted == nil || len(s.sorted) > mostCopied {
		return 0, false, false
	}
	at, found = slices.BinarySearchFunc(s.sorted, p, ComparePods)
	return at, found, true
}

func (s *podSet) list() []*Pod {
	if s == nil {
		return nil
	}
	if s.sorted == nil {
		s.sorted = make([]*Pod, 0, len(s.byUID))
		for _, p := range s.byUID {
			s.sorted = append(s.sorted, p)
		}
		slices.SortFunc(s.sorted, ComparePods)
	}
	return s.sorted
}
