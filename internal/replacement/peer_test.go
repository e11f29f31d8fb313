package replacement

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hour is a member that has had a condition for an hour, which this look sees as well.
func hour(id string, kind ConditionType, see func(*Facts), changes ...func(*Member)) Member {
	return member(id, append([]func(*Member){facts(see), remembers(Condition{kind, ago(time.Hour)})}, changes...)...)
}

func hourGone(id string, changes ...func(*Member)) Member {
	return hour(id, NotReporting, func(f *Facts) { f.Reported = No }, changes...)
}

// anHour are terms by which what has stood for less than an hour leads to a replacement, as in the peer's tests, and no share of zones stops it.
func anHour(changes ...func(*Terms)) Terms {
	return automatic(append([]func(*Terms){func(terms *Terms) {
		terms.UnhealthyAfter, terms.TaintedAfter, terms.StopAbove = time.Minute, time.Second, intstr.FromString("100%")
	}}, changes...)...)
}

// onTaint has a member be on a node with a taint for so long, for which it is to be replaced.
func onTaint(d time.Duration) func(*Member) {
	return func(m *Member) {
		m.Facts.Taints = []corev1.Taint{{Key: "example.com/maintenance", Effect: corev1.TaintEffectNoSchedule}}
		m.Record.Node, m.Record.Taints = m.Node, []TaintClock{{"example.com/maintenance", corev1.TaintEffectNoSchedule, ago(2 * d)}}
		m.Record.Conditions = []Condition{{NodeTainted, ago(d)}}
	}
}

func watchesTaints(terms *Terms) { terms.Taints = []TaintRule{{Key: "*", After: time.Second}} }

func most(n int) func(*Terms) { return func(terms *Terms) { terms.MaxMembers = n } }

func zones(n int) func(*Terms) {
	return func(terms *Terms) { terms.MaxMembers, terms.MaxZones = 0, n }
}

func stopAbove(n int) func(*Terms) {
	return func(terms *Terms) { terms.StopAbove = intstr.FromInt(n) }
}

