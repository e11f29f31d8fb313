package snapshot

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// podSet is a set of pods that sorts itself when it is read after a change.
type podSet struct {
	byUID  map[types.UID]*Pod
	sorted []*Pod // nil after a change
}

func put[K comparable](index map[K]*podSet, key K, p *Pod) {
	set := index[key]
	if set == nil {
		set = &podSet{byUID: map[types.UID]*Pod{}}
		index[key] = set
	}
	set.byUID[p.UID] = p
	set.sorted = nil
}

// mostCopied is up to how many sorted pods are copied rather than sorted again.
const mostCopied = 64

// replace puts a pod in the place of its former state, which keeps the order. Readers
// may hold the sorted slice, so it is copied.
func (s *podSet) replace(p *Pod) {
	s.byUID[p.UID] = p
	if len(s.sorted) > mostCopied {
		s.sorted = nil
	}
	if s.sorted == nil {
		return
	}
	at, found := slices.BinarySearchFunc(s.sorted, p, ComparePods)
	if !found {
		s.sorted = nil
		return
	}
	s.sorted = slices.Clone(s.sorted)
	s.sorted[at] = p
}

func drop[K comparable](index map[K]*podSet, key K, uid types.UID) {
	set := index[key]
	if set == nil {
		return
	}
	delete(set.byUID, uid)
	set.sorted = nil
	if len(set.byUID) == 0 {
		delete(index, key)
	}
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
