package replacement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
)

var fdb = TargetRef{APIVersion: "apps.foundationdb.org/v1beta2", Kind: "FoundationDBCluster", Name: "main", UID: "f1"}

// operated is a member that an operator replaces, before it was asked.
func operated(changes ...func(*StepInput)) StepInput {
	in := StepInput{
		Now: noon, Namespace: "shop", Member: v1alpha1.MemberRef{Role: "storage", ID: "storage-1", PodName: "main-storage-1"},
		Pod:       &NamedPod{UID: "p1", Version: "7", Node: Node{Name: "n1"}, Ready: true},
		Delegated: &Delegated{Patches: true, Target: Target{TargetRef: fdb, Asked: No, Undone: Yes}},
		System:    Membership{Left: Yes, Joined: Yes, Reported: Yes},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// asking is the same after it was written down what is asked.
func asking(changes ...func(*StepInput)) StepInput {
	in := operated(permitted)
	in.Progress = Progress{Phase: Removing, PodUID: "p1", Node: "n1", Target: fdb, StartTime: ago(time.Minute)}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func asked(in *StepInput) { in.Delegated.Target.Asked, in.Delegated.Target.Undone = Yes, No }

func undoable(in *StepInput) { in.Delegated.Target.Undoable = true }

func unwanted(in *StepInput) { in.Cancelled = true }

// byDeletion has the pod deleted instead.
func byDeletion(node Node, ready bool) func(*StepInput) {
	return func(in *StepInput) {
		in.Delegated, in.Progress.Target = &Delegated{}, TargetRef{}
		in.Pod.Node, in.Pod.Ready = node, ready
	}
}

// back has a pod have the predecessor's name that was made since.
func back(in *StepInput) {
	in.Pod = &NamedPod{UID: "p2", Version: "9", Node: Node{Name: "n1"}, Ready: true}
}

// ending has the pod's deletion have begun.
func ending(since time.Time) func(*StepInput) {
	return func(in *StepInput) { in.Pod.Terminating, in.Pod.DeletionTime = true, since }
}

func takesOver(all ...Successor) func(*StepInput) {
	return func(in *StepInput) {
		in.Progress.Phase, in.StepTime, in.Pod, in.Delegated.Successors = Joining, ago(time.Minute), nil, all
	}
}

func TestStepDelegated(t *testing.T) {
	t.Parallel()
	begun := Progress{Phase: Removing, PodUID: "p1", Node: "n1", Target: fdb, StartTime: noon}
	objectGone := func(in *StepInput) { in.Delegated.Target.UID, in.StepTime = "", ago(time.Minute) }
	unserved := func(in *StepInput) { in.Delegated.Unserved, in.Unread = true, []Blocker{{Reason: NotRead}} }
	long := func(in *StepInput) { in.StepTime = ago(forsakenAfter) }
	unfounded := func(in *StepInput) { in.Unfounded = "it is well" }
	to := func(in StepInput, phase Phase) Action {
		next := in.Progress
		next.Phase = phase
		return Action{Kind: Write, Progress: next}
	}
	for name, test := range map[string]struct {
		in      StepInput
		actions []Action
		reasons []Reason
	}{
		"a permit first":                  {in: operated(), actions: []Action{{Kind: Permit}}},
		"what is asked is written down":   {in: operated(permitted), actions: []Action{{Kind: Write, Progress: begun}}},
		"rules":                           {in: operated(ruledOut), reasons: []Reason{"NoQuorum"}},
		"no object":                       {in: operated(func(in *StepInput) { in.Delegated.Target.UID = "" }), reasons: []Reason{TargetMissing}},
		"an object that cannot be read":   {in: operated(func(in *StepInput) { in.Unread = []Blocker{{Reason: NotRead}} }), reasons: []Reason{NotRead}},
		"asked":                           {in: asking(), actions: []Action{{Kind: Patch}}},
		"asked once only":                 {in: asking(asked), reasons: []Reason{OperatorAwaited}},
		"rules that fail before":          {in: asking(ruledOut), actions: []Action{to(asking(), Waiting)}, reasons: []Reason{"NoQuorum"}},
		"gone while the rules fail":       {in: asking(ruledOut, func(in *StepInput) { in.Progress.Phase, in.Pod = Waiting, nil }), actions: []Action{to(asking(), Removing)}},
		"rules that fail afterwards":      {in: asking(asked, ruledOut), reasons: []Reason{OperatorAwaited}},
		"repair has no reason any more":   {in: operated(permitted, unfounded), actions: []Action{{Kind: Release}}},
		"… before it is asked":            {in: asking(unfounded), actions: []Action{to(asking(), Waiting)}},
		"… and asks afterwards":           {in: asking(asked, unfounded), reasons: []Reason{OperatorAwaited}},
		"… and it is gone":                {in: asking(unfounded, func(in *StepInput) { in.Progress.Phase, in.Pod = Waiting, nil }), actions: []Action{to(asking(), Removing)}},
		"cancelled before":                {in: asking(unwanted), actions: []Action{to(asking(), Cancelled)}},
		"cancelled afterwards":            {in: asking(asked, unwanted), reasons: []Reason{OperatorAwaited}},
		"undone":                          {in: asking(asked, undoable, unwanted), actions: []Action{{Kind: Undo}}},
		"undone in vain":                  {in: asking(asked, undoable, unwanted, func(in *StepInput) { in.Delegated.Target.Undone = Yes }), reasons: []Reason{UndoWithoutEffect}},
		"the member is gone":              {in: asking(asked, func(in *StepInput) { in.Pod = nil }), actions: []Action{to(asking(), Joining)}},
		"another has its name":            {in: asking(func(in *StepInput) { in.Pod.UID = "p2" }), actions: []Action{to(asking(), Joining)}},
		"another, and it is still asked":  {in: asking(asked, func(in *StepInput) { in.Pod.UID = "p2" }), reasons: []Reason{OperatorAwaited}},
		"another, and it is not known":    {in: asking(func(in *StepInput) { in.Pod.UID, in.Unread = "p2", []Blocker{{Reason: NotRead}} }), reasons: []Reason{NotRead}},
		"another object asks":             {in: asking(asked, func(in *StepInput) { in.Pod.UID, in.Delegated.Target.UID = "p2", "f2" }), actions: []Action{to(asking(), Joining)}},
		"a pod where there was none":      {in: asking(asked, func(in *StepInput) { in.Progress.PodUID = "" }), reasons: []Reason{OperatorAwaited}},
		"gone, and cancelled":             {in: asking(asked, undoable, unwanted, func(in *StepInput) { in.Pod = nil }), actions: []Action{to(asking(), Joining)}},
		"the object went with it":         {in: asking(func(in *StepInput) { in.Delegated.Target.UID = "" }), reasons: []Reason{OperatorAwaited}},
		"… and it is not wanted":          {in: asking(unwanted, objectGone), reasons: []Reason{OperatorAwaited}},
		"… for long":                      {in: asking(unwanted, objectGone, long), actions: []Action{to(asking(), Cancelled)}},
		"… and wanted":                    {in: asking(objectGone, long), reasons: []Reason{OperatorAwaited}},
		"its kind is not served":          {in: asking(unserved, long), reasons: []Reason{NotRead}},
		"… and it is not wanted for long": {in: asking(unserved, unwanted, long), actions: []Action{to(asking(), Cancelled)}},
		"unread, and not wanted for long": {in: asking(unwanted, long, func(in *StepInput) { in.Unread = []Blocker{{Reason: NotRead}} }), reasons: []Reason{NotRead}},
		"not read while it is asked":      {in: asking(func(in *StepInput) { in.Unread = []Blocker{{Reason: NotRead}} }), reasons: []Reason{NotRead}},
		"a Ready pod is not deleted":      {in: operated(byDeletion(n1Alive, true)), reasons: []Reason{PredecessorRuns}},
		"… nor one that is being evicted": {in: operated(byDeletion(n1Alive, true), func(in *StepInput) { in.Pod.Terminating = true }), reasons: []Reason{PredecessorLeaving}},
		"a pod of a lost node is":         {in: asking(byDeletion(n1Lost, false)), actions: []Action{{Kind: DeletePod, Name: "main-storage-1", UID: "p1", Version: "7"}}},
		"a pod that ends":                 {in: asking(byDeletion(n1Lost, false), func(in *StepInput) { in.Pod.Terminating = true }), reasons: []Reason{PredecessorLeaving}},
		"a pod that began to end later":   {in: asking(byDeletion(n1Lost, false), ending(ago(time.Second))), reasons: []Reason{PredecessorLeaving}},
		"a pod of an operator that ends":  {in: operated(permitted, ending(ago(time.Hour))), actions: []Action{{Kind: Write, Progress: begun}}},
		"the deleted pod is gone":         {in: asking(byDeletion(n1Lost, false), func(in *StepInput) { in.Pod = nil }), actions: []Action{to(asking(byDeletion(n1Lost, false)), Joining)}},
		"gone before it was looked for":   {in: asking(byDeletion(n1Lost, false), unwanted, func(in *StepInput) { in.Pod, in.Progress.PodUID = nil, "" }), actions: []Action{to(asking(byDeletion(n1Lost, false), func(in *StepInput) { in.Progress.PodUID = "" }), Cancelled)}},
		"no pod to delete":                {in: operated(byDeletion(n1Lost, false), func(in *StepInput) { in.Pod = nil }), reasons: []Reason{MemberMissing}},
		"its pod comes back, still asked": {in: asking(takesOver(Successor{Ready: true, Reported: Yes}), asked, back), actions: []Action{to(asking(), Removing)}},
		"its pod comes back, as it seems": {
			in:      asking(takesOver(Successor{Ready: true, Reported: Yes}), back, func(in *StepInput) { in.Unread = []Blocker{{Reason: NotRead}} }),
			reasons: []Reason{NotRead},
		},
		"its name is the successor's":     {in: asking(takesOver(Successor{Ready: true, Reported: Yes}), back), actions: []Action{to(asking(takesOver()), Complete)}},
		"no successor":                    {in: asking(takesOver()), reasons: []Reason{SuccessorMissing}},
		"one that starts":                 {in: asking(takesOver(Successor{Name: "s"})), reasons: []Reason{SuccessorNotReady}},
		"one that is not reported":        {in: asking(takesOver(Successor{Name: "s", Ready: true, Reported: Unknown})), reasons: []Reason{SuccessorNotReported}},
		"the second":                      {in: asking(takesOver(Successor{}, Successor{Ready: true, Reported: Yes})), actions: []Action{to(asking(takesOver()), Complete)}},
		"none for long, and not wanted":   {in: asking(takesOver(), unwanted, func(in *StepInput) { in.StepTime = ago(forsakenAfter) }), actions: []Action{to(asking(takesOver()), Cancelled)}},
		"none for a while, not wanted":    {in: asking(takesOver(), unwanted), reasons: []Reason{SuccessorMissing}},
		"over: the policy forgets it":     {in: asking(func(in *StepInput) { in.Progress.Phase = Complete }), actions: []Action{{Kind: Release}}},
		"asked without a permit":          {in: asking(func(in *StepInput) { in.PermitTime = time.Time{} }), actions: []Action{{Kind: Permit}}},
		"a permit that holds for nothing": {in: operated(ruledOut, func(in *StepInput) { in.PermitTime = ago(patience) }), actions: []Action{{Kind: Release}}, reasons: []Reason{"NoQuorum"}},
		"a pod that ends already": {
			in:      operated(permitted, byDeletion(n1Lost, false), ending(ago(time.Hour))),
			actions: []Action{{Kind: Write, Progress: Progress{Phase: Removing, PodUID: "p1", Node: "n1", NodeUID: "n1", StartTime: ago(time.Hour)}}},
		},
		"a pod that ends, by a clock that is behind": {
			in:      asking(byDeletion(n1Lost, false), ending(ago(2*time.Minute))),
			actions: []Action{{Kind: Write, Progress: Progress{Phase: Removing, PodUID: "p1", Node: "n1", StartTime: ago(2 * time.Minute)}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Step(test.in)
			var reasons []Reason
			for _, b := range got.Blockers {
				reasons = append(reasons, b.Reason)
			}
			if diff := cmp.Diff(test.actions, got.Actions); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.reasons, reasons); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// operator is one that removes the member it is asked to replace, and makes another: before or after, and under the same name or another. Or it is
// a controller that makes another pod for one that is deleted.
type operator struct {
	t        *rapid.T
	now      time.Time
	in       StepInput
	asked    bool
	noticed  bool // it has seen that it is asked, and goes on whatever becomes of that
	same     bool // identity
	made     int
	progress Progress
	permit   time.Time
}

func newOperator(t *rapid.T) *operator {
	o := &operator{t: t, now: noon, in: operated(), same: rapid.Bool().Draw(t, "same")}
	o.in.Delegated.Target.Undoable = rapid.Bool().Draw(t, "undoable")
	if rapid.Bool().Draw(t, "by deletion") {
		byDeletion(n1Lost, false)(&o.in)
	}
	return o
}

// act is what the operator does in a moment.
func (o *operator) act() {
	o.noticed = o.noticed || o.asked && rapid.Bool().Draw(o.t, "noticed")
	if !o.noticed {
		return
	}
	gone := o.in.Pod == nil || o.in.Pod.UID != "p1"
	switch first := rapid.Bool().Draw(o.t, "first"); {
	case len(o.in.Delegated.Successors) == 0 && (gone || first && !o.same):
		o.made++
		o.in.Delegated.Successors = []Successor{{Name: "s", UID: types.UID(rune('a' + o.made)), Reported: No}}
		if o.same {
			o.in.Pod = &NamedPod{UID: o.in.Delegated.Successors[0].UID}
		}
	case o.same && gone && o.asked: // it asks itself for it no more
		o.asked = false
	case !gone:
		o.in.Pod = nil
	case len(o.in.Delegated.Successors) > 0:
		s := &o.in.Delegated.Successors[0]
		s.Reported = yes(s.Ready)
		s.Ready = true
	}
}

func (o *operator) happen() {
	switch rapid.IntRange(0, 5).Draw(o.t, "what") {
	case 0:
		o.in.Rules = nil
		if rapid.Bool().Draw(o.t, "rules") {
			ruledOut(&o.in)
		}
	case 1:
		o.in.Cancelled = o.in.Cancelled || rapid.IntRange(0, 3).Draw(o.t, "cancelled") == 0
	case 2:
		o.in.Unread = nil
		if rapid.Bool().Draw(o.t, "unread") {
			o.in.Unread = []Blocker{{Reason: NotRead}}
		}
	case 3: // a person takes it back, but no deletion
		o.asked = o.asked && (!o.in.Delegated.Patches || rapid.Bool().Draw(o.t, "still asked"))
	case 4: // the policy is made anew
		o.permit = time.Time{}
	default:
		o.act()
	}
}

func (o *operator) step() StepResult {
	o.now = o.now.Add(time.Second)
	in := o.in
	delegated := *in.Delegated
	in.Now, in.Progress, in.PermitTime, in.StepTime, in.Delegated = o.now, o.progress, o.permit, noon, &delegated
	if delegated.Patches {
		delegated.Target.Asked, delegated.Target.Undone = yes(o.asked), yes(!o.asked)
	}
	if delegated.Patches && len(in.Unread) > 0 {
		delegated.Target = Target{TargetRef: o.progress.Target}
		delegated.Target.UID = ""
	}
	result := Step(in)
	for _, a := range result.Actions {
		o.carryOut(a)
		if rapid.IntRange(0, 4).Draw(o.t, "killed") == 0 {
			break
		}
	}
	return result
}

func (o *operator) carryOut(a Action) {
	there := o.in.Pod != nil && o.in.Pod.UID == "p1"
	switch a.Kind {
	case Permit:
		o.permit = o.now
	case Release:
		if o.progress.Phase == Removing || o.progress.Phase == Joining {
			o.t.Fatalf("the permit is taken back while the member is %s", o.progress.Phase)
		}
		o.permit = time.Time{}
	case Write:
		o.progress = a.Progress
	case Patch, DeletePod:
		if (a.Kind == Patch) != o.in.Delegated.Patches || !there || len(o.in.Rules) > 0 || o.in.Cancelled || o.permit.IsZero() || o.progress.Phase != Removing || o.progress.PodUID != "p1" {
			o.t.Fatalf("asked: the member is there (%t), rules %v, cancelled %t, permit %v, progress %+v", there, o.in.Rules, o.in.Cancelled, o.permit, o.progress)
		}
		o.asked = true
		if a.Kind == DeletePod {
			pod := *o.in.Pod
			pod.Terminating, o.in.Pod = true, &pod
		}
	case Undo:
		if !o.in.Cancelled {
			o.t.Fatalf("taken back, and it is not cancelled")
		}
		o.asked = false
	default:
		o.t.Fatalf("%+v", a)
	}
	if o.progress.Phase == Cancelled && there && o.asked {
		o.t.Fatalf("it is cancelled, and the operator is still asked")
	}
}

// TestPropertyStepDelegated has an operator replace a member in any order, while rules pass and fail, objects cannot be read, people change their minds
// and processes are killed. It is asked only while the rules pass, never for the successor, and not once that is cancelled. It ends, or says what it
// waits for.
func TestPropertyStepDelegated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOperator(t)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			o.happen()
			if rapid.Bool().Draw(t, "look") {
				o.step()
			}
		}
		o.in.Unread, o.in.Rules = nil, nil
		var last StepResult
		for range 100 {
			o.act()
			o.now = o.now.Add(time.Minute)
			if last = o.step(); o.progress.Phase.Over() && o.permit.IsZero() {
				return
			}
		}
		t.Fatalf("it has not ended (%q): %+v", o.progress.Phase, last)
	})
}

// A pod that was made in the second in which the predecessor would begin to go is not taken for its successor: times of pods have no more than seconds.
func TestDelegationWaitsForTheSecondAfterTheLastPod(t *testing.T) {
	for name, test := range map[string]struct {
		made   time.Time
		begins bool
	}{
		"none":                {time.Time{}, true},
		"a second before":     {noon.Add(-time.Second), true},
		"in the same":         {noon, false},
		"the clocks disagree": {noon.Add(time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			in := operated(permitted, func(in *StepInput) { in.Now, in.Delegated.LastMade = noon.Add(300*time.Millisecond), test.made })
			out := Step(in)
			if begins := len(out.Actions) > 0; begins != test.begins || !begins && !out.NextLook.Equal(noon.Add(time.Second)) {
				t.Errorf("it does %+v, and looks again at %s", out.Actions, out.NextLook)
			}
		})
	}
}
