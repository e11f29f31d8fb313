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
		terms     Terms
		members   []Member
		change    func(*Input)
		mark      []string
		blocked   map[string][]Reason
		next      time.Time
		condition ConditionType // of the first that is marked
	}{
		"all are well":        {terms: automatic(), members: many(3)},
		"not for long enough": {terms: automatic(), members: append(many(3), gone("a", 7199*time.Second)), next: noon.Add(time.Second)},
		"for long enough":     {terms: automatic(), members: append(many(3), gone("a", 7200*time.Second)), mark: []string{"a"}},
		"two conditions do not add up": {
			terms: automatic(), members: append(many(3), gone("a", 90*time.Minute, facts(func(f *Facts) { f.Reported = No }), remembers(Condition{NotReporting, ago(100 * time.Minute)}, Condition{PodMissing, ago(90 * time.Minute)}))),
			next: noon.Add(20 * time.Minute),
		},
		"the oldest of two conditions": {
			terms: automatic(), members: append(many(3), gone("a", long, facts(func(f *Facts) { f.Reported = No }), remembers(Condition{NotReporting, ago(long)}, Condition{PodMissing, ago(2 * long)}))),
			mark: []string{"a"}, condition: PodMissing,
		},
		"by role where all else is the same": {
			terms: automatic(anywhere), members: []Member{gone("a", long), gone("b", long, func(m *Member) { m.Role = "log" })}, mark: []string{"b"}, blocked: map[string][]Reason{"a": {TooManyInFlight}},
		},
		"disabled":                       {terms: automatic(func(terms *Terms) { terms.Automatic = false }), members: append(many(3), gone("a", long)), blocked: map[string][]Reason{"a": {RepairDisabled}}},
		"suspended":                      {terms: automatic(), members: append(many(3), gone("a", long)), change: func(in *Input) { in.Suspended = true }, blocked: map[string][]Reason{"a": {PolicySuspended}}},
		"paused":                         {terms: automatic(), members: append(many(3), gone("a", long, paused)), blocked: map[string][]Reason{"a": {MemberPaused}}},
		"the system is down":             {terms: automatic(), members: append(many(3), gone("a", long)), change: func(in *Input) { in.Available = No }, blocked: map[string][]Reason{"a": {SystemUnavailable}}},
		"it does not answer":             {terms: automatic(), members: append(many(3), gone("a", long)), change: func(in *Input) { in.Available = Unknown }, blocked: map[string][]Reason{"a": {SystemUnavailable}}},
		"marked already":                 {terms: automatic(), members: append(many(3), gone("a", long, marked))},
		"another is in flight":           {terms: automatic(), members: append(many(20), member("b", marked), gone("a", long)), blocked: map[string][]Reason{"a": {TooManyInFlight}}},
		"another is excluded":            {terms: automatic(), members: append(many(20), member("b", marked, excluded), gone("a", long)), blocked: map[string][]Reason{"a": {TooManyInFlight}}},
		"another is emptied":             {terms: automatic(), members: append(many(20), member("b", marked, emptied), gone("a", long)), mark: []string{"a"}},
		"another is emptied and removed": {terms: automatic(), members: append(many(2), gone("b", long, marked, emptied), gone("a", long)), mark: []string{"a"}},
		"another is paused":              {terms: automatic(), members: append(many(2), gone("b", long, paused), gone("a", long)), mark: []string{"a"}, blocked: map[string][]Reason{"b": {MemberPaused, TooManyInFlight}}},
		"the longest unhealthy goes first": {
			terms: automatic(), members: append(many(20), gone("a", long), gone("b", long+time.Second)), mark: []string{"b"}, blocked: map[string][]Reason{"a": {TooManyInFlight}},
		},
		"two at once":     {terms: automatic(most(2)), members: append(many(20), gone("a", long), gone("b", long)), mark: []string{"a", "b"}},
		"no more than so": {terms: automatic(most(2), anywhere), members: []Member{gone("a", long), gone("b", long), gone("c", long)}, mark: []string{"a", "b"}, blocked: map[string][]Reason{"c": {TooManyInFlight}}},
		"by zones: of one zone any number": {
			terms:   automatic(byZones, anywhere),
			members: append(many(3), gone("a", long, inZone("x")), gone("b", long, inZone("y")), gone("c", long, inZone("x"))),
			mark:    []string{"a", "c"}, blocked: map[string][]Reason{"b": {TooManyInFlight}},
		},
		"by zones: more than may be already": {
			terms:   automatic(byZones, anywhere),
			members: append(many(3), member("m", marked, inZone("x")), member("n", marked, inZone("y")), gone("a", long, inZone("x"))),
			blocked: map[string][]Reason{"a": {TooManyInFlight}},
		},
		"by zones: one whose zone is not known": {
			terms:   automatic(byZones, anywhere),
			members: append(many(3), gone("a", long, inZone("")), gone("b", long, inZone(""))), mark: []string{"a", "b"},
		},
		"no limit is set":      {terms: automatic(most(0)), members: append(many(3), gone("a", long)), blocked: map[string][]Reason{"a": {TooManyInFlight}}},
		"one zone of three":    {terms: automatic(), members: append(many(2), gone("a", long, inZone("x")), gone("b", long, inZone("x"))), mark: []string{"a"}, blocked: map[string][]Reason{"b": {TooManyInFlight}}},
		"two zones of three":   {terms: automatic(), members: append(many(1), gone("a", long), gone("b", time.Second)), blocked: map[string][]Reason{"a": {TooManyZonesAffected}}, next: ago(time.Second).Add(DefaultUnhealthyAfter)},
		"two zones of twenty":  {terms: automatic(), members: append(many(18), gone("a", long), gone("b", time.Second)), mark: []string{"a"}, next: ago(time.Second).Add(DefaultUnhealthyAfter)},
		"a share that is none": {terms: automatic(func(terms *Terms) { terms.StopAbove = intstr.FromString("all") }), members: append(many(3), gone("a", long)), blocked: map[string][]Reason{"a": {LimitInvalid}}},
		"a condition that does not count": {
			terms: automatic(func(terms *Terms) { terms.Conditions = []ConditionType{PodFailing} }), members: append(many(3), gone("a", long)),
		},
		"tainted for long enough": {terms: automatic(watching(TaintRule{Key: "*"})), members: append(many(3), member("a", func(m *Member) {
			m.Record = Record{Node: "n-a", Conditions: []Condition{{NodeTainted, ago(1800 * time.Second)}}}
		})), mark: []string{"a"}},
		"tainted for two years, in as many zones as stop it": {
			terms: automatic(watching(TaintRule{Key: "*"}), stopAbove(1)), members: append(many(3), member("a", onTaint(2*365*24*time.Hour)), member("b", onTaint(2*365*24*time.Hour))),
			blocked: map[string][]Reason{"a": {TooManyZonesAffected}, "b": {TooManyZonesAffected}},
		},
		"tainted, not for long": {terms: automatic(watching(TaintRule{Key: "*"})), members: append(many(3), member("a", func(m *Member) {
			m.Record = Record{Node: "n-a", Conditions: []Condition{{NodeTainted, ago(1799 * time.Second)}}}
		})), next: noon.Add(time.Second)},
		"a taint for some time": {terms: automatic(watching(TaintRule{Key: "x", After: time.Hour})), members: append(many(3), member("a", func(m *Member) {
			m.Facts.Taints = []corev1.Taint{{Key: "x"}}
			m.Record = Record{Node: "n-a", Taints: []TaintClock{{Key: "x", StartTime: ago(59 * time.Minute)}}}
		})), next: noon.Add(time.Minute)},
		"a taint, where NodeTainted does not count": {terms: automatic(watching(TaintRule{Key: "x", After: time.Hour}), func(terms *Terms) { terms.Conditions = []ConditionType{PodMissing} }), members: append(many(3), member("a", func(m *Member) {
			m.Facts.Taints = []corev1.Taint{{Key: "x"}}
			m.Record = Record{Node: "n-a", Taints: []TaintClock{{Key: "x", StartTime: ago(59 * time.Minute)}}}
		}))},
		"paused, and terminating": {terms: automatic(), members: append(many(3), member("a", paused, facts(func(f *Facts) { f.Pod.DeletionTime = ago(time.Minute) })))},
		"terminating":             {terms: automatic(), members: append(many(3), member("a", facts(func(f *Facts) { f.Pod.DeletionTime = ago(time.Minute) }))), next: noon.Add(4 * time.Minute)},
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
			blocked := map[string][]Reason{}
			for _, member := range d.Blocked {
				for _, b := range member.Blockers {
					blocked[member.Member.ID] = append(blocked[member.Member.ID], b.Reason)
					if b.Message == "" || b.Remedy == "" {
						t.Errorf("%s has no message or no remedy: %+v", member.Member.ID, b)
					}
				}
			}
			same(t, mark, test.mark)
			same(t, blocked, test.blocked)
			same(t, d.NextLook, test.next)
			if test.condition != "" {
				same(t, d.Mark[0].Condition.Type, test.condition)
			}
		})
	}
}
