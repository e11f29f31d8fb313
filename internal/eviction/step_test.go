package eviction

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// wanted is a request for the eviction of s0, in Usher's turn.
func wanted(t testing.TB) ResponderInput {
	t.Helper()
	return ResponderInput{Input: world(t), Wanted: true, Active: true}
}

func TestStep(t *testing.T) {
	drain := func(state v1alpha1.PreparationState, ago time.Duration) func(*ResponderInput) {
		return func(in *ResponderInput) {
			in.Evidence.Members["m-s0"]["drained"] = false
			in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", state, noon.Add(-ago))}
		}
	}
	reply := func(h Reply, ago time.Duration) func(*ResponderInput) {
		return func(in *ResponderInput) {
			h.Step = Preparation{Name: "Drain", Member: v1alpha1.MemberRef{PodUID: "uid-s0"}, Asked: noon.Add(-ago)}
			in.Replies = []Reply{h}
		}
	}
	also := func(steps ...func(*ResponderInput)) func(*ResponderInput) {
		return func(in *ResponderInput) {
			for _, step := range steps {
				step(in)
			}
		}
	}
	passive := func(in *ResponderInput) { in.Active = false }
	unwanted := func(in *ResponderInput) { in.Wanted = false }
	ungoverned := func(in *ResponderInput) {
		in.Pod.Labels = nil
		in.Requests = []AdmissionRequest{{Pod: in.Pod.Key(), UID: in.Pod.UID, Requester: "alice"}}
	}
	refused := func(held bool, ago ...time.Duration) func(*ResponderInput) {
		return func(in *ResponderInput) {
			in.OnlyAdmission = true
			for i, d := range ago {
				in.Requests = append(in.Requests, AdmissionRequest{
					Pod: in.Pod.Key(), UID: in.Pod.UID, Requester: "alice" + strconv.Itoa(i), Asked: noon.Add(-d), Held: held,
				})
			}
		}
	}
	for name, c := range map[string]struct {
		given func(*ResponderInput)
		want  []ActionKind
		next  time.Duration // 0: only when something happens
		tells string
		ends  bool // what is told ends Usher's part
	}{
		"it may go":                          {given: func(*ResponderInput) {}, want: []ActionKind{Permit, Evict}, next: lookAgain},
		"it was evicted just now":            {given: func(in *ResponderInput) { in.Accepted = noon.Add(-9 * time.Second) }, next: time.Second},
		"it was evicted a while ago":         {given: func(in *ResponderInput) { in.Accepted = noon.Add(-lookAgain) }, want: []ActionKind{Permit, Evict}, next: lookAgain},
		"it was evicted in the future":       {given: func(in *ResponderInput) { in.Accepted = noon.Add(time.Hour) }, want: []ActionKind{Permit, Evict}, next: lookAgain},
		"it may go, not our turn":            {given: passive, next: lookAgain},
		"its caller asks again":              {given: refused(false, 90*time.Second, time.Minute), want: []ActionKind{Respond}, next: 15 * time.Second, tells: "alice1 was refused before"},
		"its caller has given up":            {given: refused(false, callerRetryGrace), want: []ActionKind{Permit, Evict}, next: lookAgain},
		"its caller asks only once":          {given: refused(true, 0), want: []ActionKind{Permit, Evict}, next: lookAgain},
		"its caller asked in the future":     {given: refused(false, -time.Hour), want: []ActionKind{Permit, Evict}, next: lookAgain},
		"others want it gone as well":        {given: also(refused(false, 0), func(in *ResponderInput) { in.OnlyAdmission = false }), want: []ActionKind{Permit, Evict}, next: lookAgain},
		"a step begins":                      {given: func(in *ResponderInput) { in.Evidence.Members["m-s0"]["drained"] = false }, want: []ActionKind{Respond, Begin, Prepare}, next: lookAgain, tells: "m-s0 still holds"},
		"a step begins, not our turn":        {given: also(passive, func(in *ResponderInput) { in.Evidence.Members["m-s0"]["drained"] = false }), want: []ActionKind{Begin, Prepare}, next: lookAgain},
		"a step was asked for just now":      {given: drain(v1alpha1.PreparationBegun, 9*time.Second), want: []ActionKind{Respond}, next: time.Second, tells: "Drain was begun"},
		"a step is asked for again":          {given: drain(v1alpha1.PreparationBegun, 10*time.Second), want: []ActionKind{Respond, Begin, Prepare}, next: lookAgain},
		"a step was asked for in the future": {given: drain(v1alpha1.PreparationBegun, -time.Hour), want: []ActionKind{Respond, Begin, Prepare}, next: lookAgain},
		"a step has more to do": {
			given: also(drain(v1alpha1.PreparationBegun, time.Second), reply(Reply{Job: Job{Progress: ProgressSoon}}, time.Second)),
			want:  []ActionKind{Respond, Begin, Prepare}, next: lookAgain,
		},
		"a step has more to do, asked for at this moment": {
			given: also(drain(v1alpha1.PreparationBegun, 0), reply(Reply{Job: Job{Progress: ProgressSoon}}, 0)), want: []ActionKind{Respond}, next: askSoon,
		},
		"a step had more to do, by another call": {
			given: also(drain(v1alpha1.PreparationBegun, time.Second), reply(Reply{Job: Job{Progress: ProgressSoon}}, time.Minute)), want: []ActionKind{Respond}, next: 9 * time.Second,
		},
		"a step whose job is written down has more to do": {
			given: also(drain(v1alpha1.PreparationBegun, 0), reply(Reply{Job: Job{ID: "7", Progress: ProgressSoon}}, 0), func(in *ResponderInput) {
				p := &in.Policies[0].Status.Preparations[0]
				p.Job, p.JobOrigin = "7", v1alpha1.JobBegun
			}),
			want: []ActionKind{Respond}, next: askSoon,
		},
		"a step has more to do, and failed": {
			given: also(drain(v1alpha1.PreparationBegun, time.Second), reply(Reply{Job: Job{Progress: ProgressSoon}, Error: "503"}, time.Second)),
			want:  []ActionKind{Respond}, next: 9 * time.Second,
		},
		"a step failed":                 {given: also(drain(v1alpha1.PreparationBegun, 9*time.Second), reply(Reply{Error: "503"}, 9*time.Second)), want: []ActionKind{Respond}, next: time.Second, tells: "the system's last answer: 503"},
		"a step was refused":            {given: also(drain(v1alpha1.PreparationBegun, time.Minute), reply(Reply{Terminal: true}, time.Minute)), want: []ActionKind{Respond}, next: lookAgain},
		"another call was refused":      {given: also(drain(v1alpha1.PreparationBegun, time.Minute), reply(Reply{Terminal: true}, 2*time.Minute)), want: []ActionKind{Respond, Begin, Prepare}, next: lookAgain},
		"it is taken back first":        {given: drain(v1alpha1.PreparationUndoing, time.Minute), want: []ActionKind{Respond}, next: lookAgain, tells: "being taken back"},
		"it cannot be taken back":       {given: also(drain(v1alpha1.PreparationUndoing, time.Minute), reply(Reply{Undo: true, Terminal: true}, time.Minute)), want: []ActionKind{Respond, Begin, Prepare}, next: lookAgain},
		"stale evidence begins nothing": {given: func(in *ResponderInput) { in.Evidence.Members["m-s0"]["drained"] = false; in.Evidence.Epoch = 0 }, want: []ActionKind{Respond}, next: 5 * time.Second},
		"never":                         {given: func(in *ResponderInput) { in.Pod = toyPod("x0", "single") }, want: []ActionKind{Respond}, next: heartbeat, tells: "may never leave"},
		"a static pod":                  {given: func(in *ResponderInput) { in.Pod.Mirror = true }, want: []ActionKind{Respond}, next: heartbeat, tells: "Never: pod shop/s0"},
		"suspended":                     {given: func(in *ResponderInput) { in.Policies[0].Policy.suspended = true }, want: []ActionKind{Respond}, next: time.Minute, tells: "suspended"},
		"suspended, broken glass": {given: func(in *ResponderInput) {
			in.Policies[0].Policy.suspended = true
			in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
		}, want: []ActionKind{Respond}, next: time.Minute},
		"broken glass": {given: func(in *ResponderInput) {
			in.Evidence = nil
			in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "fire"}
		}, want: []ActionKind{Permit, Evict}, next: lookAgain},
		"terminating":                          {given: func(in *ResponderInput) { in.Pod = terminating(in.Pod); in.Pod.Grace = time.Minute }, want: []ActionKind{Respond}, next: heartbeat, tells: "terminating"},
		"terminating since a moment ago":       {given: func(in *ResponderInput) { in.Pod = terminating(in.Pod); in.Pod.Grace = 31 * time.Second }, next: time.Second},
		"terminating, since when is not known": {given: func(in *ResponderInput) { in.Pod = terminating(in.Pod); in.Pod.Grace = time.Second }, want: []ActionKind{Respond}, next: heartbeat, tells: "terminating"},
		"terminating, not governed":            {given: func(in *ResponderInput) { in.Pod = terminating(in.Pod); in.Pod.Labels = nil }, want: []ActionKind{Respond}, next: heartbeat, tells: "no policy", ends: true},
		"terminating, not governed, admission asked": {given: also(ungoverned, func(in *ResponderInput) {
			in.Pod, in.OnlyAdmission = terminating(in.Pod), true
		}), want: []ActionKind{Respond}, next: heartbeat, tells: "no policy", ends: true},
		"gone":         {given: func(in *ResponderInput) { in.Deleted = true }, want: []ActionKind{Respond}, tells: "gone", ends: true},
		"not governed": {given: func(in *ResponderInput) { in.Pod.Labels = nil }, want: []ActionKind{Respond}, next: heartbeat, tells: "no policy", ends: true},
		"its policy goes, admission asked": {given: func(in *ResponderInput) {
			in.Policies[0].Deleted, in.OnlyAdmission = true, true
			in.Requests = []AdmissionRequest{{}}
		}, want: []ActionKind{Withdraw}, next: heartbeat},
		"its policy goes, others asked":  {given: func(in *ResponderInput) { in.Policies[0].Deleted = true }, want: []ActionKind{Permit, Evict}, next: lookAgain},
		"not governed, admission asked":  {given: also(ungoverned, func(in *ResponderInput) { in.OnlyAdmission = true }), want: []ActionKind{Withdraw}, next: heartbeat},
		"not governed, others asked too": {given: ungoverned, want: []ActionKind{Withdraw, Respond}, next: heartbeat, tells: "no policy", ends: true},
		"two policies":                   {given: func(in *ResponderInput) { in.Policies = append(in.Policies, in.Policies[0]) }, want: []ActionKind{Respond}, next: time.Minute, tells: "more than one"},
		"withdrawn, nothing begun":       {given: unwanted},
		"withdrawn":                      {given: also(unwanted, drain(v1alpha1.PreparationBegun, time.Minute))},
		"withdrawn too late":             {given: also(unwanted, drain(v1alpha1.PreparationBegun, time.Second), func(in *ResponderInput) { in.Pod = terminating(in.Pod) })},
	} {
		t.Run(name, func(t *testing.T) {
			in := wanted(t)
			c.given(&in)
			got := Step(in)
			if diff := cmp.Diff(c.want, kinds(got.Actions)); diff != "" {
				t.Errorf("actions: %s", diff)
			}
			next := time.Time{}
			if c.next > 0 {
				next = noon.Add(c.next)
			}
			if !got.NextLook.Equal(next) {
				t.Errorf("next look at %s, want %s", got.NextLook, next)
			}
			for _, action := range got.Actions {
				if action.Kind == Respond && (action.Report.Message == "" || !strings.Contains(action.Report.Message, c.tells)) {
					t.Errorf("tells %q, want %q", action.Report.Message, c.tells)
				}
				if action.Kind == Respond && action.Report.Completed != c.ends {
					t.Errorf("ends Usher's part: %v, want %v", action.Report.Completed, c.ends)
				}
			}
		})
	}
}

