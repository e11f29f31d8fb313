package eviction

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// settling is a policy whose stores count for a while after they were seen gone.
func settling(t testing.TB, settle *metav1.Duration) *Policy {
	t.Helper()
	spec := toySpec()
	own := toyRoles()[0]
	own.Evict.Settle = settle
	spec.Roles = []v1alpha1.Role{own}
	return compiled(t, spec)
}

func TestTidySettles(t *testing.T) {
	since := noon.Add(-3 * time.Minute)
	at := func(ago time.Duration) *metav1.Time { return new(metav1.NewTime(noon.Add(-ago))) }
	readyAgain := toyPod("s1", "store")
	readyAgain.UID = "uid-again"
	unreadyAgain := toyPod("s1", "store")
	unreadyAgain.UID, unreadyAgain.Ready = "uid-again", false
	for name, c := range map[string]struct {
		settle *metav1.Duration
		gone   *metav1.Time
		seen   time.Duration // ago, by this process
		pods   []*snapshot.Pod
		sight  PodPresence // of the pod that has its id again
		out    bool
		marked bool
		next   time.Duration
	}{
		"seen gone just now":                      {marked: true, next: defaultSettle + time.Second},
		"seen gone a moment ago, not written":     {seen: time.Second, next: unhurried - time.Second},
		"seen gone a while ago, not written":      {seen: unhurried, marked: true, next: defaultSettle + time.Second - unhurried},
		"its time is over, not written":           {seen: defaultSettle + time.Second, out: true},
		"seen gone a moment ago":                  {gone: at(29 * time.Second), next: 2 * time.Second},
		"its time is over":                        {gone: at(defaultSettle + time.Second), out: true},
		"a Ready pod has its id":                  {gone: at(time.Second), pods: []*snapshot.Pod{readyAgain}, sight: SeenReady, out: true},
		"a Ready pod has its id at once":          {pods: []*snapshot.Pod{readyAgain}, sight: SeenReady, out: true},
		"one that was Ready is gone":              {gone: at(time.Second), pods: []*snapshot.Pod{readyAgain}, sight: SeenGone, next: defaultSettle},
		"one that was Ready is so no more":        {gone: at(time.Second), pods: []*snapshot.Pod{readyAgain}, sight: SeenStaying, next: defaultSettle},
		"one that was Ready is terminating":       {gone: at(time.Second), pods: []*snapshot.Pod{readyAgain}, sight: SeenTerminating, next: defaultSettle},
		"a pod has its id and is not Ready":       {gone: at(time.Second), pods: []*snapshot.Pod{unreadyAgain}, next: defaultSettle},
		"the role says how long":                  {settle: &metav1.Duration{Duration: time.Minute}, gone: at(defaultSettle + time.Second), next: defaultSettle},
		"the role says that it need not":          {settle: &metav1.Duration{}, out: true},
		"seen gone in the future, by some clock":  {gone: at(-time.Hour), marked: true, next: defaultSettle + time.Second},
		"the pod of another has a name like that": {gone: at(time.Second), pods: []*snapshot.Pod{toyPod("s2", "store")}, next: defaultSettle},
	} {
		t.Run(name, func(t *testing.T) {
			in := untidy(t)
			in.Policy.Policy = settling(t, c.settle)
			entry := leaves("s1", "store", since)
			entry.GoneTime = c.gone
			in.Policy.Status.Leaving, in.Pods = []v1alpha1.Leaving{entry}, c.pods
			in.Presences = map[types.UID]PodPresence{"uid-s1": SeenGone}
			if c.gone != nil {
				in.Presences = map[types.UID]PodPresence{} // what is written down needs no second look
			}
			if c.sight != "" {
				in.Presences["uid-again"] = c.sight
			}
			if c.seen > 0 {
				in.Gone = map[types.UID]time.Time{"uid-s1": noon.Add(-c.seen)}
			}
			got := ReconcileStatus(in)
			if crossed := len(got.Actions) == 1 && len(got.Actions[0].Status.Leaving) == 0 && got.Actions[0].Status.Epoch == 5; crossed != c.out {
				t.Errorf("crossed out: %t, want %t", crossed, c.out)
			}
			marked := len(got.Actions) == 1 && len(got.Actions[0].Status.Leaving) == 1 && got.Actions[0].Status.Leaving[0].GoneTime.Time.Equal(noon.Add(-c.seen)) &&
				got.Actions[0].Status.Epoch == 4
			if marked != c.marked {
				t.Errorf("marked: %t, want %t", marked, c.marked)
			}
			if !c.out && (!got.NextLook.Equal(noon.Add(c.next)) || len(LiveReads(in)) > 0) {
				t.Errorf("next look %s, confirm %v", got.NextLook, LiveReads(in))
			}
		})
	}
}

