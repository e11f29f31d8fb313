package replacement

import (
	"testing"

	"usher.sh/usher/api/v1alpha1"
)

// A member that keeps its id leaves by the policy's steps before anything of it goes. Once they are done that is written down: its system
// does not tell it from its successor.
func TestStepBySteps(t *testing.T) {
	steps := func(left, joined Tristate) func(*StepInput) {
		return func(in *StepInput) {
			in.System.Order, in.System.Left, in.System.Joined = BySteps, left, joined
			in.System.Member = &v1alpha1.MemberRegistration{ID: "db-0"}
		}
	}
	cancelled, unmade := func(in *StepInput) { in.Cancelled = true }, func(in *StepInput) { in.Set.Makes = No }
	hasLeft := func(in *StepInput) { in.Progress.LeftTime = noon }
	noClaim, terminating := claim(func(c *Claim) { *c = Claim{Name: c.Name} }), claim(func(c *Claim) { c.Terminating = true })
	noPod, unready := func(in *StepInput) { in.Pod = nil }, func(in *StepInput) { in.Pod.Ready = false }
	bare := func(in *StepInput) { in.Claims, in.Progress.Claims, in.Progress.PodUID = nil, nil, "" }
	writes := func(phase Phase, changes ...func(*StepInput)) Action {
		in := removing(changes...)
		in.Progress.Phase = phase
		return Action{Kind: Write, Progress: in.Progress}
	}
	leaves, joins := Action{Kind: Leave}, Action{Kind: Join}
	retains, deletesClaim, deletesPod := Action{Kind: RetainVolume, Name: "v1", UID: "v1"}, Action{Kind: DeleteClaim, Name: "data-db-0", UID: "c1"}, Action{Kind: DeletePod, Name: "db-0", UID: "p2"}
	begins := writes(Removing, func(in *StepInput) {
		in.Progress.PodUID, in.Progress.Registration = "", &v1alpha1.MemberRegistration{ID: "db-0"}
	})
	back := Action{Kind: Write}
	for name, test := range map[string]struct {
		in       StepInput
		actions  []Action
		blockers []Reason
	}{
		"it begins":                                {in: lost(permitted, steps(No, No)), actions: []Action{begins}},
		"what the system says is not known":        {in: lost(steps(Unknown, Unknown)), blockers: []Reason{MembershipNotKnown}},
		"it leaves first":                          {in: removing(steps(No, No)), actions: []Action{leaves}},
		"that it has left is written down":         {in: removing(steps(Yes, No)), actions: []Action{writes(Removing, hasLeft)}},
		"then it goes":                             {in: removing(steps(Yes, No), hasLeft), actions: []Action{retains, deletesClaim, deletesPod}},
		"it goes where its system is silent":       {in: removing(steps(Unknown, Unknown), hasLeft), actions: []Action{retains, deletesClaim, deletesPod}},
		"it is listed again":                       {in: removing(steps(No, No), hasLeft, noClaim), actions: []Action{deletesPod}},
		"its successor is listed":                  {in: removing(steps(No, No), hasLeft, noClaim, on(n2Alive)), actions: []Action{writes(Joining, hasLeft)}},
		"a rule does not pass any more":            {in: removing(steps(No, No), ruledOut), actions: []Action{back}, blockers: []Reason{"NoQuorum"}},
		"a rule does not pass when it has left":    {in: removing(steps(Yes, No), ruledOut), actions: []Action{writes(Removing, hasLeft)}},
		"it runs again when it has left":           {in: removing(steps(Yes, No), on(n1Alive)), actions: []Action{writes(Removing, hasLeft)}},
		"cancelled when it has left":               {in: removing(steps(Yes, No), cancelled), actions: []Action{back}, blockers: []Reason{MembershipUnchanged}},
		"a rule does not pass any more, too late":  {in: removing(steps(Yes, No), hasLeft, ruledOut), actions: []Action{retains, deletesClaim, deletesPod}},
		"cancelled while it leaves":                {in: removing(steps(No, No), cancelled), actions: []Action{back}, blockers: []Reason{MembershipUnchanged}},
		"cancelled too late":                       {in: removing(steps(No, No), hasLeft, cancelled), actions: []Action{retains, deletesClaim, deletesPod}},
		"its system falls silent while it leaves":  {in: removing(steps(Unknown, Unknown)), actions: []Action{back}, blockers: []Reason{MembershipNotKnown}},
		"it comes back while it leaves":            {in: removing(steps(No, No), on(n1Alive)), actions: []Action{back}, blockers: []Reason{PredecessorRuns}},
		"it comes back when it has left":           {in: removing(steps(No, No), hasLeft, on(n1Alive)), blockers: []Reason{PredecessorRuns}},
		"it has left and runs":                     {in: removing(steps(Yes, No), hasLeft, on(n1Alive)), blockers: []Reason{PredecessorRuns}},
		"its claim is deleted while it leaves":     {in: removing(steps(No, No), terminating), actions: []Action{leaves}},
		"and a rule does not pass":                 {in: removing(steps(No, No), terminating, ruledOut), blockers: []Reason{"NoQuorum"}},
		"all of it is gone before it has left":     {in: removing(steps(No, No), noClaim, noPod), actions: []Action{leaves}},
		"a successor runs before it has left":      {in: removing(steps(No, No), noClaim, on(n2Alive)), actions: []Action{writes(Joining)}},
		"it has nothing that could go":             {in: removing(steps(No, No), bare, func(in *StepInput) { in.Pod.Node = Node{} }), actions: []Action{leaves}},
		"nothing that could go, and cancelled":     {in: removing(steps(No, No), bare, cancelled), actions: []Action{back}, blockers: []Reason{MembershipUnchanged}},
		"the successor joins":                      {in: joining(steps(No, No)), actions: []Action{joins}},
		"the successor has joined":                 {in: joining(steps(No, Yes)), actions: []Action{writes(Complete)}},
		"the successor is not Ready":               {in: joining(steps(No, No), unready), blockers: []Reason{SuccessorNotReady}},
		"whether it has joined is not known":       {in: joining(steps(Unknown, Unknown)), blockers: []Reason{MembershipNotKnown}},
		"none comes any more":                      {in: joining(steps(Unknown, Unknown), noPod, cancelled, unmade), actions: []Action{writes(Cancelled)}},
		"none comes any more, and its steps stood": {in: removing(steps(No, No), cancelled, unmade), actions: []Action{back}, blockers: []Reason{StatefulSetMissing, MembershipUnchanged}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Step(test.in)
			var reasons []Reason
			for _, b := range got.Blockers {
				reasons = append(reasons, b.Reason)
			}
			same(t, got.Actions, test.actions)
			same(t, reasons, test.blockers)
		})
	}
}
