package replacement

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// gone is a member whose pod has been missing for so long.
func gone(id string, d time.Duration, changes ...func(*Member)) Member {
	m := member(id, facts(func(f *Facts) { f.HasPod = No }), remembers(Condition{PodMissing, ago(d)}))
	for _, change := range changes {
		change(&m)
	}
	return m
}

// many are members that are well, each in a zone of its own.
func many(n int) []Member {
	var all []Member
	for i := range n {
		all = append(all, member(fmt.Sprintf("w%02d", i)))
	}
	return all
}

func TestDecide(t *testing.T) {
	const long = 3 * time.Hour
	byZones := func(terms *Terms) { terms.MaxMembers, terms.MaxZones = 0, 1 }
	most := func(n int) func(*Terms) { return func(terms *Terms) { terms.MaxMembers = n } }
	anywhere := func(terms *Terms) { terms.StopAbove = intstr.FromString("100%") }
	for name, test := range map[string]struct {
		terms   Terms
		members []Member
		change  func(*Input)
		mark    []string
		waiting map[string]Reason
		next    time.Time
	}{
		"all are well":        {terms: automatic(), members: many(3)},
		"not for long enough": {terms: automatic(), members: append(many(3), gone("a", 7199*time.Second)), next: noon.Add(time.Second)},
		"for long enough":     {terms: automatic(), members: append(many(3), gone("a", 7200*time.Second)), mark: []string{"a"}},
		"two conditions do not add up": {
			terms: automatic(), members: append(many(3), gone("a", time.Hour, func(m *Member) { m.Facts.Reported = No })), next: noon.Add(time.Hour),
		},
		"disabled":             {terms: automatic(func(terms *Terms) { terms.Automatic = false }), members: append(many(3), gone("a", long)), waiting: map[string]Reason{"a": RepairDisabled}},
		"suspended":            {terms: automatic(), members: append(many(3), gone("a", long)), change: func(in *Input) { in.Suspended = true }, waiting: map[string]Reason{"a": PolicySuspended}},
		"paused":               {terms: automatic(), members: append(many(3), gone("a", long, paused)), waiting: map[string]Reason{"a": MemberPaused}},
		"the system is down":   {terms: automatic(), members: append(many(3), gone("a", long)), change: func(in *Input) { in.Available = No }, waiting: map[string]Reason{"a": SystemUnavailable}},
		"it cannot be asked":   {terms: automatic(), members: append(many(3), gone("a", long)), change: func(in *Input) { in.Available = Unknown }, waiting: map[string]Reason{"a": SystemUnavailable}},
		"marked already":       {terms: automatic(), members: append(many(3), gone("a", long, marked))},
		"another is in flight": {terms: automatic(), members: append(many(20), member("b", marked), gone("a", long)), waiting: map[string]Reason{"a": TooManyInFlight}},
		"another is excluded":  {terms: automatic(), members: append(many(20), member("b", marked, excluded), gone("a", long)), mark: []string{"a"}},
		"the longest unhealthy goes first": {
			terms: automatic(), members: append(many(20), gone("a", long), gone("b", long+time.Second)), mark: []string{"b"}, waiting: map[string]Reason{"a": TooManyInFlight},
		},
		"two at once":     {terms: automatic(most(2)), members: append(many(20), gone("a", long), gone("b", long)), mark: []string{"a", "b"}},
		"no more than so": {terms: automatic(most(2), anywhere), members: []Member{gone("a", long), gone("b", long), gone("c", long)}, mark: []string{"a", "b"}, waiting: map[string]Reason{"c": TooManyInFlight}},
		"by zones: of one zone any number": {
			terms:   automatic(byZones, anywhere),
			members: append(many(3), gone("a", long, inZone("x")), gone("b", long, inZone("y")), gone("c", long, inZone("x"))),
			mark:    []string{"a", "c"}, waiting: map[string]Reason{"b": TooManyInFlight},
		},
		"by zones: more than may be already": {
			terms:   automatic(byZones, anywhere),
			members: append(many(3), member("m", marked, inZone("x")), member("n", marked, inZone("y")), gone("a", long, inZone("x"))),
			waiting: map[string]Reason{"a": TooManyInFlight},
		},
		"by zones: one whose zone is not known": {
			terms:   automatic(byZones, anywhere),
			members: append(many(3), gone("a", long, inZone("")), gone("b", long, inZone(""))), mark: []string{"a", "b"},
		},
		"no limit is set":      {terms: automatic(most(0)), members: append(many(3), gone("a", long)), waiting: map[string]Reason{"a": TooManyInFlight}},
		"one zone of three":    {terms: automatic(), members: append(many(2), gone("a", long, inZone("x")), gone("b", long, inZone("x"))), mark: []string{"a"}, waiting: map[string]Reason{"b": TooManyInFlight}},
		"two zones of three":   {terms: automatic(), members: append(many(1), gone("a", long), gone("b", time.Second)), waiting: map[string]Reason{"a": TooManyZonesAffected}, next: ago(time.Second).Add(DefaultUnhealthyAfter)},
		"two zones of twenty":  {terms: automatic(), members: append(many(18), gone("a", long), gone("b", time.Second)), mark: []string{"a"}, next: ago(time.Second).Add(DefaultUnhealthyAfter)},
		"a share that is none": {terms: automatic(func(terms *Terms) { terms.StopAbove = intstr.FromString("all") }), members: append(many(3), gone("a", long)), waiting: map[string]Reason{"a": TooManyZonesAffected}},
		"a condition that does not count": {
			terms: automatic(func(terms *Terms) { terms.Conditions = []ConditionType{PodFailing} }), members: append(many(3), gone("a", long)),
		},
		"tainted for long enough": {terms: automatic(watching(TaintRule{Key: "*"})), members: append(many(3), member("a", func(m *Member) {
			m.Record = Record{Node: "n-a", Conditions: []Condition{{NodeTainted, ago(1800 * time.Second)}}}
		})), mark: []string{"a"}},
		"tainted, not for long": {terms: automatic(watching(TaintRule{Key: "*"})), members: append(many(3), member("a", func(m *Member) {
			m.Record = Record{Node: "n-a", Conditions: []Condition{{NodeTainted, ago(1799 * time.Second)}}}
		})), next: noon.Add(time.Second)},
		"a taint for some time": {terms: automatic(watching(TaintRule{Key: "x", After: time.Hour})), members: append(many(3), member("a", func(m *Member) {
			m.Facts.Taints = []corev1.Taint{{Key: "x"}}
			m.Record = Record{Node: "n-a", Taints: []TaintClock{{Key: "x", StartTime: ago(59 * time.Minute)}}}
		})), next: noon.Add(time.Minute)},
		"terminating": {terms: automatic(), members: append(many(3), member("a", facts(func(f *Facts) { f.Pod.DeletionTime = ago(time.Minute) }))), next: noon.Add(4 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Now: noon, Terms: test.terms, Members: test.members, Available: Yes}
			if test.change != nil {
				test.change(&in)
			}
			d := Decide(in)
			var mark []string
			for _, m := range d.Mark {
				mark = append(mark, m.Member.ID)
			}
			waiting := map[string]Reason{}
			for _, w := range d.Blocked {
				waiting[w.Member.ID] = w.Reason
				if w.Message == "" {
					t.Errorf("%s waits without a message", w.Member.ID)
				}
			}
			same(t, mark, test.mark)
			same(t, waiting, test.waiting)
			same(t, d.NextLook, test.next)
		})
	}
}