// A pod that was removed by force is gone at once, and its process is not: the settle time begins with the end of its grace.
func TestSettleBeginsAfterLinger(t *testing.T) {
	for _, c := range []struct {
		linger int64
		after  time.Duration
		out    bool
	}{
		{180, 180 * time.Second, false},
		{180, 180*time.Second + defaultSettle, false},
		{180, 181*time.Second + defaultSettle, true},
		{20, 33 * time.Second, false},
		{0, 33 * time.Second, true},
	} {
		in := untidy(t)
		in.Policy.Policy, in.Pods = settling(t, nil), nil
		in.Policy.Status.Leaving = []v1alpha1.Leaving{lingers(noon, c.linger)}
		in.Presences = map[types.UID]PodPresence{"uid-s1": SeenGone}
		in.Gone, in.Now = map[types.UID]time.Time{"uid-s1": noon.Add(time.Second)}, noon.Add(c.after)
		got := ReconcileStatus(in)
		if out := len(got.Actions) > 0 && len(got.Actions[0].Status.Leaving) == 0; out != c.out {
			t.Errorf("linger %d s, after %s: the permit has ended: %t, want %t", c.linger, c.after, out, c.out)
		}
	}
}

// Whether a Ready pod has the id again is looked up with the pod that may be gone: one look for both.
func TestReadyPodsAreConfirmed(t *testing.T) {
	again := toyPod("s1", "store")
	again.UID = "uid-again"
	in := untidy(t)
	in.Policy.Policy = settling(t, nil)
	in.Policy.Status.Leaving, in.Pods = []v1alpha1.Leaving{leaves("s1", "store", noon.Add(-time.Minute))}, []*snapshot.Pod{again}
	want := []Unconfirmed{{Pod: snapshot.Key{Namespace: "shop", Name: "s1"}, UID: "uid-s1"}, {Pod: snapshot.Key{Namespace: "shop", Name: "s1"}, UID: "uid-again"}}
	if got, actions := LiveReads(in), ReconcileStatus(in).Actions; !slices.Equal(got, want) || len(actions) > 0 {
		t.Errorf("confirm %v, want %v; actions %v", got, want, actions)
	}
	in.Policy.Policy = settling(t, &metav1.Duration{})
	if got := LiveReads(in); !slices.Equal(got, want[:1]) {
		t.Errorf("of a role that settles nothing: confirm %v, want %v", got, want[:1])
	}
}

// A member that is gone and not missed by its system yet keeps the next one, and the message says until when.
func TestSettlingMemberHoldsTheNext(t *testing.T) {
	in := world(t)
	in.Policies[0].Policy = settling(t, nil)
	entry := leaves("s1", "store", noon.Add(-time.Minute))
	entry.GoneTime = new(metav1.NewTime(noon.Add(-time.Second)))
	in.Policies[0].Status.Leaving, in.Peers = []v1alpha1.Leaving{entry}, []*snapshot.Pod{toyPod("s0", "store")}
	verdict := Judge(in)
	if got := reasons(verdict); !slices.Equal(got, []string{AnotherIsLeaving}) || !strings.Contains(verdict.Blockers[0].Message, "evict.settle") {
		t.Errorf("verdict %v: %+v", got, verdict.Blockers)
	}
}

