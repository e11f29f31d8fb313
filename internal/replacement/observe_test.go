package replacement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/api/v1alpha1"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// automatic are the defaults of source 002, with repair on.
func automatic(changes ...func(*Terms)) Terms {
	terms := Terms{
		Automatic: true, UnhealthyAfter: DefaultUnhealthyAfter, MaxMembers: DefaultMaxMembers, TaintedAfter: DefaultTaintedAfter,
		StopAbove: intstr.FromString(DefaultStopAbove),
	}
	for _, change := range changes {
		change(&terms)
	}
	return terms
}

func watching(rules ...TaintRule) func(*Terms) {
	return func(terms *Terms) { terms.Taints = rules }
}

// member is one that is well.
func member(id string, changes ...func(*Member)) Member {
	m := Member{
		MemberRef: v1alpha1.MemberRef{Role: "storage", ID: id, PodName: id, PodUID: "1", Node: "n-" + id}, Zone: "z-" + id,
		Facts: Facts{Reported: Yes, Excluded: No, Emptied: No, HasPod: Yes, Pod: Pod{Healthy: true}, Claims: Yes, Service: Yes, NodeKnown: true},
	}
	for _, change := range changes {
		change(&m)
	}
	return m
}

func facts(change func(*Facts)) func(*Member) { return func(m *Member) { change(&m.Facts) } }

func remembers(conditions ...Condition) func(*Member) {
	return func(m *Member) { m.Record.Conditions = conditions }
}

func inZone(zone string) func(*Member) { return func(m *Member) { m.Zone = zone } }

func marked(m *Member) { m.Marked = true }

func excluded(m *Member) { m.Facts.Excluded = Yes }

func emptied(m *Member) { m.Facts.Excluded, m.Facts.Emptied = Yes, Yes }

func paused(m *Member) { m.Paused = "its zone is under maintenance" }

func cancelled(at time.Time) func(*Member) { return func(m *Member) { m.CancelTime = at } }

