package eviction

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// departedStore is a store that was emptied and let go, and was seen gone a second ago. Its member is back in another pod, which is Ready.
func departedStore(t testing.TB) StatusInput {
	t.Helper()
	in := untidy(t)
	back := toyPod("s0", "store")
	back.UID = "uid-back"
	in.Policy.Policy, in.Pods = settling(t, nil), []*snapshot.Pod{back, toyPod("s1", "store")}
	in.Presences = map[types.UID]PodPresence{"uid-s0": SeenGone, "uid-back": SeenReady}
	in.Gone = map[types.UID]time.Time{"uid-s0": noon.Add(-time.Second)}
	in.Policy.Status.Leaving = []v1alpha1.Leaving{leaves("s0", "store", noon.Add(-time.Minute))}
	in.Policy.Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationBegun, noon.Add(-time.Minute))}
	return in
}

// undoneFor is what the system says when it is asked to undo the step of a pod that is gone for the one that is back.
func undoneFor(in *StatusInput, pod types.UID, reply Reply) {
	step := &in.Policy.Status.Preparations[0]
	reply.Undo = true
	reply.Step = Preparation{Name: step.Name, Member: v1alpha1.MemberRef{ID: step.ID, PodUID: pod}, Asked: step.LastRequestTime.Time}
	in.Replies = append(in.Replies, reply)
}