func TestExpected(t *testing.T) {
	drains := func(left int, entries ...v1alpha1.PreparationStatus) func(*ResponderInput) {
		return func(in *ResponderInput) {
			in.Evidence.Members["m-s0"] = expression.Facts{"drained": false, "shards": make([]string, left)}
			in.Policies[0].Status.Preparations = entries
		}
	}
	resigns := func(entries ...v1alpha1.PreparationStatus) func(*ResponderInput) {
		return func(in *ResponderInput) {
			in.Evidence.System["leader"] = "m-s0"
			in.Policies[0].Status.Preparations = entries
		}
	}
	since := func(entry v1alpha1.PreparationStatus, ago time.Duration, left int64) v1alpha1.PreparationStatus {
		entry.StartTime, entry.RemainingAtStart = moment(noon.Add(-ago)), left
		return entry
	}
	drain, resign := begun("Drain", "s0", v1alpha1.PreparationBegun, noon), begun("Resign", "s0", v1alpha1.PreparationBegun, noon)
	for name, c := range map[string]struct {
		given func(*ResponderInput)
		want  time.Duration // from now; 0: not known
	}{
		"what takes its time, not begun":    {resigns(), 5 * time.Second},
		"what takes its time":               {resigns(since(resign, 3*time.Second, 0)), 2 * time.Second},
		"what took longer":                  {resigns(since(resign, 8*time.Second, 0)), -3 * time.Second},
		"what is counted, not begun":        {drains(8), 0},
		"a quarter is done in a minute":     {drains(6, since(drain, time.Minute, 8)), 3 * time.Minute},
		"nothing is done yet":               {drains(8, since(drain, time.Minute, 8)), 0},
		"more is left than there was":       {drains(9, since(drain, time.Minute, 8)), 0},
		"it was not counted when it began":  {drains(8, since(drain, time.Minute, 0)), 0},
		"nothing is left, and it is needed": {drains(0, since(drain, time.Minute, 8)), 0},
		"it would take ages":                {drains(1_000_000, since(drain, 100*time.Hour, 1_000_001)), 0},
		"it was begun in the future":        {drains(6, since(drain, -time.Minute, 8)), 0},
		"it is being taken back":            {drains(6, since(begun("Drain", "s0", v1alpha1.PreparationUndoing, noon), time.Minute, 8)), 0},
		"another step comes after it":       {func(in *ResponderInput) { drains(6)(in); resigns(since(resign, time.Second, 0))(in) }, 0},
		"what is left cannot be counted now": {func(in *ResponderInput) {
			drains(6, since(drain, time.Minute, 8))(in)
			delete(in.Evidence.Members["m-s0"], "shards")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := wanted(t)
			c.given(&in)
			want := time.Time{}
			if c.want != 0 {
				want = noon.Add(c.want)
			}
			first := Step(in).Actions[0]
			if first.Kind != Respond || !first.Report.Expected.Equal(want) {
				t.Errorf("%s: expected at %s, want %s", first.Kind, first.Report.Expected, want)
			}
		})
	}
}

