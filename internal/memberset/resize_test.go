package memberset

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What a set waits for has the member's name in it.
func TestWhatAMemberWaitsForIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		given  func(w *world)
		reason Reason
		want   string
	}{
		"its pod is not Ready": {func(w *world) { w.podNamed("kv-member-2").Ready = false }, PodNotReady, "pod kv-member-2 is not Ready"},
		"its pod is on no node": {func(w *world) {
			w.podNamed("kv-member-2").Ready, w.podNamed("kv-member-2").Node = false, ""
		}, PodUnscheduled, "pod kv-member-2 is on no node: it was not looked for yet"},
		"its request does not let it go": {func(w *world) {
			w.mark("kv-member-1")
			for range 20 {
				w.pass()
				w.step(-1)
			}
		}, RequestWaits, "member kv-member-1 goes once ReplacementRequest anna-kv-member-1 lets it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 3)
			test.given(w)
			r := Decide(w.in)
			if len(r.Status.Blockers) != 1 || r.Status.Blockers[0].Reason != string(test.reason) || r.Status.Blockers[0].Message != test.want {
				t.Errorf("it waits for %+v", r.Status.Blockers)
			}
		})
	}
}

func TestLeavesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		given func(w *world)
		want  bool
	}{
		"a pod that is Ready":        {func(*world) {}, false},
		"a pod that is not Ready":    {func(w *world) { w.in.Pods[0].Ready = false }, true},
		"a pod that ends":            {func(w *world) { w.in.Pods[0].Terminating = true }, true},
		"no pod":                     {func(w *world) { w.in.Pods = w.in.Pods[1:] }, true},
		"one that the list has well": {func(w *world) { w.in.Pods, w.in.List.Entries[0].Healthy = w.in.Pods[1:], true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := formed(t, listing, 3)
			w.in.List.Entries[0].Healthy = false
			test.given(w)
			d := decision{Input: &w.in, index: newIndex(&w.in), status: w.in.Set.Status}
			d.groups, _ = groupsOf(w.in.Set, &w.in.Kind)
			if got := d.leavesFirst(&d.status.Members[0]); got != test.want {
				t.Errorf("it leaves first: %t", got)
			}
		})
	}
}

// Each successor avoids the node of one member that is marked, so that members that are replaced at once leave nodes for them.
func TestManySuccessorsAvoidOneNodeEach(t *testing.T) {
	w := formed(t, plain, 3)
	for i, id := range w.ids() {
		w.podNamed(id).Node = w.nodes[i]
		w.mark(id)
	}
	w.step(-1)
	var avoided []string
	for i := range w.in.Set.Status.Members {
		avoided = append(avoided, w.in.Set.Status.Members[i].AvoidNodes...)
	}
	if slices.Sort(avoided); !slices.Equal(avoided, w.nodes[:3]) {
		t.Errorf("they avoid %v", avoided)
	}
	w.mark(w.ids()[5]) // one that was made in their place
	if w.step(-1); len(w.in.Set.Status.Members[6].AvoidNodes) != 0 {
		t.Errorf("the successor of one that is on no node avoids %v", w.in.Set.Status.Members[6].AvoidNodes)
	}
}

// A successor that has joined is that of its predecessor until this is gone: the next one avoids the node of another.
func TestASuccessorThatHasJoinedIsOneStill(t *testing.T) {
	w := formed(t, plain, 3)
	for i, id := range w.ids() {
		w.podNamed(id).Node = w.nodes[i]
		w.mark(id)
	}
	w.group().Replicas = new(int32(2))
	for range 10 { // requests do not let any go
		w.pass()
		w.step(-1)
	}
	avoided := map[string]bool{}
	for _, m := range w.in.Set.Status.Members[3:] {
		avoided[strings.Join(m.AvoidNodes, "")] = whole(&m)
	}
	w.group().Replicas = new(int32(3))
	w.step(-1)
	last := w.in.Set.Status.Members[len(w.in.Set.Status.Members)-1]
	if _, taken := avoided[strings.Join(last.AvoidNodes, "")]; len(avoided) != 2 || taken || len(last.AvoidNodes) != 1 {
		t.Errorf("two that have joined were made in place of those on %v, and the next avoids %v", avoided, last.AvoidNodes)
	}
	w.settle()
	for _, m := range w.in.Set.Status.Members {
		if len(m.AvoidNodes) > 0 {
			t.Errorf("%s avoids %v, and nothing is marked any more", m.ID, m.AvoidNodes)
		}
	}
}

// One that goes since there are to be fewer has no successor: the next one that is made is that of a member that is marked then.
func TestASuccessorIsThatOfTheMemberThatWaitsForIt(t *testing.T) {
	w := formed(t, plain, 4)
	for i, id := range w.ids() {
		w.podNamed(id).Node = w.nodes[i]
	}
	w.step(-1)
	w.mark("kv-member-2")
	w.group().Replicas = new(int32(3))
	for range 20 {
		w.permit()
		w.step(0)
	}
	w.clock = w.clock.Add(-time.Hour) // what went on since then is later
	w.mark("kv-member-1")
	w.step(0)
	if m := w.in.Set.Status.Members[4]; !slices.Equal(m.AvoidNodes, []string{"n1"}) {
		t.Errorf("it avoids %v", m.AvoidNodes)
	}
}
