package observe

import (
	"testing"
	"time"
)

// What is gone does not come back by a watch that is behind; what has lost its labels does in a later state. Both are forgotten after an hour,
// so that they take no more room than an hour's worth.
func TestAbsences(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a := absences{known: map[objectID]absence{}}
	gone, relabelled := objectID{pods, "gone"}, objectID{pods, "relabelled"}
	a.enter(gone, absence{version: "5", gone: true, at: noon})
	a.enter(relabelled, absence{version: "5", at: noon})
	for _, tt := range []struct {
		of      objectID
		version string
		want    bool
	}{
		{gone, "4", true},
		{gone, "6", true},
		{relabelled, "4", true},
		{relabelled, "5", false},
		{relabelled, "6", false},
		{objectID{pods, "other"}, "4", false},
		{objectID{nodes, "gone"}, "4", false},
		{relabelled, "x", false},
	} {
		if got := a.holds(tt.of, tt.version); got != tt.want {
			t.Errorf("%v at version %s: held %t", tt.of, tt.version, got)
		}
	}
	a.enter(gone, absence{version: "9", at: noon.Add(30 * time.Minute)}) // by its labels, of a watch that was behind
	a.enter(objectID{pods, "later"}, absence{version: "9", gone: true, at: noon.Add(absentFor + time.Second)})
	if !a.holds(gone, "10") || a.holds(relabelled, "4") {
		t.Errorf("after an hour: %v", a.known)
	}
	a.enter(objectID{pods, "last"}, absence{version: "9", gone: true, at: noon.Add(3 * absentFor)})
	if len(a.known) != 1 || len(a.order) != 1 {
		t.Errorf("after three hours %d are known, %d in order", len(a.known), len(a.order))
	}
}
