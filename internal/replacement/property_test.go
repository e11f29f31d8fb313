package replacement

import (
	"fmt"
	"slices"
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
	seen    map[string]*account // by member
}

// account is since when each fault of a member has been there at every look that could see it, and which of them the last look has seen.
type account struct {
	since  map[ConditionType]time.Time
	now    map[ConditionType]bool
	taint  time.Time // since when the taint is seen on the node; zero: it is not
	node   string
	paused bool
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: noon, seen: map[string]*account{}}
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

var answers = rapid.SampledFrom([]Tristate{Yes, Yes, No, Unknown})

// change has something happen to one member, or to all.
func (w *world) change() {
	m := &w.members[rapid.IntRange(0, len(w.members)-1).Draw(w.t, "member")]
	f := &m.Facts
	switch rapid.IntRange(0, 13).Draw(w.t, "what") {
	case 0:
		f.Reported = answers.Draw(w.t, "reported")
	case 1:
		f.Excluded, f.Emptied = answers.Draw(w.t, "excluded"), answers.Draw(w.t, "emptied")
	case 2:
		f.HasPod = answers.Draw(w.t, "pod")
	case 3:
		f.Pod = Pod{Pending: rapid.Bool().Draw(w.t, "pending"), Healthy: rapid.Bool().Draw(w.t, "healthy")}
		if rapid.Bool().Draw(w.t, "terminating") {
			f.Pod.DeletionTime = w.now
		}
	case 4:
		f.Claims, f.Service = answers.Draw(w.t, "claims"), answers.Draw(w.t, "service")
	case 5:
		f.Taints = nil
		if rapid.Bool().Draw(w.t, "tainted") {
			f.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		}
	case 6:
		f.NodeKnown = rapid.Bool().Draw(w.t, "node known")
	case 7:
		if m.Marked { // under the same id, on another node
			m.Marked, m.Node, m.Facts = false, m.Node+"'", member(m.ID).Facts
		}
	case 8:
		m.Paused = rapid.SampledFrom([]string{"", "", "maintenance"}).Draw(w.t, "paused")
	case 9:
		w.in.Suspended = rapid.IntRange(0, 3).Draw(w.t, "suspended") == 0
		w.in.Available = answers.Draw(w.t, "available")
	case 10:
		if m.Marked {
			m.Marked, m.CancelTime = false, w.now.Truncate(time.Second)
			w.seen[m.ID].cancel(m.CancelTime)
		}
	case 11:
		m.Facts = member(m.ID).Facts
	case 12:
		m.Node = rapid.SampledFrom([]string{"", "n-1", "n-2"}).Draw(w.t, "node")
	case 13:
		m.Zone = rapid.SampledFrom([]string{"a", "b", ""}).Draw(w.t, "zone")
	}
}

// faults are what is known to be wrong with a member and what is known not to be.
func (w *world) faults(m *Member) map[ConditionType]Tristate {
	f := &m.Facts
	bad := func(known, wrong bool) Tristate {
		switch {
		case !known:
			return Unknown
		case wrong:
			return Yes
		}
		return No
	}
	hasPod := f.HasPod == Yes
	started := hasPod && !f.Pod.Pending
	late := !f.Pod.DeletionTime.IsZero() && !w.now.Before(f.Pod.DeletionTime.Add(5*time.Minute))
	return map[ConditionType]Tristate{
		NotReporting:     bad(f.Reported != Unknown, f.Reported == No),
		ExcludedUnmarked: bad(f.Reported == Yes && f.Excluded != Unknown, f.Excluded == Yes && !m.Marked),
		PodMissing:       bad(f.HasPod != Unknown, f.HasPod == No),
		PodPending:       bad(hasPod, f.Pod.Pending),
		PodFailing:       bad(started, late || !f.Pod.Healthy),
		ClaimMissing:     bad(f.Claims != Unknown, f.Claims == No),
		ServiceMissing:   bad(f.Service != Unknown, f.Service == No),
	}
}

// account notes what a look at this moment sees.
func (w *world) account() {
	for i := range w.members {
		m := &w.members[i]
		a := w.seen[m.ID]
		if a == nil {
			a = &account{since: map[ConditionType]time.Time{}, node: m.Node}
			w.seen[m.ID] = a
		}
		a.now = map[ConditionType]bool{}
		if m.Paused != "" {
			a.paused = true
			continue
		}
		if a.paused { // what was wrong counts anew
			for kind := range a.since {
				a.since[kind] = w.now
			}
			if !a.taint.IsZero() {
				a.taint = w.now
			}
			a.paused = false
		}
		if m.Marked && m.Facts.Emptied == Yes {
			*a = account{since: map[ConditionType]time.Time{}, now: a.now, node: a.node}
			continue
		}
		for kind, wrong := range w.faults(m) {
			a.note(kind, wrong, w.now)
		}
		w.accountTaint(m, a)
	}
}