// What there is to do is counted when a step begins, and when it begins anew.
func TestBeginCounts(t *testing.T) {
	for _, entries := range [][]v1alpha1.PreparationStatus{nil, {begun("Drain", "s0", v1alpha1.PreparationUndoing, noon.Add(-time.Minute))}} {
		in := wanted(t)
		in.Evidence.Members["m-s0"] = expression.Facts{"drained": false, "shards": []string{"a", "b", "c"}}
		in.Policies[0].Status.Preparations = entries
		in.Replies = []Reply{{Step: Preparation{Name: "Drain", Member: v1alpha1.MemberRef{PodUID: "uid-s0"}, Asked: noon.Add(-time.Minute)}, Undo: true, Terminal: true}}
		if got := Step(in).Actions[1]; got.Kind != Begin || got.Status.Preparations[0].RemainingAtStart != 3 {
			t.Errorf("%s with %+v", got.Kind, got.Status.Preparations)
		}
	}
}

// A pod whose spec gives it no time would be gone before its process has ended.
func TestStepGivesTime(t *testing.T) {
	for own, want := range map[time.Duration]time.Duration{0: time.Second, 30 * time.Second: 0} {
		in := wanted(t)
		in.Pod.Grace = own
		actions := Step(in).Actions
		if last := actions[len(actions)-1]; last.Kind != Evict || last.Grace != want {
			t.Errorf("a pod with %s: %s with a grace period of %s, want %s", own, last.Kind, last.Grace, want)
		}
	}
}

