package replacement

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// world is a policy's members as they are, and what was seen of them: an account of its own, by which the decisions are judged.
type world struct {
	t       *rapid.T
	now     time.Time
	terms   Terms
	members []Member
	in      Input
	unwell  map[string]time.Time // by member: since when no look has found it without a fault, taints aside
	tainted map[string]time.Time // by member: when a counting taint had been seen for long enough, the first time
	seen    map[string]time.Time // by member: since when every look has seen the taint
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: noon, unwell: map[string]time.Time{}, tainted: map[string]time.Time{}, seen: map[string]time.Time{}}
	w.terms = automatic(watching(TaintRule{Key: "x", After: time.Hour}), func(terms *Terms) {
		terms.MaxMembers = rapid.IntRange(0, 3).Draw(t, "members")
		terms.MaxZones = rapid.IntRange(0, 2).Draw(t, "zones")
		terms.Automatic = rapid.IntRange(0, 9).Draw(t, "automatic") > 0
		terms.StopAbove = rapid.SampledFrom([]intstr.IntOrString{intstr.FromString("10%"), intstr.FromInt32(2), intstr.FromString("100%")}).Draw(t, "above")
	})
	for i := range rapid.IntRange(1, 6).Draw(t, "count") {
		w.members = append(w.members, member(fmt.Sprintf("m%d", i), inZone(rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "zone"))))
	}
	w.in.Available = Yes
	return w
}

var answers = rapid.SampledFrom([]Answer{Yes, Yes, No, Unknown})

// change has something happen to one member, or to all.
func (w *world) change() {
	m := &w.members[rapid.IntRange(0, len(w.members)-1).Draw(w.t, "member")]
	switch rapid.IntRange(0, 11).Draw(w.t, "what") {
	case 0:
		m.Facts.Reported = answers.Draw(w.t, "reported")
	case 1:
		m.Facts.Excluded = answers.Draw(w.t, "excluded")
	case 2:
		m.Facts.HasPod = answers.Draw(w.t, "pod")
	case 3:
		m.Facts.Pod = Pod{Pending: rapid.Bool().Draw(w.t, "pending"), Healthy: rapid.Bool().Draw(w.t, "healthy")}
	case 4:
		m.Facts.Claims = answers.Draw(w.t, "claims")
	case 5:
		m.Facts.Taints = nil
		if rapid.Bool().Draw(w.t, "tainted") {
			m.Facts.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}
	case 6:
		m.Facts.NodeKnown = rapid.Bool().Draw(w.t, "node known")
	case 7:
		w.replaced(m)
	case 8:
		m.Paused = rapid.SampledFrom([]string{"", "", "maintenance"}).Draw(w.t, "paused")
	case 9:
		w.in.Suspended = rapid.IntRange(0, 3).Draw(w.t, "suspended") == 0
		w.in.Available = answers.Draw(w.t, "available")
	case 10:
		if m.Marked {
			m.Marked, m.CancelTime = false, w.now
			w.unwell[m.ID] = w.now
			delete(w.tainted, m.ID)
			delete(w.seen, m.ID)
		}
	case 11:
		m.Facts = member(m.ID).Facts
	}
}

// replaced puts a successor in the place of a member that was marked.
func (w *world) replaced(m *Member) {
	if !m.Marked {
		return
	}
	delete(w.unwell, m.ID)
	delete(w.tainted, m.ID)
	delete(w.seen, m.ID)
	*m = member(m.ID+"'", inZone(m.Zone))
}

// faultless reports whether a look at the member finds nothing wrong, taints aside, and misses nothing.
func faultless(m *Member) bool {
	f := &m.Facts
	return f.Reported == Yes && f.Excluded == No && f.HasPod == Yes && f.Pod.Healthy && !f.Pod.Pending && f.Claims == Yes
}

// faulty reports whether a look at the member finds something wrong, taints aside.
func faulty(m *Member) bool {
	f := &m.Facts
	excluded := f.Reported == Yes && f.Excluded == Yes
	return f.Reported == No || excluded || f.HasPod == No || f.HasPod == Yes && (f.Pod.Pending || !f.Pod.Healthy) || f.Claims == No
}