// cancel has everything count anew.
func (a *account) cancel(now time.Time) {
	delete(a.since, NodeTainted)
	for kind := range a.since {
		a.since[kind] = now
	}
	if !a.taint.IsZero() {
		a.taint = now
	}
}

func (a *account) note(kind ConditionType, wrong Tristate, now time.Time) {
	if wrong == No {
		delete(a.since, kind)
	}
	if _, known := a.since[kind]; wrong == Yes && !known {
		a.since[kind] = now
	}
	a.now[kind] = wrong == Yes
}

func (w *world) accountTaint(m *Member, a *account) {
	hasPod := m.Facts.HasPod == Yes
	if hasPod && m.Node != "" && m.Node != a.node {
		a.node, a.taint = m.Node, time.Time{}
		delete(a.since, NodeTainted)
	}
	switch {
	case m.Facts.HasPod == No:
		a.taint = time.Time{}
	case !hasPod || m.Facts.Pod.Pending || !m.Facts.NodeKnown || m.Node == "":
	case len(m.Facts.Taints) == 0:
		a.taint = time.Time{}
	case a.taint.IsZero():
		a.taint = w.now
	}
	running := hasPod && !m.Facts.Pod.Pending && m.Facts.NodeKnown && m.Node != ""
	if _, latched := a.since[NodeTainted]; !latched && running && !a.taint.IsZero() && w.now.Sub(a.taint) >= time.Hour {
		a.since[NodeTainted] = w.now
	}
	_, latched := a.since[NodeTainted]
	a.now[NodeTainted] = latched && m.Facts.HasPod != Unknown
}

// affected is how many zones have members with faults, at least.
func (w *world) affected() int {
	zones, unknown := map[string]bool{}, 0
	for i := range w.members {
		switch m := &w.members[i]; {
		case len(w.seen[m.ID].since) == 0 || m.Paused != "":
		case m.Record.Zone == "":
			unknown++
		default:
			zones[m.Record.Zone] = true
		}
	}
	return len(zones) + unknown
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

func (w *world) inFlight() (count int, zones map[string]bool) {
	zones = map[string]bool{}
	for i := range w.members {
		if m := &w.members[i]; m.Marked && m.Facts.Emptied != Yes {
			count++
			zones[m.Record.Zone] = true
		}
	}
	return count, zones
}

// mark checks that a member may be marked, and marks it.
func (w *world) mark(due *Due) {
	at := slices.IndexFunc(w.members, func(m Member) bool { return m.ID == due.Member.ID })
	m := &w.members[at]
	if !w.terms.Automatic || w.in.Suspended || w.in.Available != Yes || m.Paused != "" || m.Marked {
		w.t.Fatalf("%s is marked: automatic %t, suspended %t, available %d, paused %q, marked %t", m.ID, w.terms.Automatic, w.in.Suspended, w.in.Available, m.Paused, m.Marked)
	}
	kind := due.Condition.Type
	since, known := w.seen[m.ID].since[kind]
	if window := w.terms.window(kind); !known || w.now.Sub(since) < window || !w.seen[m.ID].now[kind] {
		w.t.Fatalf("%s is marked since %s stands since %s; by what was seen it does since %s, and it is %s; seen now: %t", m.ID, kind, due.Condition.StartTime, since, w.now, w.seen[m.ID].now[kind])
	}
	if most := w.terms.StopAbove; most == intstr.FromInt32(2) && w.affected() > 2 {
		w.t.Fatalf("%s is marked while %d zones are affected", m.ID, w.affected())
	}
	m.Marked = true
}

// TestPropertyMarks looks at members to which anything happens, at any time. None is marked before its time, or beyond the limits.
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

// TestPropertyMarked leaves everything as it is after anything has happened, and looks only when the last decision says so: each that is
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
			runs := m.Facts.HasPod == Yes && !m.Facts.Pod.Pending && m.Facts.NodeKnown && m.Paused == "" && m.Node != ""
			if runs && len(m.Facts.Taints) > 0 && len(m.Record.Conditions) == 0 && !m.Marked {
				t.Fatalf("%s has been on a tainted node for ever, and that is no condition", m.ID)
			}
		}
	})
}