func TestBegin(t *testing.T) {
	in := wanted(t)
	in.Evidence.Members["m-s0"]["drained"] = false
	in.Now = noon.Add(300 * time.Millisecond) // the API keeps whole seconds
	actions := Step(in).Actions
	want := &v1alpha1.EvictionPolicyStatus{
		Epoch: 4, Preparations: []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationBegun, noon)},
	}
	want.Preparations[0].Node = in.Pod.Node
	if diff := cmp.Diff(want, actions[1].Status); diff != "" || actions[1].Version != "7" {
		t.Error(actions[1].Version, diff)
	}
	step := Preparation{
		Name: "Drain", Namespace: "shop", Member: memberRef("store", "m-s0", in.Pod), Message: "0 shards are to be moved", Asked: noon,
	}
	if diff := cmp.Diff(step, actions[2].Step); diff != "" {
		t.Error(diff)
	}

	// It is asked for again, with what the system said.
	in.Policies[0].Status = want
	in.Now, in.Evidence.Observed = noon.Add(time.Minute), noon.Add(time.Minute)
	in.Replies = []Reply{{Step: Preparation{Name: "Drain", Member: v1alpha1.MemberRef{PodUID: "uid-s0"}, Asked: noon}, Error: "503"}}
	entry := Step(in).Actions[1].Status.Preparations
	if len(entry) != 1 || entry[0].Message != "503" || !entry[0].StartTime.Time.Equal(noon) || !entry[0].LastRequestTime.Time.Equal(in.Now) {
		t.Errorf("%+v", entry)
	}
}