func TestUndoOfGonePods(t *testing.T) {
	unready := func(in *StatusInput) { in.Presences["uid-back"] = SeenStaying }
	goneFor := func(in *StatusInput, ago time.Duration) { in.Gone["uid-s0"] = noon.Add(-ago) }
	done := func(in *StatusInput) { undoneFor(in, "uid-back", Reply{Done: true}) }
	underWay := func(in *StatusInput) {
		step := &in.Policy.Status.Preparations[0]
		in.UnderWay = []Preparation{{Name: "Drain", Member: v1alpha1.MemberRef{PodUID: "uid-back"}, Asked: step.LastRequestTime.Time}}
	}
	const begun, undoing = v1alpha1.PreparationBegun, v1alpha1.PreparationUndoing
	for name, c := range map[string]struct {
		given   func(*StatusInput)
		want    []ActionKind
		permit  bool                      // it stands after it
		state   v1alpha1.PreparationState // of the step after it; "": it has ended
		grown   int64                     // the epoch
		left    bool                      // it is said that the step stays in force
		next    time.Duration             // 0: any
		pending bool
	}{
		"the permit may end":               {given: func(*StatusInput) {}, want: []ActionKind{Undo}, permit: true, state: begun, pending: true, next: undoFirst - time.Second},
		"the system is asked already":      {given: underWay, permit: true, state: begun, pending: true, next: undoFirst - time.Second},
		"it is undone":                     {given: done, want: []ActionKind{Settle}, grown: 2},
		"it is undone as far as it may be": {given: func(in *StatusInput) { undoneFor(in, "uid-back", Reply{Done: true, Left: "job 7"}) }, want: []ActionKind{Settle}, grown: 2, left: true},
		"the system fails":                 {given: func(in *StatusInput) { undoneFor(in, "uid-back", Reply{Error: "503"}) }, want: []ActionKind{Settle, Undo}, state: undoing, grown: 1},
		"the system takes its time":        {given: func(in *StatusInput) { undoneFor(in, "uid-back", Reply{}) }, want: []ActionKind{Settle, Undo}, state: undoing, grown: 1},
		"the system hangs":                 {given: func(in *StatusInput) { underWay(in); goneFor(in, undoFirst) }, want: []ActionKind{Settle, Undo}, state: undoing, grown: 1},
		"another pod is back by now":       {given: func(in *StatusInput) { undoneFor(in, "uid-other", Reply{Done: true}) }, want: []ActionKind{Undo}, permit: true, state: begun, pending: true},
		"an answer to an earlier call": {given: func(in *StatusInput) {
			done(in)
			in.Policy.Status.Preparations[0].LastRequestTime.Time = noon.Add(-callLife - time.Second)
		}, want: []ActionKind{Undo}, permit: true, state: begun, pending: true},
		"the call that began it is on its way":                                  {given: func(in *StatusInput) { in.Policy.Status.Preparations[0].LastRequestTime.Time = noon }, want: []ActionKind{Settle}, state: begun, grown: 1, next: callLife},
		"it is not Ready yet":                                                   {given: unready, permit: true, state: begun, pending: true, next: unhurried - time.Second},
		"it is not Ready for long":                                              {given: func(in *StatusInput) { unready(in); goneFor(in, unhurried) }, want: []ActionKind{Settle, Undo}, permit: true, state: begun},
		"it is not Ready yet, another is wanted":                                {given: func(in *StatusInput) { unready(in); in.Wanted["uid-s1"] = true }, want: []ActionKind{Undo}, permit: true, state: begun, pending: true},
		"it is not Ready yet, the request of the pod that is gone still stands": {given: func(in *StatusInput) { unready(in); in.Wanted["uid-s0"] = true }, permit: true, state: begun, pending: true, next: unhurried - time.Second},
		"it is not Ready, undone":                                               {given: func(in *StatusInput) { unready(in); done(in) }, permit: true, state: begun, pending: true},
		"it is not Ready, undone, another is wanted":                            {given: func(in *StatusInput) { unready(in); done(in); in.Wanted["uid-s1"] = true }, want: []ActionKind{Settle}, permit: true, grown: 1, pending: true},
		"it is not Ready, and the system fails":                                 {given: func(in *StatusInput) { unready(in); undoneFor(in, "uid-back", Reply{Error: "503"}) }, want: []ActionKind{Settle, Undo}, permit: true, state: undoing, pending: true},
		"it is wanted gone again":                                               {given: func(in *StatusInput) { in.Wanted["uid-back"] = true }, want: []ActionKind{Undo}, permit: true, state: begun, pending: true},
		"it is wanted gone again, undone":                                       {given: func(in *StatusInput) { done(in); in.Wanted["uid-back"] = true }, want: []ActionKind{Settle}, grown: 2},
		"it is wanted gone again, the permit ended":                             {given: func(in *StatusInput) { in.Policy.Status.Leaving = nil; in.Wanted["uid-back"] = true }, want: []ActionKind{Settle, Undo}, state: undoing},
		"no pod has its id":                                                     {given: func(in *StatusInput) { in.Pods = nil; goneFor(in, defaultSettle+time.Second) }, want: []ActionKind{Settle}, state: begun, grown: 1},
		"no pod has its id any more":                                            {given: func(in *StatusInput) { done(in); in.Pods = nil; goneFor(in, defaultSettle+time.Second) }, want: []ActionKind{Settle}, state: begun, grown: 1},
		"who is wanted gone is not known":                                       {given: func(in *StatusInput) { in.WantedKnown = false }, want: []ActionKind{Settle}, state: begun, grown: 1},
		"the policy goes":                                                       {given: func(in *StatusInput) { in.Deleted = true }, want: []ActionKind{Settle, Undo}, state: undoing, grown: 1},
		"the policy goes, and it is asked already":                              {given: func(in *StatusInput) { underWay(in); in.Deleted = true }, want: []ActionKind{Settle, Undo}, state: undoing, grown: 1},
		"the policy is in mode Audit":                                           {given: func(in *StatusInput) { in.Audited = true }, want: []ActionKind{Settle, Undo}, state: undoing, grown: 1},
		"a clock was set back":                                                  {given: func(in *StatusInput) { goneFor(in, -time.Hour) }, want: []ActionKind{Settle, Undo}, state: undoing, grown: 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := departedStore(t)
			c.given(&in)
			got := ReconcileStatus(in)
			if diff := cmp.Diff(c.want, kinds(got.Actions)); diff != "" {
				t.Error(diff)
			}
			status, left := in.Policy.Status, false
			if len(got.Actions) > 0 && got.Actions[0].Status != nil {
				status, left = got.Actions[0].Status, len(got.Actions[0].Left) > 0
			}
			var state v1alpha1.PreparationState
			if len(status.Preparations) > 0 {
				state = status.Preparations[0].State
			}
			if (len(status.Leaving) > 0) != c.permit || state != c.state || status.Epoch-4 != c.grown || left != c.left {
				t.Errorf("the permit stands: %t, the step is %q, the epoch has grown by %d, it stays in force: %t", len(status.Leaving) > 0, state, status.Epoch-4, left)
			}
			if at := slices.IndexFunc(got.Actions, func(a Action) bool { return a.Kind == Undo }); at >= 0 && got.Actions[at].UID != "uid-back" {
				t.Errorf("it is undone for %s", got.Actions[at].UID)
			}
			if got.Pending != c.pending || (c.next > 0 && !got.NextLook.Equal(noon.Add(c.next))) {
				t.Errorf("pending: %t; next look %s", got.Pending, got.NextLook)
			}
		})
	}
}

