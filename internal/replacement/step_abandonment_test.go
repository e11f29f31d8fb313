package replacement

import (
	"strings"
	"testing"
	"time"

	"usher.sh/usher/api/v1alpha1"
)

// A rule that is given up waives its own blockers, and nothing else.
func TestStepWaives(t *testing.T) {
	copies := Blocker{Reason: "NoCopies", Rule: "copies", WaivedBy: []string{"copies"}, Message: "no others have it", Remedy: "wait"}
	serves := Blocker{Reason: "NotServing", Rule: "serves", WaivedBy: []string{"serves"}, Message: "it does not serve"}
	silent := Blocker{Reason: "NoEvidence", WaivedBy: []string{"copies", "serves"}, Message: "it does not answer"}
	only := Blocker{Reason: "OnlyOne", Rule: "only", Never: true, WaivedBy: []string{"only"}}
	pod := Blocker{Reason: "PodThere", Rule: "pod"}
	other := Blocker{Reason: "AnotherIsReplaced"}
	for name, test := range map[string]struct {
		given    []string
		rules    []Blocker
		change   func(*StepInput)
		waived   []Reason
		blockers []Reason
	}{
		"nothing is given up":                     {rules: []Blocker{copies}, blockers: []Reason{"NoCopies"}},
		"its rule is":                             {given: []string{"copies"}, rules: []Blocker{copies}, waived: []Reason{"NoCopies"}},
		"a rule that passes is":                   {given: []string{"copies"}},
		"another rule is":                         {given: []string{"serves"}, rules: []Blocker{copies}, blockers: []Reason{"NoCopies"}},
		"one of two is":                           {given: []string{"copies"}, rules: []Blocker{copies, serves}, waived: []Reason{"NoCopies"}, blockers: []Reason{"NotServing"}},
		"the system does not answer, and all are": {given: []string{"serves", "copies"}, rules: []Blocker{silent}, waived: []Reason{"NoEvidence"}},
		"… and one is not":                        {given: []string{"copies"}, rules: []Blocker{silent}, blockers: []Reason{"NoEvidence"}},
		"one that is marked never":                {given: []string{"only"}, rules: []Blocker{only}, blockers: []Reason{"OnlyOne"}},
		"one about its own pod":                   {given: []string{"pod"}, rules: []Blocker{pod}, blockers: []Reason{"PodThere"}},
		"what is no rule's":                       {given: []string{"AnotherIsReplaced", ""}, rules: []Blocker{other}, blockers: []Reason{"AnotherIsReplaced"}},
		"its node may run it":                     {given: []string{"copies"}, rules: []Blocker{copies}, change: on(n1Lost), waived: []Reason{"NoCopies"}, blockers: []Reason{NodeNotProvenOff}},
		"it runs":                                 {given: []string{"copies"}, rules: []Blocker{copies}, change: on(n1Alive), waived: []Reason{"NoCopies"}, blockers: []Reason{PredecessorRuns}},
		"the list is not known":                   {given: []string{"copies"}, rules: []Blocker{copies}, change: listed(Unknown, No), waived: []Reason{"NoCopies"}, blockers: []Reason{MembershipNotKnown}},
		"its volume is not known":                 {given: []string{"copies"}, rules: []Blocker{copies}, change: claim(func(c *Claim) { c.Known = false }), waived: []Reason{"NoCopies"}, blockers: []Reason{VolumeNotKnown}},
		"what is left could not be read":          {given: []string{"copies"}, rules: []Blocker{copies}, change: func(in *StepInput) { in.Unread = []Blocker{Unread("x", "no", "x")} }, waived: []Reason{"NoCopies"}, blockers: []Reason{NotRead}},
	} {
		t.Run(name, func(t *testing.T) {
			in := lost(func(in *StepInput) {
				in.Rules, in.Abandonment = test.rules, Abandonment{Requester: "anna", Rules: test.given}
				if test.change != nil {
					test.change(in)
				}
			})
			got := Step(in)
			same(t, reasonsOf(got.Waived), test.waived)
			same(t, reasonsOf(got.Blockers), test.blockers)
			if begins := len(got.Actions) == 1 && got.Actions[0].Kind == Permit; begins != (len(test.blockers) == 0) {
				t.Errorf("actions: %+v", got.Actions)
			}
		})
	}
}