func TestUndoEndsTheEpoch(t *testing.T) {
	asked := noon.Add(-unhurried)
	in := withdrawn(t, Reply{Step: Preparation{Name: "Drain", Member: v1alpha1.MemberRef{PodUID: "uid-s0"}, Asked: asked}, Undo: true, Done: true})
	in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{
		begun("Resign", "s1", v1alpha1.PreparationBegun, noon), begun("Drain", "s0", v1alpha1.PreparationUndoing, asked),
	}
	status := ReconcileStatus(in).Actions[0].Status
	if status.Epoch != 5 || len(status.Preparations) != 1 || status.Preparations[0].Name != "Resign" {
		t.Errorf("%+v", status)
	}
}

// withdrawn is the policy of a pod that is wanted gone no longer, with what its system has said.
func withdrawn(t *testing.T, replies ...Reply) StatusInput {
	t.Helper()
	in := wanted(t)
	return StatusInput{Now: in.Now, Policy: in.Policies[0], Pods: []*snapshot.Pod{in.Pod}, Replies: replies, WantedKnown: true}
}

// What the system leaves because it may be another client's is crossed out, and said.
func TestWhatIsLeftIsSaid(t *testing.T) {
	asked := noon.Add(-unhurried)
	in := withdrawn(t, Reply{Step: Preparation{Name: "Drain", Member: v1alpha1.MemberRef{PodUID: "uid-s0"}, Asked: asked}, Undo: true, Done: true, Left: "job 7 goes on"})
	in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationUndoing, asked)}
	actions := ReconcileStatus(in).Actions
	if len(actions) != 1 || len(actions[0].Status.Preparations) > 0 {
		t.Fatalf("actions %+v", actions)
	}
	if diff := cmp.Diff([]Leftover{{Step: "Drain", Member: "m-s0", Message: "job 7 goes on"}}, actions[0].Left); diff != "" {
		t.Error(diff)
	}
}