func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestConditions(t *testing.T) {
	now := func(kinds ...ConditionType) (all []Condition) {
		for _, kind := range kinds {
			all = append(all, Condition{Type: kind, StartTime: noon})
		}
		return all
	}
	old := func(kind ConditionType) Condition { return Condition{Type: kind, StartTime: ago(time.Hour)} }
	for name, test := range map[string]struct {
		member Member
		want   []Condition
	}{
		"well":                                   {member("a"), nil},
		"not reported":                           {member("a", facts(func(f *Facts) { f.Reported = No })), now(NotReporting)},
		"not reported for long":                  {member("a", facts(func(f *Facts) { f.Reported = No }), remembers(old(NotReporting))), []Condition{old(NotReporting)}},
		"reported again":                         {member("a", remembers(old(NotReporting))), nil},
		"its system does not answer":             {member("a", facts(func(f *Facts) { f.Reported = Unknown }), remembers(old(NotReporting))), []Condition{old(NotReporting)}},
		"its system does not answer, it is well": {member("a", facts(func(f *Facts) { f.Reported = Unknown })), nil},

		"excluded, and not marked":               {member("a", excluded), now(ExcludedUnmarked)},
		"excluded since it is marked":            {member("a", excluded, marked), nil},
		"excluded for a drain":                   {member("a", excluded, facts(func(f *Facts) { f.ExclusionWanted = true })), nil},
		"excluded, marked later":                 {member("a", excluded, marked, remembers(old(ExcludedUnmarked))), nil},
		"excluded, and not reported":             {member("a", excluded, facts(func(f *Facts) { f.Reported = No }), remembers(old(ExcludedUnmarked))), append([]Condition{old(ExcludedUnmarked)}, now(NotReporting)...)},
		"included again":                         {member("a", remembers(old(ExcludedUnmarked))), nil},
		"whether it is excluded is not known":    {member("a", facts(func(f *Facts) { f.Excluded = Unknown }), remembers(old(ExcludedUnmarked))), []Condition{old(ExcludedUnmarked)}},
		"no pod":                                 {member("a", facts(func(f *Facts) { f.HasPod = No })), now(PodMissing)},
		"no pod, as is expected":                 {member("a", emptied, marked, facts(func(f *Facts) { f.HasPod = No }), remembers(old(PodMissing))), nil},
		"no pod, what it had before is kept":     {member("a", facts(func(f *Facts) { f.HasPod = No }), remembers(old(PodFailing))), append([]Condition{old(PodFailing)}, now(PodMissing)...)},
		"whether it has a pod is not known":      {member("a", facts(func(f *Facts) { f.HasPod = Unknown }), remembers(old(PodMissing))), []Condition{old(PodMissing)}},
		"not started":                            {member("a", facts(func(f *Facts) { f.Pod = Pod{Pending: true} })), now(PodPending)},
		"not started, what it had before":        {member("a", facts(func(f *Facts) { f.Pod = Pod{Pending: true} }), remembers(old(PodFailing), old(PodMissing))), append([]Condition{old(PodFailing)}, now(PodPending)...)},
		"not Ready":                              {member("a", facts(func(f *Facts) { f.Pod.Healthy = false })), now(PodFailing)},
		"Ready again":                            {member("a", remembers(old(PodFailing), old(PodPending))), nil},
		"terminating":                            {member("a", facts(func(f *Facts) { f.Pod.DeletionTime = ago(299 * time.Second) })), nil},
		"terminating for long":                   {member("a", facts(func(f *Facts) { f.Pod.DeletionTime = ago(300 * time.Second) })), now(PodFailing)},
		"no pod, and it has data":                {member("a", excluded, marked, facts(func(f *Facts) { f.HasPod = No })), now(PodMissing)},
		"terminating for long, as it should":     {member("a", emptied, marked, facts(func(f *Facts) { f.Pod.DeletionTime = ago(time.Hour) })), nil},
		"a claim is missing, and the Service":    {member("a", facts(func(f *Facts) { f.Claims, f.Service = No, No })), now(ClaimMissing, ServiceMissing)},
		"they are back":                          {member("a", remembers(old(ClaimMissing), old(ServiceMissing))), nil},
		"they are not known":                     {member("a", facts(func(f *Facts) { f.Claims, f.Service = Unknown, Unknown }), remembers(old(ClaimMissing))), []Condition{old(ClaimMissing)}},
		"paused, and gone":                       {member("a", paused, facts(func(f *Facts) { f.HasPod, f.Reported = No, No })), nil},
		"paused, and well":                       {member("a", paused, remembers(old(PodMissing))), []Condition{old(PodMissing)}},
		"emptied and marked, whatever is wrong":  {member("a", emptied, marked, facts(func(f *Facts) { f.Reported, f.HasPod, f.Claims, f.Service = No, No, No, No }), remembers(old(PodFailing), old(PodPending))), nil},
		"a type of another version":              {member("a", remembers(old("NodeUnreachable"))), nil},
		"after a pause":                          {member("a", facts(func(f *Facts) { f.HasPod = No }), remembers(old(PodMissing)), func(m *Member) { m.Record.Paused = true }), now(PodMissing)},
		"the clock was set back":                 {member("a", facts(func(f *Facts) { f.HasPod = No }), remembers(Condition{PodMissing, noon.Add(time.Hour)})), now(PodMissing)},
		"its replacement was cancelled":          {member("a", cancelled(ago(time.Minute)), facts(func(f *Facts) { f.HasPod = No }), remembers(old(PodMissing))), []Condition{{PodMissing, ago(time.Minute)}}},
		"its replacement was cancelled long ago": {member("a", cancelled(ago(2*time.Hour)), facts(func(f *Facts) { f.HasPod = No }), remembers(old(PodMissing))), []Condition{old(PodMissing)}},
	} {
		t.Run(name, func(t *testing.T) {
			terms := automatic()
			record, _ := Observe(&test.member, &terms, noon)
			same(t, record.Conditions, test.want)
		})
	}
}

// The zone of a member whose pod is on no node, or on one that is gone, is the last that was known.
func TestZones(t *testing.T) {
	for name, test := range map[string]struct{ is, was, want string }{
		"known":            {"a", "", "a"},
		"not known by now": {"", "a", "a"},
		"another":          {"b", "a", "b"},
		"never known":      {"", "", ""},
	} {
		m, terms := member("m", inZone(test.is), func(m *Member) { m.Record.Zone = test.was }), automatic()
		if record, _ := Observe(&m, &terms, noon); record.Zone != test.want {
			t.Errorf("%s: %q, want %q", name, record.Zone, test.want)
		}
	}
}