func TestMinReady(t *testing.T) {
	for name, c := range map[string]struct {
		given func(*Input, []*snapshot.Pod) []*snapshot.Pod
		floor int32
		want  []string
	}{
		"two others are Ready":      {floor: 2},
		"no floor":                  {given: func(_ *Input, pods []*snapshot.Pod) []*snapshot.Pod { return pods[:1] }},
		"one of two is not Ready":   {floor: 2, want: []string{TooFewReady}, given: func(_ *Input, pods []*snapshot.Pod) []*snapshot.Pod { pods[1].Ready = false; return pods }},
		"one of two is terminating": {floor: 2, want: []string{TooFewReady}, given: func(_ *Input, pods []*snapshot.Pod) []*snapshot.Pod { terminating(pods[1]); return pods }},
		"one of two was let go": {floor: 2, want: []string{TooFewReady}, given: func(in *Input, pods []*snapshot.Pod) []*snapshot.Pod {
			in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("r1", "router", noon)}
			return pods
		}},
		"two pods give the same id": {floor: 2, want: []string{TooFewReady}, given: func(_ *Input, pods []*snapshot.Pod) []*snapshot.Pod { pods[2].Name = "r1"; return pods }},
		"it is not Ready itself":    {floor: 2, given: func(in *Input, pods []*snapshot.Pod) []*snapshot.Pod { in.Pod.Ready = false; return pods[:1] }},
		"it has become Ready since it was read": {floor: 2, want: []string{TooFewReady}, given: func(in *Input, pods []*snapshot.Pod) []*snapshot.Pod {
			read := *in.Pod
			read.Ready, in.Pod = false, &read
			return pods[:1]
		}},
		"members of other roles":       {floor: 3, want: []string{TooFewReady}},
		"it is not known who is there": {floor: 1, want: []string{TooFewReady}, given: func(*Input, []*snapshot.Pod) []*snapshot.Pod { return nil }},
		"its system does not answer":   {floor: 2, given: func(in *Input, pods []*snapshot.Pod) []*snapshot.Pod { in.Evidence = nil; return pods }},
	} {
		t.Run(name, func(t *testing.T) {
			spec := toySpec()
			own := toyRoles()[1]
			own.Evict.MinReady = &c.floor
			spec.Roles = []v1alpha1.Role{own}
			in := world(t)
			in.Policies[0].Policy, in.Pod = compiled(t, spec), toyPod("r0", "router")
			pods := []*snapshot.Pod{in.Pod, toyPod("r1", "router"), toyPod("r2", "router"), toyPod("s0", "store")}
			in.Peers = nil
			if c.given != nil {
				pods = c.given(&in, pods)
			}
			if pods != nil {
				in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], pods)}
			}
			if got := reasons(Judge(in)); !slices.Equal(got, c.want) {
				t.Errorf("reasons %v, want %v", got, c.want)
			}
		})
	}
}

// A pod that was seen gone is in the cache of another replica, and Ready, for a moment: it does not make up the floor, whatever
// the role says of its system.
func TestFloorWithoutThoseThatACacheStillShows(t *testing.T) {
	spec := toySpec()
	own := toyRoles()[1]
	own.Evict.MinReady, own.Evict.Settle = new(int32(2)), &metav1.Duration{}
	spec.Roles = []v1alpha1.Role{own}
	policy := compiled(t, spec)
	tidy := untidy(t)
	tidy.Policy.Policy = policy
	tidy.Policy.Status.Leaving = []v1alpha1.Leaving{leaves("r1", "router", noon.Add(-time.Second))}
	tidy.Presences = map[types.UID]PodPresence{"uid-r1": SeenGone}
	in := world(t)
	in.Pod, in.Peers = toyPod("r0", "router"), nil
	pods := []*snapshot.Pod{in.Pod, toyPod("r1", "router"), toyPod("r2", "router")}
	for _, c := range []struct {
		after time.Duration
		pods  []*snapshot.Pod
		want  []string
	}{
		{0, pods, []string{TooFewReady}},
		{leastSettle, pods, []string{TooFewReady}},
		{leastSettle + time.Second, append(pods, toyPod("r3", "router")), nil},
	} {
		tidy.Now = noon.Add(c.after)
		for _, action := range ReconcileStatus(tidy).Actions {
			tidy.Policy.Status = action.Status
		}
		in.Now, in.Policies[0] = tidy.Now, tidy.Policy
		in.Rosters = map[snapshot.Key]*Roster{tidy.Policy.Key: NewRoster(tidy.Policy, c.pods)}
		if got := reasons(Judge(in)); !slices.Equal(got, c.want) {
			t.Errorf("%s after it was seen gone: %v, want %v", c.after, got, c.want)
		}
	}
	if len(tidy.Policy.Status.Leaving) > 0 {
		t.Errorf("still leaving: %v", tidy.Policy.Status.Leaving)
	}
}