// One of two steps that is not undone keeps the permit for as long as one alone, and each ends by itself.
func TestUndoOfTwoStepsOfAGonePod(t *testing.T) {
	in := departedStore(t)
	second := begun("Resign", "s0", v1alpha1.PreparationBegun, noon.Add(-time.Minute))
	in.Policy.Status.Preparations = append(in.Policy.Status.Preparations, second)
	if got := kinds(ReconcileStatus(in).Actions); !slices.Equal(got, []ActionKind{Undo, Undo}) {
		t.Fatalf("first %v", got)
	}
	undoneFor(&in, "uid-back", Reply{Done: true})
	if got := ReconcileStatus(in).Actions; len(got) != 1 || got[0].Step.Name != "Resign" {
		t.Errorf("one is undone: %+v", got)
	}
	in.Replies = append(in.Replies, Reply{Undo: true, Error: "503", Step: Preparation{Name: "Resign", Member: v1alpha1.MemberRef{PodUID: "uid-back"}, Asked: second.LastRequestTime.Time}})
	got := ReconcileStatus(in).Actions
	if diff := cmp.Diff([]ActionKind{Settle, Undo}, kinds(got)); diff != "" {
		t.Fatal(diff)
	}
	if left := got[0].Status; len(left.Leaving) > 0 || len(left.Preparations) != 1 || left.Preparations[0].Name != "Resign" || left.Preparations[0].State != v1alpha1.PreparationUndoing {
		t.Errorf("left: %+v", left)
	}
}

// A permit that stands for an undo says since when its pod is gone: another process goes on from there, and no caller is remembered twice.
func TestPermitThatStandsForAnUndo(t *testing.T) {
	in := departedStore(t)
	in.Policy.Status.Leaving[0].Refused = []string{"alice"}
	in.Policy.Status.Leaving = append(in.Policy.Status.Leaving, leaves("s2", "store", noon.Add(-time.Hour)))
	in.Presences["uid-s2"] = SeenStaying
	for range 2 {
		got := ReconcileStatus(in).Actions
		if len(got) == 0 || got[0].Status == nil {
			break
		}
		in.Policy.Status = got[0].Status
	}
	entry := in.Policy.Status.Leaving[0]
	if entry.PodUID != "uid-s0" || entry.GoneTime == nil || !entry.GoneTime.Time.Equal(noon.Add(-time.Second)) || len(in.Policy.Status.Departed) != 1 {
		t.Errorf("left: %+v, departed: %+v", entry, in.Policy.Status.Departed)
	}
}

// A refusal says what is waited for: a role without evict.settle gives its system no time, and the permit stands for the undo alone.
func TestWhatAPermitThatStandsWaitsFor(t *testing.T) {
	for settle, want := range map[time.Duration]string{0: "what was prepared for it is taken back", time.Minute: "its system has 1m0s to find that out"} {
		in := world(t)
		in.Policies[0].Policy = settling(t, &metav1.Duration{Duration: settle})
		gone := leaves("s1", "store", noon.Add(-time.Minute))
		gone.GoneTime = new(metav1.NewTime(noon.Add(-time.Second)))
		in.Policies[0].Status.Leaving = []v1alpha1.Leaving{gone}
		if said := Judge(in).Blockers[0].Message; !strings.Contains(said, want) || strings.Contains(said, " 0s ") {
			t.Errorf("settle %s: %q", settle, said)
		}
	}
}

