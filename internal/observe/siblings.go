package observe

import (
	"hash/maphash"
	"maps"
	"reflect"

	"usher.sh/usher/internal/snapshot"
)

// siblings lets the pods of one owner share what their template gave them: facts of
// 150,000 pods would otherwise hold as many copies of the same labels and tolerations.
// The client that creates a pod writes its owner: a UID alone may be that of another namespace's. It may write another one at any
// time, so that of an owner whose pods are gone nothing is kept but a number. One goroutine uses it at a time.
type siblings struct{ first held[uint64] }

type parent struct {
	namespace string
	owner     snapshot.Owner
}

var parentSeed = maphash.MakeSeed()

// number finds a parent again, however long its names are. Two may have the same.
func (p parent) number() uint64 { return maphash.Comparable(parentSeed, p) }

// share returns p with what it has in common with the first pod of its owner.
func (s *siblings) share(p *snapshot.Pod) *snapshot.Pod {
	if p.Owner.UID == "" {
		return p
	}
	of := parent{p.Namespace, p.Owner}
	number := of.number()
	first := s.first.get(number)
	if first == nil || of != (parent{first.Namespace, first.Owner}) {
		s.first.put(number, p)
		return p
	}
	if first.UID == p.UID {
		defer s.first.put(number, p)
	}
	p.Namespace, p.Owner, p.PriorityClass = first.Namespace, first.Owner, shared(first.PriorityClass, p.PriorityClass)
	if maps.Equal(first.Labels, p.Labels) {
		p.Labels = first.Labels
	}
	if maps.Equal(first.NodeSelector, p.NodeSelector) {
		p.NodeSelector = first.NodeSelector
	}
	if reflect.DeepEqual(first.NodeAffinity, p.NodeAffinity) {
		p.NodeAffinity = first.NodeAffinity
	}
	if reflect.DeepEqual(first.Tolerations, p.Tolerations) {
		p.Tolerations = first.Tolerations
	}
	if reflect.DeepEqual(first.EmptyDirs, p.EmptyDirs) {
		p.EmptyDirs = first.EmptyDirs
	}
	if reflect.DeepEqual(first.Finalizers, p.Finalizers) {
		p.Finalizers = first.Finalizers
	}
	return p
}

// shared returns first where both say the same, so that only its bytes are kept.
func shared(first, own string) string {
	if first == own {
		return first
	}
	return own
}