// A permit is written for a member of a role with a floor, so that the next one is counted without it.
func TestFloorIsCounted(t *testing.T) {
	spec := toySpec()
	own := toyRoles()[1]
	own.Evict.MinReady = new(int32(1))
	spec.Roles = []v1alpha1.Role{own}
	in := world(t)
	in.Policies[0].Policy, in.Pod = compiled(t, spec), toyPod("r0", "router")
	in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], []*snapshot.Pod{in.Pod, toyPod("r1", "router")})}
	got := Admit(AdmissionInput{Input: in, Verb: VerbEvict, User: "kubectl"})
	if !got.Allow || len(got.Actions) != 1 || got.Actions[0].Kind != Permit {
		t.Errorf("allowed %t, actions %+v", got.Allow, got.Actions)
	}
}

func TestRulesSeeMembersWithoutReadyPod(t *testing.T) {
	spec := toySpec()
	own := toyRoles()[0]
	own.Evict.Prepare = nil
	own.Evict.AtOnce = new(int32(0))
	own.Evict.Rules = []v1alpha1.Rule{{Name: "all-ready", Reason: "OtherNotReady", Expression: "unready.size() == 0", Message: "not Ready: {{unready}}"}}
	spec.Roles = []v1alpha1.Role{own}
	for name, c := range map[string]struct {
		given func(*Input, []*snapshot.Pod)
		want  string // in the message; "": allowed
	}{
		"all are Ready":              {},
		"one is not":                 {want: "m-s1", given: func(_ *Input, pods []*snapshot.Pod) { pods[1].Ready = false }},
		"one of another role is not": {want: "m-r0", given: func(_ *Input, pods []*snapshot.Pod) { pods[2].Ready = false }},
		"one is gone and settles": {want: "m-s9", given: func(in *Input, _ []*snapshot.Pod) {
			in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s9", "store", noon)}
		}},
		"the one itself is not":         {given: func(in *Input, pods []*snapshot.Pod) { pods[0].Ready, in.Pod.Ready = false, false }},
		"its containers have all ended": {want: "m-s1", given: func(_ *Input, pods []*snapshot.Pod) { pods[1].Phase = "Failed" }},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			in.Policies[0].Policy = compiled(t, spec)
			pods := []*snapshot.Pod{toyPod("s0", "store"), toyPod("s1", "store"), toyPod("r0", "router")}
			in.Peers = nil
			if c.given != nil {
				c.given(&in, pods)
			}
			in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], pods)}
			verdict := Judge(in)
			if (c.want == "") != (verdict.Answer == Allowed) || (c.want != "" && !strings.Contains(verdict.Blockers[0].Message, c.want)) {
				t.Errorf("verdict %s: %+v", verdict.Answer, verdict.Blockers)
			}
		})
	}
	in := world(t)
	in.Policies[0].Policy = compiled(t, spec)
	if got := reasons(Judge(in)); !slices.Equal(got, []string{FactMissing}) {
		t.Errorf("without a list of members: %v", got)
	}
}