// peerReplaces are the cases that the peer's own tests of automatic replacement have, by their numbers: which members get a successor.
var peerReplaces = map[string]struct {
	terms   Terms
	members []Member
	mark    []string
}{
	"8/1 one may be in flight, and none is":                                             {anHour(), []Member{hourGone("a")}, []string{"a"}},
	"8/2 none may be in flight":                                                         {anHour(most(0)), []Member{hourGone("a")}, nil},
	"8/4 the zone that is busy":                                                         {anHour(zones(1)), []Member{hourGone("a", inZone("z1")), member("b", inZone("z1"), marked)}, []string{"a"}},
	"8/5 another zone than the busy one":                                                {anHour(zones(1)), []Member{hourGone("a", inZone("z2")), member("b", inZone("z1"), marked)}, nil},
	"8/7 taints are not watched":                                                        {anHour(), append(many(3), member("a", onTaint(time.Hour), remembers())), nil},
	"8/8 taints are watched, and there is no member":                                    {anHour(watchesTaints), nil, nil},
	"8/10 two of three zones are tainted":                                               {anHour(watchesTaints, stopAbove(1)), []Member{member("a", onTaint(time.Hour)), member("b", onTaint(time.Hour)), member("c")}, nil},
	"8/10 the same for two years, where the peer replaces after one":                    {anHour(watchesTaints, stopAbove(1)), []Member{member("a", onTaint(17520*time.Hour)), member("b", onTaint(17520*time.Hour)), member("c")}, nil},
	"8/11 two are tainted, in one zone":                                                 {anHour(watchesTaints, stopAbove(1)), []Member{member("a", onTaint(time.Hour), inZone("z")), member("b", onTaint(time.Hour), inZone("z")), member("c")}, []string{"a"}},
	"8/13 tainted for ten minutes, with a window of a second":                           {anHour(watchesTaints), append(many(3), member("a", onTaint(10*time.Minute))), []string{"a"}},
	"8/16 two are tainted, and ten may be in flight":                                    {anHour(watchesTaints, most(10)), []Member{member("a", onTaint(time.Hour)), member("b", onTaint(time.Hour))}, []string{"a", "b"}},
	"8/17 no process for an hour":                                                       {anHour(), append(many(3), hourGone("a")), []string{"a"}},
	"8/19 all are to crash":                                                             {anHour(), []Member{hourGone("a", paused), hourGone("b", paused)}, nil},
	"8/20 8/21 8/22 this one is to crash, whichever container":                          {anHour(), append(many(3), hourGone("a", paused)), nil},
	"8/23 two have failed, and one may be in flight":                                    {anHour(), []Member{hourGone("a"), hourGone("b")}, []string{"a"}},
	"8/25 one is in flight, and two may be":                                             {anHour(most(2)), []Member{hourGone("a"), hourGone("b", marked)}, []string{"a"}},
	"8/26 one is in flight, and none may be":                                            {anHour(most(0)), []Member{hourGone("a"), hourGone("b", marked)}, nil},
	"8/31 no address":                                                                   {anHour(), append(many(3), hour("a", PodPending, func(f *Facts) { f.Pod = Pod{Pending: true} })), []string{"a"}},
	"8/32 a member in a zone under maintenance, as internal/controller/repair notes it": {anHour(), append(many(3), hourGone("a", paused)), nil},
	"8/35 it is excluded, and nothing is to replace it":                                 {anHour(), append(many(3), hour("a", ExcludedUnmarked, func(f *Facts) { f.Excluded = Yes })), []string{"a"}},
	"8/40 two have failed in one zone":                                                  {anHour(zones(1)), []Member{hourGone("a", inZone("z")), hourGone("b", inZone("z"))}, []string{"a", "b"}},
	"8/41 a member of another zone is in flight":                                        {anHour(zones(1)), []Member{hourGone("a", inZone("z")), hourGone("b", inZone("z")), member("c", marked)}, nil},
	"8/43 no condition":                                                                 {anHour(), many(3), nil},
	"8/44 no process since now":                                                         {anHour(), append(many(3), member("a", facts(func(f *Facts) { f.Reported = No }))), nil},
	"8/46 a condition for as long as the window, another from now":                      {anHour(), append(many(3), member("a", facts(func(f *Facts) { f.Reported, f.Pod.Healthy = No, false }), remembers(Condition{PodFailing, ago(time.Minute)}, Condition{NotReporting, noon}))), []string{"a"}},
	"8/47 a pod that fails":                                                             {anHour(), append(many(3), hour("a", PodFailing, func(f *Facts) { f.Pod.Healthy = false })), []string{"a"}},
	"8/48 no pod":                                                                       {anHour(), append(many(3), hour("a", PodMissing, func(f *Facts) { f.HasPod = No })), []string{"a"}},
	"8/49 no claim":                                                                     {anHour(), append(many(3), hour("a", ClaimMissing, func(f *Facts) { f.Claims = No })), []string{"a"}},
	"8/50 no Service":                                                                   {anHour(), append(many(3), hour("a", ServiceMissing, func(f *Facts) { f.Service = No })), []string{"a"}},
	"8/51 a pod that is pending":                                                        {anHour(), append(many(3), hour("a", PodPending, func(f *Facts) { f.Pod = Pod{Pending: true} })), []string{"a"}},
	"8/52 it is excluded":                                                               {anHour(), append(many(3), hour("a", ExcludedUnmarked, func(f *Facts) { f.Excluded = Yes })), []string{"a"}},
}

func TestPeerReplaces(t *testing.T) {
	for name, test := range peerReplaces {
		t.Run(name, func(t *testing.T) {
			out := Decide(Input{Now: noon, Terms: test.terms, Namespace: "db", Policy: "fdb", Members: test.members, Available: Yes})
			var got []string
			for i := range out.Mark {
				got = append(got, out.Mark[i].Member.ID)
			}
			if !slices.Equal(got, test.mark) {
				t.Errorf("marked are %v, not %v: %+v", got, test.mark, out.Blocked)
			}
		})
	}
}

func only(rules ...TaintRule) func(*Terms) { return func(terms *Terms) { terms.Taints = rules } }

func since(key string, d time.Duration) func(*Member) {
	return func(m *Member) {
		added := metav1.NewTime(ago(d))
		m.Facts.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}}
	}
}

var (
	any20       = TaintRule{Key: "*", After: 20 * time.Second}
	maintenance = TaintRule{Key: "foundationdb/maintenance", After: 5 * time.Second}
)