func TestTaints(t *testing.T) {
	const ignored = "example.com/ignored"
	every := TaintRule{Key: "*", After: time.Hour}
	onNode := func(taints ...corev1.Taint) func(*Member) {
		return facts(func(f *Facts) { f.Taints = taints })
	}
	taint := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule} }
	clock := func(key string, start time.Time) TaintClock {
		return TaintClock{Key: key, Effect: corev1.TaintEffectNoSchedule, StartTime: start}
	}
	clocks := func(node string, clocks ...TaintClock) func(*Member) {
		return func(m *Member) { m.Record.Node, m.Record.Taints = node, clocks }
	}
	latched := Condition{NodeTainted, ago(time.Minute)}
	added, again, future := metav1.NewTime(ago(2*time.Hour)), metav1.NewTime(ago(time.Minute)), metav1.NewTime(noon.Add(time.Hour))
	noExecute := func(added *metav1.Time) corev1.Taint {
		return corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute, TimeAdded: added}
	}
	execute := func(start time.Time) TaintClock {
		return TaintClock{Key: "x", Effect: corev1.TaintEffectNoExecute, StartTime: start}
	}
	for name, test := range map[string]struct {
		member Member
		rules  []TaintRule
		clocks []TaintClock
		want   []Condition
	}{
		"no rules":                             {member("a", onNode(taint("x")), clocks("n-a", clock("x", ago(time.Hour))), remembers(latched)), nil, nil, nil},
		"a new taint":                          {member("a", onNode(taint("x"))), []TaintRule{every}, []TaintClock{clock("x", noon)}, nil},
		"a taint for some time":                {member("a", onNode(taint("x")), clocks("n-a", clock("x", ago(59*time.Minute)))), []TaintRule{every}, []TaintClock{clock("x", ago(59*time.Minute))}, nil},
		"a taint for long enough":              {member("a", onNode(taint("x")), clocks("n-a", clock("x", ago(time.Hour)))), []TaintRule{every}, []TaintClock{clock("x", ago(time.Hour))}, []Condition{{NodeTainted, noon}}},
		"the taint gives its time":             {member("a", onNode(noExecute(&added))), []TaintRule{every}, []TaintClock{execute(added.Time)}, []Condition{{NodeTainted, noon}}},
		"its time is before a cancellation":    {member("a", cancelled(ago(30*time.Minute)), onNode(noExecute(&added))), []TaintRule{every}, []TaintClock{execute(ago(30 * time.Minute))}, nil},
		"its time is in the future":            {member("a", onNode(noExecute(&future))), []TaintRule{every}, []TaintClock{execute(noon)}, nil},
		"put on again unseen":                  {member("a", onNode(noExecute(&again)), clocks("n-a", execute(ago(time.Hour)))), []TaintRule{every}, []TaintClock{execute(again.Time)}, nil},
		"two effects of a key have two clocks": {member("a", onNode(taint("x"), noExecute(nil)), clocks("n-a", clock("x", ago(50*time.Minute)))), []TaintRule{every}, []TaintClock{execute(noon), clock("x", ago(50*time.Minute))}, nil},
		"all are ignored":                      {member("a", onNode(taint("x")), clocks("n-a", clock("x", ago(9*time.Hour)))), []TaintRule{{Key: "*", Ignore: true}}, nil, nil},
		"ignored, although every other counts": {member("a", onNode(taint(ignored)), clocks("n-a", clock(ignored, ago(9*time.Hour)))), []TaintRule{every, {Key: ignored, Ignore: true}}, nil, nil},
		"each taint has its own clock": {
			member("a", onNode(taint("x"), taint("y")), clocks("n-a", clock("x", ago(50*time.Minute)))),
			[]TaintRule{every},
			[]TaintClock{clock("x", ago(50*time.Minute)), clock("y", noon)},
			nil,
		},
		"the exact key goes first": {
			member("a", onNode(taint("x")), clocks("n-a", clock("x", ago(2*time.Hour)))),
			[]TaintRule{every, {Key: "x", After: 3 * time.Hour}},
			[]TaintClock{clock("x", ago(2*time.Hour))},
			nil,
		},
		"taken off in time":                   {member("a", clocks("n-a", clock("x", ago(59*time.Minute)))), []TaintRule{every}, nil, nil},
		"taken off too late":                  {member("a", clocks("n-a", clock("x", ago(time.Hour))), remembers(latched)), []TaintRule{every}, nil, []Condition{latched}},
		"on another node":                     {member("a", onNode(taint("x")), clocks("n-b", clock("x", ago(time.Hour))), remembers(latched)), []TaintRule{every}, []TaintClock{clock("x", noon)}, nil},
		"on another node that cannot be read": {member("a", facts(func(f *Facts) { f.NodeKnown = false }), clocks("n-b", clock("x", ago(time.Hour))), remembers(latched)), []TaintRule{every}, nil, nil},
		"on another node, and not started":    {member("a", facts(func(f *Facts) { f.Pod = Pod{Pending: true} }), clocks("n-b", clock("x", ago(time.Hour))), remembers(latched)), []TaintRule{every}, nil, []Condition{{PodPending, noon}}},
		"on a new node of the same name":      {member("a", onNode(taint("x")), facts(func(f *Facts) { f.NodeUID = "2" }), clocks("n-a", clock("x", ago(time.Hour))), remembers(latched), func(m *Member) { m.Record.NodeUID = "1" }), []TaintRule{every}, []TaintClock{clock("x", noon)}, nil},
		"its node is not known":               {member("a", func(m *Member) { m.Node = "" }, clocks("n-b", clock("x", ago(time.Hour))), remembers(latched)), []TaintRule{every}, []TaintClock{clock("x", ago(time.Hour))}, []Condition{latched}},
		"the node cannot be read":             {member("a", facts(func(f *Facts) { f.NodeKnown = false }), clocks("n-a", clock("x", ago(time.Hour))), remembers(latched)), []TaintRule{every}, []TaintClock{clock("x", ago(time.Hour))}, []Condition{latched}},
		"its pod is gone":                     {member("a", facts(func(f *Facts) { f.HasPod = No }), clocks("n-a", clock("x", ago(time.Hour))), remembers(latched)), []TaintRule{every}, nil, []Condition{latched, {PodMissing, noon}}},
		"cancelled, and still there":          {member("a", cancelled(ago(time.Second)), onNode(taint("x")), clocks("n-a", clock("x", ago(2*time.Hour))), remembers(latched)), []TaintRule{every}, []TaintClock{clock("x", ago(time.Second))}, nil},
		"cancelled within the second":         {member("a", cancelled(latched.StartTime), remembers(latched), clocks("n-a")), []TaintRule{every}, nil, nil},
		"after a pause":                       {member("a", onNode(taint("x")), clocks("n-a", clock("x", ago(time.Hour))), remembers(latched), func(m *Member) { m.Record.Paused = true }), []TaintRule{every}, []TaintClock{clock("x", noon)}, []Condition{{NodeTainted, noon}}},
		"the clock was set back":              {member("a", onNode(taint("x")), clocks("n-a", clock("x", noon.Add(time.Hour)))), []TaintRule{every}, []TaintClock{clock("x", noon)}, nil},
		"a taint without a key":               {member("a", onNode(taint(""))), []TaintRule{every}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			terms := automatic(watching(test.rules...))
			record, _ := Observe(&test.member, &terms, noon)
			same(t, record.Conditions, test.want)
			same(t, record.Taints, test.clocks)
		})
	}
}