// Rules on a replacement see the same members as those on an eviction.
func TestReplacementSeesTheOthers(t *testing.T) {
	spec := toySpec()
	own := toyRoles()[0]
	own.Replace.Rules = []v1alpha1.Rule{
		{Name: "none-leaves", Reason: "AnotherLeaves", Expression: "leaving.size() == 0", Message: "{{leaving}}"},
		{Name: "all-ready", Reason: "OtherNotReady", Expression: "unready.size() == 0", Message: "{{unready}}"},
	}
	spec.Roles = []v1alpha1.Role{own}
	in := world(t)
	in.Policies[0].Policy = compiled(t, spec)
	in.Rosters = map[snapshot.Key]*Roster{in.Policies[0].Key: NewRoster(in.Policies[0], in.Peers)}
	if got := reasons(JudgeReplace(in)); len(got) > 0 || !in.Policies[0].Policy.AsksForRoster() {
		t.Errorf("no member leaves: %v", got)
	}
	in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s1", "store", noon)}
	if got := reasons(JudgeReplace(in)); !slices.Equal(got, []string{"AnotherLeaves", "OtherNotReady"}) {
		t.Errorf("another leaves: %v", got)
	}
}

// The ids of members that leave are those that the policy gives them now, by which the system is asked.
func TestLeavingGoesByPresentID(t *testing.T) {
	spec := toySpec()
	own := toyRoles()[0]
	own.Evict.Prepare, own.Evict.AtOnce = nil, new(int32(0))
	own.Evict.Rules = []v1alpha1.Rule{{Name: "one", Reason: "TwoGo", Expression: `!("m-s1" in leaving)`, Message: "{{leaving}}"}}
	spec.Roles = []v1alpha1.Role{own}
	in := world(t)
	in.Policies[0].Policy = compiled(t, spec)
	entry := leaves("s1", "store", noon)
	entry.ID = "old-id-of-s1"
	in.Policies[0].Status.Leaving = []v1alpha1.Leaving{entry}
	if got := reasons(Judge(in)); !slices.Equal(got, []string{"TwoGo"}) {
		t.Errorf("reasons %v", got)
	}
	in.Peers = []*snapshot.Pod{in.Pod}
	if got := reasons(Judge(in)); len(got) > 0 {
		t.Errorf("a member whose pod is gone has the id of its permit: %v", got)
	}
}

// A pod that was removed by force is not known to be deleted for as long as its process may go on.
func TestDeletedOnceItsProcessHasEnded(t *testing.T) {
	in := world(t)
	in.Deleted = true
	if got := JudgeReplace(in).Answer; got != Allowed {
		t.Errorf("deleted: %s", got)
	}
	entry := leaves("s0", "store", noon.Add(-time.Minute))
	entry.LingerSeconds = 180
	in.Policies[0].Status.Leaving = []v1alpha1.Leaving{entry}
	if got := JudgeReplace(in).Answer; got != Blocked {
		t.Errorf("removed by force a minute ago: %s", got)
	}
	in.Now = noon.Add(2 * time.Minute)
	in.Evidence.Observed = in.Now
	if got := JudgeReplace(in).Answer; got != Allowed {
		t.Errorf("removed by force three minutes ago: %s", got)
	}
	in.Policies[0].Status.Leaving[0].LingerSeconds = 9_223_372_037
	if got := JudgeReplace(in).Answer; got != Blocked {
		t.Errorf("removed by force, and may go on for centuries: %s", got)
	}
}