// peerConditions are the cases about conditions: what a member has after a look.
var peerConditions = map[string]struct {
	terms Terms
	given Member
	want  []ConditionType
}{
	"8/55 a member that is as good as replaced":       {automatic(), member("a", marked, emptied, facts(func(f *Facts) { f.Pod = Pod{Pending: true} })), nil},
	"8/56 one that is excluded keeps no condition":    {automatic(), hourGone("a", marked, emptied), nil},
	"8/64 a taint for 6 s of 5":                       {automatic(only(any20, maintenance)), member("a", since("foundationdb/maintenance", 6*time.Second)), []ConditionType{NodeTainted}},
	"8/65 no taint is watched":                        {automatic(), member("a", since("foundationdb/maintenance", 6*time.Second)), nil},
	"8/65 it is watched again":                        {automatic(only(any20, maintenance)), member("a", since("foundationdb/maintenance", 6*time.Second), func(m *Member) { m.Record.Taints = nil }), []ConditionType{NodeTainted}},
	"8/67 another taint than the watched one":         {automatic(only(maintenance)), member("a", since("foundationdb/unhealthy", 12*time.Second)), nil},
	"8/67 that one is watched as well":                {automatic(only(maintenance, TaintRule{Key: "foundationdb/unhealthy", After: 11 * time.Second})), member("a", since("foundationdb/unhealthy", 12*time.Second)), []ConditionType{NodeTainted}},
	"8/70 a process that is excluded":                 {automatic(), member("a", excluded), []ConditionType{ExcludedUnmarked}},
	"8/74 a process that does not report":             {automatic(), member("a", facts(func(f *Facts) { f.Reported = No })), []ConditionType{NotReporting}},
	"8/74 a system that says nothing changes nothing": {automatic(), member("a", facts(func(f *Facts) { f.Reported = Unknown })), nil},
	"8/76 a pod that is pending":                      {automatic(), member("a", facts(func(f *Facts) { f.Pod = Pod{Pending: true} })), []ConditionType{PodPending}},
}

func TestPeerConditions(t *testing.T) {
	for name, test := range peerConditions {
		t.Run(name, func(t *testing.T) {
			record, _ := Observe(&test.given, &test.terms, noon)
			var got []ConditionType
			for _, c := range record.Conditions {
				got = append(got, c.Type)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("its conditions are %v, not %v", got, test.want)
			}
		})
	}
}

// peerExceptions are the cases of the peer's tests of replacements and conditions that cannot be had here.
var peerExceptions = map[string]string{
	"8/14": "as 8/7: whoever has no taints watched has no options",
	"8/28": "nothing goes without an exclusion for want of an address: exclusion is by id, which 8/31 is about",
	"8/29": "as 8/28",
	"8/34": "that a pod is of another template is no condition: a set updates it",
	"8/37": "no condition is about how busy a process is",
	"8/38": "there is no sidecar",
	"8/53": "that a command line is another is no condition: a set updates its pod",
	"8/58": "an exclusion is judged by the list of those in progress: package foundationdb",
	"8/59": "spec.removal.batch and spec.updateStrategy.recreate.batch have defaults of their own in the schema",
	"8/61": "a member has no condition before it was looked at",
	"8/62": "ids are counted on: package memberset",
	"8/68": "source 002 has it the other way round: a replacement for a taint is not stopped by taking it off (sentence 37)",
	"8/71": "no condition is about messages of a process",
	"8/73": "a process without version or command line was seen in statuses alone that are not complete, of which nothing is known: package status, TestDocumentsOfRealClusters (status_unreachable)",
	"8/77": "requests are objects: package memberset",
	"8/79": "there is no sidecar",
	"8/80": "a zone is a node's, as the API has it",
}

// Each case of the peer's tests of replacements and conditions is a row, or an exception.
func TestPeerIsWhole(t *testing.T) {
	found := map[string]bool{}
	number := regexp.MustCompile(`8/\d+`)
	for _, name := range slices.Concat(slices.Collect(maps.Keys(peerReplaces)), slices.Collect(maps.Keys(peerConditions))) {
		for _, n := range number.FindAllString(name, -1) {
			found[n] = true
			if peerExceptions[n] != "" {
				t.Errorf("%s is a row and an exception", n)
			}
		}
	}
	for _, n := range []int{
		1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 21, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37, 38, 40, 41, 43, 44, 46, 47, 48, 49, 50, 51, 52, 53, 55, 56, 58, 59, 61, 62,
		64, 65, 67, 68, 70, 71, 73, 74, 76, 77, 79, 80,
	} {
		if of := fmt.Sprintf("8/%d", n); !found[of] && peerExceptions[of] == "" {
			t.Errorf("%s is neither", of)
		}
	}
}
