package replacement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
)

// inSet is a member of a MemberSet that has enough without it.
func inSet(changes ...func(*StepInput)) StepInput {
	in := StepInput{
		Now: noon, Namespace: "shop", Member: v1alpha1.MemberRef{Role: "etcd-member", ID: "kv-member-1", PodName: "kv-member-1"}, PermitTime: ago(time.Minute),
		Pod:       &NamedPod{UID: "p1", Node: Node{Name: "n1"}, Ready: true},
		Delegated: &Delegated{Marked: &Marked{Set: "kv", Listed: true, Step: v1alpha1.RemovalReplaced, Complete: true}},
		System:    Membership{Left: Yes, Joined: Yes, Reported: Yes},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func at(phase Phase) func(*StepInput) {
	return func(in *StepInput) {
		in.Progress = Progress{Phase: phase, PodUID: "p1", Node: "n1", StartTime: ago(time.Minute)}
		in.StepTime = ago(time.Minute)
	}
}

func says(step v1alpha1.MemberRemovalStep) func(*StepInput) {
	return func(in *StepInput) { in.Delegated.Marked.Step = step }
}

func unlisted(in *StepInput) { in.Delegated.Marked.Listed = false }

func fresh(in *StepInput) { in.Delegated.Marked.Fresh = true }

func TestStepMarked(t *testing.T) {
	t.Parallel()
	begun := Progress{Phase: Removing, PodUID: "p1", Node: "n1", StartTime: noon}
	to := func(in StepInput, phase Phase) Action {
		next := in.Progress
		next.Phase = phase
		return Action{Kind: Write, Progress: next}
	}
	unpermitted := func(in *StepInput) { in.PermitTime = time.Time{} }
	unread := func(in *StepInput) { in.Unread = []Blocker{{Reason: NotRead}} }
	for name, test := range map[string]struct {
		in      StepInput
		actions []Action
		reasons []Reason
	}{
		"its set grows first":              {in: inSet(unpermitted, says(v1alpha1.RemovalGrowing)), reasons: []Reason{SetGrows}},
		"its set empties it first":         {in: inSet(unpermitted, says(v1alpha1.RemovalEmptying)), reasons: []Reason{SetEmpties}},
		"its set has not seen the request": {in: inSet(unpermitted, says("")), reasons: []Reason{SetAwaited}},
		"no such member":                   {in: inSet(unpermitted, unlisted), reasons: []Reason{MemberMissing}},
		"another request has replaced it": {
			in: inSet(unpermitted, unlisted, func(in *StepInput) { in.Delegated.Marked.Past = true }), actions: []Action{to(inSet(), Joining)},
		},
		"its set goes by another request": {
			in: inSet(unpermitted, says(""), func(in *StepInput) { in.Delegated.Marked.Other = "q2" }), reasons: []Reason{SetAwaited},
		},
		"the rules do not pass":             {in: inSet(unpermitted, ruledOut), reasons: []Reason{"NoQuorum"}},
		"they are not about one that joins": {in: inSet(unpermitted, ruledOut, fresh), actions: []Action{{Kind: Permit}}},
		"it has its permit first":           {in: inSet(unpermitted), actions: []Action{{Kind: Permit}}},
		"it may go":                         {in: inSet(), actions: []Action{{Kind: Write, Progress: begun}}},
		"cancelled before":                  {in: inSet(unpermitted, unwanted), actions: []Action{to(inSet(), Cancelled)}},
		"the set is awaited":                {in: inSet(at(Removing)), reasons: []Reason{SetAwaited}},
		"rules that fail meanwhile":         {in: inSet(at(Removing), ruledOut), actions: []Action{to(inSet(at(Removing)), Waiting)}, reasons: []Reason{"NoQuorum"}},
		"another is lost meanwhile":         {in: inSet(at(Removing), says(v1alpha1.RemovalGrowing)), actions: []Action{to(inSet(at(Removing)), Waiting)}, reasons: []Reason{SetGrows}},
		"it is not empty any more":          {in: inSet(at(Removing), says(v1alpha1.RemovalEmptying)), actions: []Action{to(inSet(at(Removing)), Waiting)}, reasons: []Reason{SetEmpties}},
		"cancelled in time":                 {in: inSet(at(Removing), unwanted), actions: []Action{to(inSet(at(Removing)), Cancelled)}},
		"cancelled too late":                {in: inSet(at(Removing), unwanted, says(v1alpha1.RemovalRemoving)), reasons: []Reason{PredecessorLeaving}},
		"begun in the moment of waiting":    {in: inSet(at(Waiting), ruledOut, says(v1alpha1.RemovalRemoving)), actions: []Action{to(inSet(at(Waiting)), Removing)}, reasons: nil},
		"rules that fail once it has begun": {in: inSet(at(Removing), ruledOut, says(v1alpha1.RemovalRemoving)), reasons: []Reason{PredecessorLeaving}},
		"its set is gone":                   {in: inSet(at(Removing), unlisted, unread), reasons: []Reason{NotRead}},
		"its set is gone, and it is cancelled": {
			in:      inSet(at(Removing), unlisted, unread, unwanted, func(in *StepInput) { in.Delegated.Marked.Gone = true }),
			actions: []Action{to(inSet(at(Removing)), Cancelled)},
		},
		"it is gone":          {in: inSet(at(Removing), unlisted), actions: []Action{to(inSet(at(Removing)), Joining)}},
		"not read":            {in: inSet(at(Removing), unlisted, unread), reasons: []Reason{NotRead}},
		"others may go then":  {in: inSet(at(Joining), unlisted), actions: []Action{{Kind: Release}}},
		"the set is complete": {in: inSet(at(Joining), unlisted, unpermitted), actions: []Action{to(inSet(at(Joining)), Complete)}},
		"the set is not complete": {
			in:      inSet(at(Joining), unlisted, unpermitted, func(in *StepInput) { in.Delegated.Marked.Complete = false }),
			reasons: []Reason{SuccessorMissing},
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

// TestPropertyStepMarked has a MemberSet remove a member by what its request says, as late as it pleases, while rules pass and fail, a person cancels and
// processes are killed. It does so with a permit alone, and the request ends.
func TestPropertyStepMarked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, progress, permit, now := inSet(), Progress{}, time.Time{}, noon
		mark := in.Delegated.Marked
		mark.Fresh = rapid.Bool().Draw(t, "fresh")
		step := func() StepResult {
			now = now.Add(time.Second)
			in.Now, in.Progress, in.PermitTime, in.StepTime = now, progress, permit, noon
			result := Step(in)
			for _, a := range result.Actions {
				switch a.Kind {
				case Permit:
					permit = now
				case Release:
					if progress.Phase == Removing && mark.begun() {
						t.Fatal("the permit is taken back while the member goes")
					}
					permit = time.Time{}
				case Write:
					progress = a.Progress
				default:
					t.Fatalf("%+v", a)
				}
				if progress.Phase == Cancelled && mark.begun() {
					t.Fatal("it is cancelled while the member goes")
				}
			}
			return result
		}
		set := func() { // the set looks, writes, looks again and acts
			switch {
			case !mark.Listed:
			case mark.begun() && !permit.IsZero():
				mark.Listed = rapid.Bool().Draw(t, "still there")
			case progress.Phase == Removing && mark.Step == v1alpha1.RemovalReplaced && !in.Cancelled:
				mark.Step = v1alpha1.RemovalRemoving
			case !mark.begun():
				mark.Step = rapid.SampledFrom([]v1alpha1.MemberRemovalStep{v1alpha1.RemovalGrowing, v1alpha1.RemovalReplaced}).Draw(t, "step")
			}
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				if in.Rules = nil; rapid.Bool().Draw(t, "rules") {
					ruledOut(&in)
				}
			case 1:
				in.Cancelled = in.Cancelled || rapid.IntRange(0, 3).Draw(t, "cancelled") == 0
			case 2:
				set()
			default:
				step()
			}
		}
		in.Rules = nil
		var last StepResult
		for range 100 {
			if !mark.begun() {
				mark.Step = v1alpha1.RemovalReplaced
			}
			set()
			if last = step(); progress.Phase.Over() && permit.IsZero() {
				return
			}
		}
		t.Fatalf("it has not ended (%q): %+v", progress.Phase, last)
	})
}