// TestFoundJobIsReported: a job that was found is reported before a request is withdrawn; one of the step's own is not.
func TestFoundJobIsReported(t *testing.T) {
	for origin, want := range map[v1alpha1.JobOrigin]bool{v1alpha1.JobFound: true, v1alpha1.JobBegun: false} {
		in := wanted(t)
		in.Evidence.Members["m-s0"]["drained"] = false
		entry := begun("Drain", "s0", v1alpha1.PreparationBegun, noon)
		entry.Job, entry.JobOrigin = "7", origin
		in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{entry}
		actions := Step(in).Actions
		if len(actions) == 0 || strings.Contains(actions[0].Report.Message, "job 7 was under way") != want {
			t.Errorf("%s: %+v", origin, actions)
		}
	}
}

// A step that is wanted again while it could not be taken back keeps its job: without the id it would never be taken back.
func TestJobOutlivesARefusedUndo(t *testing.T) {
	in := wanted(t)
	in.Evidence.Members["m-s0"]["drained"] = false
	entry := begun("Drain", "s0", v1alpha1.PreparationUndoing, noon.Add(-time.Minute))
	entry.Job, entry.JobOrigin = "7", v1alpha1.JobBegun
	in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{entry}
	in.Replies = []Reply{{Step: Preparation{Name: "Drain", Member: v1alpha1.MemberRef{PodUID: "uid-s0"}, Asked: noon.Add(-time.Minute)}, Undo: true, Terminal: true}}
	actions := Step(in).Actions
	last := actions[len(actions)-1]
	if last.Kind != Prepare || last.Step.Job != (Job{ID: "7"}) || actions[1].Status.Preparations[0].Job != "7" {
		t.Errorf("%+v", actions)
	}
}

// The id of a job is written down although its pod leaves, or has left, before the responder looks again.
func TestTidyWritesTheJobDown(t *testing.T) {
	for name, c := range map[string]struct {
		pods  []*snapshot.Pod
		sight PodPresence
		state v1alpha1.PreparationState
	}{
		"its pod is there":              {pods: []*snapshot.Pod{toyPod("s0", "store")}, state: v1alpha1.PreparationBegun},
		"its pod terminates":            {pods: []*snapshot.Pod{terminating(toyPod("s0", "store"))}, state: v1alpha1.PreparationBegun},
		"its pod is gone":               {sight: SeenGone, state: v1alpha1.PreparationBegun},
		"its pod was made anew already": {pods: []*snapshot.Pod{again(toyPod("s0", "store"))}, sight: SeenGone, state: v1alpha1.PreparationUndoing},
	} {
		t.Run(name, func(t *testing.T) {
			in := untidy(t)
			in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationBegun, noon)}
			in.Pods, in.Wanted, in.WantedKnown = c.pods, map[types.UID]bool{"uid-s0": true}, true
			in.Presences = map[types.UID]PodPresence{"uid-s0": c.sight}
			in.Replies = []Reply{{Step: Preparation{Name: "Drain", Member: v1alpha1.MemberRef{PodUID: "uid-s0"}, Asked: noon}, Job: Job{ID: "7"}}}
			actions := ReconcileStatus(in).Actions
			if len(actions) == 0 || len(actions[0].Status.Preparations) != 1 {
				t.Fatalf("actions %+v", actions)
			}
			entry := actions[0].Status.Preparations[0]
			if entry.Job != "7" || entry.JobOrigin != v1alpha1.JobBegun || entry.State != c.state {
				t.Errorf("written down: %+v", entry)
			}
		})
	}
}