func reasonsOf(blockers []Blocker) (all []Reason) {
	for i := range blockers {
		all = append(all, blockers[i].Reason)
	}
	return all
}

// The command is offered where rules alone hold it, and never where the member may run, or a system may answer in a moment.
func TestStepOffersToGiveUp(t *testing.T) {
	copies := Blocker{Reason: "NoCopies", Rule: "copies", WaivedBy: []string{"copies"}, Remedy: "wait"}
	const command = "usher replace db-0 -n shop --policy db --role etcd-member --abandon-data"
	for name, test := range map[string]struct {
		rules  []Blocker
		change func(*StepInput)
		want   bool
	}{
		"a rule alone":            {rules: []Blocker{copies}, want: true},
		"its node may run it":     {rules: []Blocker{copies}, change: on(n1Lost)},
		"a rule of another kind":  {rules: []Blocker{copies, {Reason: "PodThere", Rule: "pod"}}},
		"another is replaced":     {rules: []Blocker{copies, {Reason: "AnotherIsReplaced"}}},
		"what is known is stale":  {rules: []Blocker{{Reason: "EvidenceStale", WaivedBy: []string{"copies"}}}},
		"some was given up":       {rules: []Blocker{copies}, change: func(in *StepInput) { in.Abandonment.Rules = []string{"x"} }},
		"it may be that it never": {rules: []Blocker{{Reason: "OnlyOne", Rule: "only", Never: true, WaivedBy: []string{"only"}}}},
	} {
		in := lost(func(in *StepInput) {
			in.Rules, in.Policy = test.rules, "db"
			if test.change != nil {
				test.change(in)
			}
		})
		if got := strings.Contains(Step(in).Blockers[0].Remedy, command); got != test.want {
			t.Errorf("%s: offered: %t, want %t", name, got, test.want)
		}
	}
	if copies.Remedy != "wait" {
		t.Errorf("the input was changed: %q", copies.Remedy)
	}
}

// What was given up stands in the status, and stays there once something was removed.
func TestWaivedIsReported(t *testing.T) {
	in := lost(func(in *StepInput) { in.Abandonment = Abandonment{Requester: "anna", Rules: []string{"copies"}} })
	waived := []Blocker{{Reason: "NoCopies", Rule: "copies", Message: "no others have it", WaivedBy: []string{"copies"}}}
	status := Reported(&v1alpha1.ReplacementRequestStatus{}, 1, &in, &StepResult{Waived: waived})
	want := []v1alpha1.ReplacementBlocker{{Reason: "NoCopies", Rule: "copies", Message: "no others have it", WaivedBy: []string{"copies"}}}
	same(t, status.Waived, want)
	if back := Reported(&status, 1, &in, &StepResult{}); back.Waived != nil {
		t.Errorf("the rule passes again, and it is still waived: %+v", back.Waived)
	}
	for _, phase := range []Phase{Removing, Joining, Complete} {
		in.Progress = joining().Progress
		in.Progress.Phase = phase
		status = Reported(&status, 1, &in, &StepResult{})
		same(t, status.Waived, want)
		if said := status.Conditions[0].Message; !strings.HasSuffix(said, "; given up by anna: NoCopies (no others have it)") {
			t.Errorf("%s: %s", phase, said)
		}
	}
	cancelled := lost(func(in *StepInput) { in.Progress.Phase = Cancelled })
	before := v1alpha1.ReplacementRequestStatus{Step: v1alpha1.ReplacementWaiting, Waived: want, StepTime: stamp(noon.Add(-time.Minute))}
	if got := Reported(&before, 1, &cancelled, &StepResult{}); got.Waived != nil {
		t.Errorf("nothing was removed, and something was given up: %+v", got.Waived)
	}
}
