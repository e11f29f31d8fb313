package observe

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// objectID names an object.
type objectID struct {
	resource resource
	id       string
}

// absence is what is known of an object that a feed shows no longer.
type absence struct {
	version string    // at which it was last seen to be there, or to go
	gone    bool      // no object of this id comes back; else only other labels may be the reason
	at      time.Time // when that was seen
}

// absentFor is how long it is remembered that an object is gone. No watch is behind by as much: one that is broken reads anew.
const absentFor = time.Hour

// absences are of objects of which other feeds of the same resource may still show former states: what is behind does not bring
// them back. The observer's lock guards it.
type absences struct {
	known map[objectID]absence
	order []entry
}

// entry is when something was entered. What is entered again is forgotten by its last entry.
type entry struct {
	of objectID
	at time.Time
}

// enter notes that an object is not shown any more. What is gone stays gone.
func (a *absences) enter(of objectID, fresh absence) {
	for len(a.order) > 0 && fresh.at.Sub(a.order[0].at) > absentFor {
		if first := a.order[0]; a.known[first.of].at.Equal(first.at) {
			delete(a.known, first.of)
		}
		a.order = a.order[1:]
	}
	fresh.gone = fresh.gone || a.known[of].gone
	a.known[of] = fresh
	a.order = append(a.order, entry{of, fresh.at})
}

// holds reports whether a state of an object is one from before it went.
func (a *absences) holds(of objectID, version string) bool {
	former, entered := a.known[of]
	return entered && (former.gone || older(version, former.version))
}

// older reports whether one resource version is before another one, false where they cannot be compared.
func older(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}