// look decides and checks the decision.
func (w *world) look() Decision {
	w.account()
	w.in.Now, w.in.Terms, w.in.Members = w.now, w.terms, w.members
	before, zones := w.inFlight()
	d := Decide(w.in)
	if len(d.Records) != len(w.members) {
		w.t.Fatalf("%d records of %d members", len(d.Records), len(w.members))
	}
	for i := range w.members {
		w.members[i].Record = d.Records[i]
	}
	for i := range d.Mark {
		w.mark(&d.Mark[i])
	}
	after, zonesAfter := w.inFlight()
	switch {
	case len(d.Mark) == 0:
	case w.terms.MaxMembers > 0 && after > w.terms.MaxMembers:
		w.t.Fatalf("%d members in flight after %d, at most %d may be", after, before, w.terms.MaxMembers)
	case w.terms.MaxMembers == 0 && len(zonesAfter) > w.terms.MaxZones:
		w.t.Fatalf("zones %v in flight after %v, at most %d may be", zonesAfter, zones, w.terms.MaxZones)
	}
	if !d.NextLook.IsZero() && !d.NextLook.After(w.now) {
		w.t.Fatalf("the next look is at %s, and it is %s", d.NextLook, w.now)
	}
	return d
}

// account notes what a look at this moment sees.
func (w *world) account() {
	for i := range w.members {
		m := &w.members[i]
		if m.Paused != "" {
			continue
		}
		_, unwell := w.unwell[m.ID]
		switch {
		case faultless(m):
			delete(w.unwell, m.ID)
		case faulty(m) && !unwell:
			w.unwell[m.ID] = w.now
		}
		if m.Facts.HasPod != Yes || m.Facts.Pod.Pending || !m.Facts.NodeKnown {
			continue
		}
		since, known := w.seen[m.ID]
		switch {
		case len(m.Facts.Taints) == 0:
			delete(w.seen, m.ID)
		case !known:
			w.seen[m.ID] = w.now
		case w.now.Sub(since) >= time.Hour && w.tainted[m.ID].IsZero():
			w.tainted[m.ID] = w.now
		}
	}
}

func (w *world) inFlight() (count int, zones map[string]bool) {
	zones = map[string]bool{}
	for i := range w.members {
		if m := &w.members[i]; m.Marked && m.Facts.Excluded != Yes {
			count++
			zones[m.Zone] = true
		}
	}
	return count, zones
}

// mark checks that a member may be marked, and marks it.
func (w *world) mark(marked *Marked) {
	for i := range w.members {
		m := &w.members[i]
		if m.ID != marked.Member.ID {
			continue
		}
		if !w.terms.Automatic || w.in.Suspended || w.in.Available != Yes || m.Paused != "" || m.Marked {
			w.t.Fatalf("%s is marked: automatic %t, suspended %t, available %d, paused %q, marked %t", m.ID, w.terms.Automatic, w.in.Suspended, w.in.Available, m.Paused, m.Marked)
		}
		since, window := w.unwell[m.ID], w.terms.UnhealthyAfter
		if marked.Condition.Type == NodeTainted {
			since, window = w.tainted[m.ID], w.terms.TaintedAfter
		}
		if since.IsZero() || w.now.Sub(since) < window {
			w.t.Fatalf("%s is marked since %s stands since %s; by what was seen it does since %s, and it is %s", m.ID, marked.Condition.Type, marked.Condition.StartTime, since, w.now)
		}
		m.Marked = true
		return
	}
	w.t.Fatalf("%s is marked and is no member", marked.Member.ID)
}

// TestPropertyMarks looks at members to whom anything happens, at any time. None is marked before its time, or beyond the limits.
func TestPropertyMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				w.change()
			}
			d := w.look()
			switch {
			case !d.NextLook.IsZero() && rapid.Bool().Draw(t, "on time"):
				w.now = d.NextLook
			default:
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 150).Draw(t, "minutes")) * time.Minute)
			}
		}
	})
}

// TestPropertyMarked leaves everything as it is after anything has happened, and looks only when the last decision says so: whoever is
// unhealthy is marked in time, or waits for something that has a name.
func TestPropertyMarked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 15).Draw(t, "changes") {
			w.change()
			w.look()
		}
		var d Decision
		for range 50 {
			if d = w.look(); d.NextLook.IsZero() {
				break
			}
			w.now = d.NextLook
		}
		if !d.NextLook.IsZero() {
			t.Fatalf("there is always a later look: the next is at %s", d.NextLook)
		}
		waiting := map[string]bool{}
		for i := range d.Blocked {
			waiting[d.Blocked[i].Member.ID] = true
		}
		for i := range w.members {
			m := &w.members[i]
			if len(m.Record.Conditions) > 0 && !m.Marked && !waiting[m.ID] {
				t.Fatalf("%s is unhealthy (%v), and neither marked nor waiting", m.ID, m.Record.Conditions)
			}
			runs := m.Facts.HasPod == Yes && !m.Facts.Pod.Pending && m.Facts.NodeKnown && m.Paused == ""
			if runs && len(m.Facts.Taints) > 0 && len(m.Record.Conditions) == 0 && !m.Marked {
				t.Fatalf("%s has been on a tainted node for ever, and that is no condition", m.ID)
			}
		}
	})
}