// Which conditions a look has seen decides whether they lead to a replacement now.
func TestSeen(t *testing.T) {
	for name, test := range map[string]struct {
		member Member
		want   []ConditionType
	}{
		"well":                  {member("a"), nil},
		"seen":                  {member("a", facts(func(f *Facts) { f.HasPod, f.Claims, f.Reported = No, No, No })), []ConditionType{NotReporting, PodMissing, ClaimMissing}},
		"remembered":            {member("a", facts(func(f *Facts) { f.HasPod = Unknown }), remembers(Condition{PodMissing, ago(time.Hour)}, Condition{NodeTainted, ago(time.Hour)})), nil},
		"failing, and now gone": {member("a", facts(func(f *Facts) { f.HasPod = No }), remembers(Condition{PodFailing, ago(time.Hour)})), []ConditionType{PodMissing}},
		"tainted, and now gone": {member("a", facts(func(f *Facts) { f.HasPod = No }), remembers(Condition{NodeTainted, ago(time.Hour)})), []ConditionType{PodMissing, NodeTainted}},
		"paused":                {member("a", paused, facts(func(f *Facts) { f.HasPod = No }), remembers(Condition{PodMissing, ago(time.Hour)})), nil},
	} {
		t.Run(name, func(t *testing.T) {
			terms := automatic(watching(TaintRule{Key: "*", After: time.Hour}))
			_, seen := Observe(&test.member, &terms, noon)
			same(t, seen, test.want)
		})
	}
}