func TestJobIsWrittenDown(t *testing.T) {
	for name, c := range map[string]struct {
		job    Job
		origin v1alpha1.JobOrigin
	}{
		"begun": {Job{ID: "7"}, v1alpha1.JobBegun},
		"found": {Job{ID: "7", Found: true}, v1alpha1.JobFound},
	} {
		t.Run(name, func(t *testing.T) {
			in := wanted(t)
			in.Evidence.Members["m-s0"]["drained"] = false
			first := Step(in)
			at := slices.IndexFunc(first.Actions, func(a Action) bool { return a.Kind == Prepare })
			if at < 0 || first.Actions[at].Step.Job != (Job{}) {
				t.Fatalf("the first call: %+v", first.Actions)
			}
			in.Policies[0].Status.Preparations = first.Actions[at-1].Status.Preparations
			in.Replies = []Reply{{Step: first.Actions[at].Step, Job: c.job}}
			second := Step(in)
			at = slices.IndexFunc(second.Actions, func(a Action) bool { return a.Kind == Begin })
			if at < 0 || slices.Contains(kinds(second.Actions), Prepare) {
				t.Fatalf("the job is not written down by itself: %v", kinds(second.Actions))
			}
			entry := second.Actions[at].Status.Preparations[0]
			if entry.Job != "7" || entry.JobOrigin != c.origin {
				t.Errorf("written down: %+v", entry)
			}
			in.Policies[0].Status.Preparations = second.Actions[at].Status.Preparations
			in.Now = noon.Add(askAgain)
			in.Evidence.Observed = in.Now
			again := Step(in)
			at = slices.IndexFunc(again.Actions, func(a Action) bool { return a.Kind == Prepare })
			if at < 0 || again.Actions[at].Step.Job != c.job {
				t.Errorf("the next call: %+v", again.Actions)
			}
			undone := ReconcileStatus(StatusInput{Now: in.Now, Policy: in.Policies[0], Pods: []*snapshot.Pod{in.Pod}, Replies: in.Replies, WantedKnown: true})
			at = slices.IndexFunc(undone.Actions, func(a Action) bool { return a.Kind == Undo })
			if at < 0 || undone.Actions[at].Step.Job != c.job {
				t.Errorf("taken back: %+v", undone.Actions)
			}
		})
	}
}

// A permit is no older than the process has known it for: a clock that was set forward does not end it.
func TestAClockSetForwardEndsNoPermit(t *testing.T) {
	long := noon.Add(-time.Hour)
	for name, c := range map[string]struct {
		entry v1alpha1.Leaving
		sight PodPresence
		gone  bool // its GoneTime is written
		known KnownFor
		out   bool
		next  time.Duration
	}{
		"given a moment ago, and its pod stays":     {entry: leaves("s1", "store", long), sight: SeenStaying, known: KnownFor{Permit: time.Second}, next: permitLife - time.Second},
		"given long ago, and its pod stays":         {entry: leaves("s1", "store", long), sight: SeenStaying, known: KnownFor{Permit: permitLife}, out: true},
		"its pod is gone for a moment":              {entry: leaves("s1", "store", long), gone: true, known: KnownFor{time.Minute, time.Second}, next: defaultSettle - time.Second},
		"its pod is gone for long":                  {entry: leaves("s1", "store", long), gone: true, known: KnownFor{time.Minute, defaultSettle}, out: true},
		"removed by force, its process may go on":   {entry: lingers(long, 180), sight: SeenGone, known: KnownFor{179 * time.Second, time.Minute}, next: time.Second},
		"removed by force, its process has ended":   {entry: lingers(long, 180), gone: true, known: KnownFor{181 * time.Second, 3 * time.Minute}, next: defaultSettle - time.Second},
		"removed by force, and its system knows it": {entry: lingers(long, 180), gone: true, known: KnownFor{180*time.Second + defaultSettle, 3 * time.Minute}, out: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := untidy(t)
			in.Policy.Policy, in.Pods = settling(t, nil), nil
			if c.gone {
				c.entry.GoneTime = new(metav1.NewTime(long))
			}
			in.Policy.Status.Leaving = []v1alpha1.Leaving{c.entry}
			in.Known, in.Presences = map[types.UID]KnownFor{"uid-s1": c.known}, map[types.UID]PodPresence{}
			if c.sight != "" {
				in.Presences["uid-s1"] = c.sight
			}
			got := ReconcileStatus(in)
			if out := len(got.Actions) > 0 && len(got.Actions[0].Status.Leaving) == 0; out != c.out {
				t.Errorf("the permit has ended: %t, want %t", out, c.out)
			}
			if !c.out && !got.NextLook.Equal(noon.Add(c.next)) {
				t.Errorf("next look in %s, want %s", got.NextLook.Sub(noon), c.next)
			}
		})
	}
}
