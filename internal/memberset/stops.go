package memberset

import (
	"maps"
	"slices"

	"usher.sh/usher/api/v1alpha1"
)

// Stops are the members that the annotations of a set keep from starting, read once for all of them. An annotation counts before the pods that it is about are made
// anew, for members that have no pod, and whatever containers their template has.
type Stops struct {
	keys    []string // of the annotations, sorted
	targets map[string]targets
}

// StopsOf reads them.
func StopsOf(set *v1alpha1.MemberSet) Stops {
	s := Stops{targets: map[string]targets{}}
	for container, named := range crashingOf(set) {
		s.targets[v1alpha1.CrashLoopPrefix+container] = named
	}
	s.targets[v1alpha1.EmptyConfigurationAnnotation] = targetsOf(set.Annotations[v1alpha1.EmptyConfigurationAnnotation])
	s.keys = slices.Sorted(maps.Keys(s.targets))
	return s
}

// Of is the first annotation that names a member, or all; "": none does.
func (s *Stops) Of(id string) string {
	at := slices.IndexFunc(s.keys, func(key string) bool { return s.targets[key].has(id) })
	if at < 0 {
		return ""
	}
	return s.keys[at]
}