// What the system said of a member that was emptied is of no worth once the step may be taken back, which no status says.
func TestReplacementWaitsForTheUndo(t *testing.T) {
	for name, c := range map[string]struct {
		uid   types.UID // for which it was begun
		state v1alpha1.PreparationState
		id    string
		want  []string
	}{
		"begun for it":                 {uid: "uid-s0", id: "m-s0"},
		"begun for a pod that is gone": {uid: "uid-former", id: "m-s0", want: []string{PreparationPending}},
		"being undone":                 {uid: "uid-s0", id: "m-s0", state: v1alpha1.PreparationUndoing, want: []string{PreparationPending}},
		"begun for another member":     {uid: "uid-former", id: "m-s1"},
	} {
		t.Run(name, func(t *testing.T) {
			in := wanted(t)
			step := begun("Drain", "s0", v1alpha1.PreparationBegun, noon.Add(-time.Minute))
			step.PodUID, step.ID = c.uid, c.id
			if c.state != "" {
				step.State = c.state
			}
			in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{step}
			if got := reasons(Judge(in.Input)); !slices.Equal(got, c.want) {
				t.Errorf("reasons %v, want %v", got, c.want)
			}
			in.Evidence.Members["m-s0"]["drained"] = false
			asked := slices.Contains(kinds(Step(in).Actions), Prepare)
			if asked != (c.want == nil) {
				t.Errorf("the system is asked to prepare it: %t", asked)
			}
		})
	}
}

// A step is taken back for a pod that is wanted gone as well, if it was begun for another one or the policy goes: the refusal says nothing else.
func TestWhyAStepIsTakenBack(t *testing.T) {
	in := wanted(t)
	in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s0", v1alpha1.PreparationUndoing, noon.Add(-time.Minute))}
	for deleted, want := range map[bool]string{false: "or it was begun for a pod that is gone", true: "policy db is being deleted"} {
		in.Policies[0].Deleted = deleted
		said := Judge(in.Input).Blockers[0].Message
		if !strings.Contains(said, want) || deleted && strings.Contains(said, "requested") {
			t.Errorf("deleted: %t: %q", deleted, said)
		}
	}
}

// A step may be taken back for as long as the permit of its pod stands, however long ago it was begun.
func TestPreparingWhileAPermitStands(t *testing.T) {
	in := world(t)
	in.Policies[0].Status.Preparations = []v1alpha1.PreparationStatus{begun("Drain", "s9", v1alpha1.PreparationBegun, noon.Add(-time.Hour))}
	j := judgeEviction(in)
	if got := j.preparing(); len(got) > 0 {
		t.Errorf("without a permit: %v", got)
	}
	in.Policies[0].Status.Leaving = []v1alpha1.Leaving{leaves("s9", "store", noon.Add(-time.Hour))}
	if got := judgeEviction(in).preparing(); !slices.Equal(got, []string{"m-s9"}) {
		t.Errorf("while its permit stands: %v", got)
	}
}

// No pod is the member of a role without identity that left: its step is undone when its pod is seen gone, and not a day later.
func TestUndoOfAMemberWithoutIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		role string
		want []ActionKind
	}{
		"without": {"router", []ActionKind{Settle, Undo}},
		"with":    {"store", nil},
	} {
		in := departedStore(t)
		in.Pods = []*snapshot.Pod{toyPod("s1", c.role)}
		in.Policy.Status.Leaving = nil
		in.Policy.Status.Preparations[0].Role = c.role
		if diff := cmp.Diff(c.want, kinds(ReconcileStatus(in).Actions)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