func again(pod *snapshot.Pod) *snapshot.Pod {
	pod.UID += "-again"
	return pod
}

// A step is begun for a policy whose deletion waits for it, and for none that is being deleted.
func TestBeginHoldsThePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		given func(*ResponderInput)
		want  []ActionKind
		says  string
		next  time.Duration
	}{
		"held":         {given: func(in *ResponderInput) { in.Policies[0].Held = true }, want: []ActionKind{Respond, Begin, Prepare}, next: lookAgain},
		"not held yet": {given: func(*ResponderInput) {}, want: []ActionKind{Hold}},
		"refused": {
			given: func(in *ResponderInput) { in.HoldRefused = "no finalizers here" }, want: []ActionKind{Respond},
			says: "cannot be held while it is (finalizer usher.sh/undo): no finalizers here", next: holdAgain,
		},
		"refused a while ago, held now": {given: func(in *ResponderInput) { in.Policies[0].Held, in.HoldRefused = true, "no" }, want: []ActionKind{Respond, Begin, Prepare}, next: lookAgain},
		"the policy goes":               {given: func(in *ResponderInput) { in.Policies[0].Deleted = true }, want: []ActionKind{Respond}, next: lookAgain},
		"the policy goes, held":         {given: func(in *ResponderInput) { in.Policies[0].Deleted, in.Policies[0].Held = true, true }, want: []ActionKind{Respond}, next: lookAgain},
		"nothing is to be begun":        {given: func(in *ResponderInput) { in.Evidence.Members["m-s0"]["drained"] = true }, want: []ActionKind{Permit, Evict}},
	} {
		t.Run(name, func(t *testing.T) {
			in := wanted(t)
			in.Policies[0].Held = false
			in.Evidence.Members["m-s0"]["drained"] = false
			c.given(&in)
			got := Step(in)
			if diff := cmp.Diff(c.want, kinds(got.Actions)); diff != "" {
				t.Fatal(diff)
			}
			if said := got.Actions[0].Report.Message; !strings.Contains(said, c.says) || c.says == "" && strings.Contains(said, "cannot be held") {
				t.Errorf("it says %q", said)
			}
			if _, holds := got.Holds(); holds != (c.want[0] == Hold) || holds && got.Actions[0].Version != "7" {
				t.Errorf("it holds the policy: %t, at version %q", holds, got.Actions[0].Version)
			}
			if c.next > 0 && !got.NextLook.Equal(noon.Add(c.next)) {
				t.Errorf("next look %s", got.NextLook)
			}
		})
	}
}

// What is said of a pod whose glass is broken is not that its system lets it go.
func TestWhyAPodGoes(t *testing.T) {
	for name, c := range map[string]struct {
		drained bool
		want    string
	}{
		"its system lets it go": {drained: true, want: "its system lets it go"},
		"the glass is broken":   {want: "annotation " + v1alpha1.BreakGlassAnnotation + " lets it go, whatever its system says"},
	} {
		t.Run(name, func(t *testing.T) {
			in := wanted(t)
			in.Evidence.Members["m-s0"]["drained"] = c.drained
			if !c.drained {
				in.Pod.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: "the disk is lost"}
			}
			got := Step(in).Actions
			if at := slices.IndexFunc(got, func(a Action) bool { return a.Kind == Evict }); at < 0 || !strings.HasSuffix(got[at].Why, " leaves: "+c.want) {
				t.Errorf("evicts: %+v", got)
			}
			in.OnlyAdmission, in.Requests = true, []AdmissionRequest{{UID: in.Pod.UID, Requester: "alice", Asked: in.Now}}
			if got := Step(in).Actions; len(got) != 1 || !strings.HasPrefix(got[0].Report.Message, c.want+"; alice ") {
				t.Errorf("waits: %+v", got)
			}
		})
	}
}
