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
	at, found := slices.BinarySearchFunc(set.kept(), p, ComparePods)
	if found {
		set.sorted = nil
	}
	if set.sorted != nil {
		set.sorted = slices.Insert(slices.Clip(set.sorted), at, p)
	}
}

// replace puts a pod in the place of its former state, which keeps the order.
func (s *podSet) replace(old, p *Pod) {
	s.byUID[p.UID] = p
	if at := slices.Index(s.kept(), old); at >= 0 {
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
	if at := slices.Index(set.kept(), p); at >= 0 {
		set.sorted = slices.Concat(set.sorted[:at], set.sorted[at+1:])
	} else {
		set.sorted = nil
	}
}

// kept returns the sorted pods if it is worth keeping them sorted, else nil.
func (s *podSet) kept() []*Pod {
	if len(s.sorted) > mostCopied {
		s.sorted = nil
	}
	return s.sorted
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
