package eviction

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// held is a store that may not leave, and that a maintenance has wanted gone for an hour, under limits.
func held(limits ...time.Duration) func(*Input) {
	return func(in *Input) {
		in.Evidence.System["leader"] = "m-s0"
		in.Holds = []Held{{Requester: "kernel.maintenance.usher.sh/n1", Since: noon.Add(-time.Hour)}, {Requester: "later.maintenance.usher.sh", Since: noon}}
		for _, limit := range limits {
			in.HoldLimits = append(in.HoldLimits, snapshot.HoldLimit{Policy: "patience", MaxHold: limit})
		}
	}
}

func TestAHoldEnds(t *testing.T) {
	suspended := func(in *Input) {
		spec := toySpec()
		spec.Suspend = true
		in.Policies[0].Policy = compiled(t, spec)
	}
	twice := func(in *Input) {
		again := in.Policies[0]
		again.Key.Name = "again"
		in.Policies = append(in.Policies, again)
	}
	daemon := func(in *Input) { in.Pod.Owner = daemonSet }
	static := func(in *Input) { in.Pod.Mirror = true }
	invalid := func(in *Input) {
		in.Policies[0].Policy = in.Policies[0].Policy.With(Problem{Path: "spec.system", Message: "it cannot be used"})
	}
	load := func(in *Input) {
		spec := toySpec()
		spec.Members[0].Leaves = v1alpha1.LeavesLoad
		in.Policies[0].Policy = compiled(t, spec)
	}
	twiceLoad := func(in *Input) {
		twice(in)
		load(in)
	}
	unreadable := func(in *Input) {
		spec := toySpec()
		spec.Members = spec.Members[:1]
		spec.Members[0].Selector, spec.Members[0].Leaves = metav1.LabelSelector{}, v1alpha1.LeavesLoad
		in.Policies[0].Policy, _ = Compile(spec, toyRoles(), toyDeclared)
	}
	for name, c := range map[string]struct {
		given []func(*Input)
		goes  bool
	}{
		"no limit":                           {[]func(*Input){held()}, false},
		"a longer limit":                     {[]func(*Input){held(2 * time.Hour)}, false},
		"a moment before":                    {[]func(*Input){held(time.Hour + time.Second)}, false},
		"at the limit":                       {[]func(*Input){held(time.Hour)}, true},
		"the shortest of two":                {[]func(*Input){held(2*time.Hour, 30*time.Minute)}, true},
		"its owner has suspended it":         {[]func(*Input){held(time.Hour), suspended}, true},
		"two policies claim it":              {[]func(*Input){held(time.Hour), twice}, true},
		"it would be back at once":           {[]func(*Input){held(time.Hour), daemon}, false},
		"… and two policies claim it":        {[]func(*Input){held(time.Hour), daemon, twice}, false},
		"… and its policy is invalid":        {[]func(*Input){held(time.Hour), daemon, invalid}, false},
		"a static pod of two policies":       {[]func(*Input){held(time.Hour), static, twice}, false},
		"its policy is invalid":              {[]func(*Input){held(time.Hour), invalid}, true},
		"it stays":                           {[]func(*Input){held(time.Hour), load}, false},
		"it stays, of a DaemonSet":           {[]func(*Input){held(time.Hour), load, daemon}, false},
		"it stays by one of two policies":    {[]func(*Input){held(time.Hour), twiceLoad}, false},
		"… of a DaemonSet":                   {[]func(*Input){held(time.Hour), twiceLoad, daemon}, false},
		"it stays by an invalid policy":      {[]func(*Input){held(time.Hour), load, invalid}, false},
		"it may stay by what is no selector": {[]func(*Input){held(time.Hour), unreadable}, false},
		"no maintenance wants it":            {[]func(*Input){held(time.Hour), func(in *Input) { in.Holds = nil }}, false},
		"a request without a time":           {[]func(*Input){held(time.Hour), func(in *Input) { in.Holds = []Held{{}} }}, false},
		"what the system says is unknown":    {[]func(*Input){held(time.Hour), func(in *Input) { in.Evidence = nil }}, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			for _, f := range c.given {
				f(&in)
			}
			step := Step(ResponderInput{Input: in, Wanted: true, Active: true})
			if step.Evicts() != c.goes {
				t.Errorf("evicts %t, want %t: %v", step.Evicts(), c.goes, kinds(step.Actions))
			}
			own := Admit(AdmissionInput{Input: in, Verb: VerbEvict, User: "usher", Self: []string{"usher"}})
			if own.Allow != c.goes || c.goes && (own.Note.Kind != HoldExpired || len(own.Warnings) != 1) {
				t.Errorf("usher's eviction: %+v", own.Note)
			}
			own = Admit(AdmissionInput{Input: in, Verb: VerbDelete, User: "usher", Self: []string{"usher"}})
			if own.Allow != c.goes || c.goes && own.Note.Kind != HoldExpired {
				t.Errorf("usher's DELETE: %+v", own.Note)
			}
			own = Admit(AdmissionInput{Input: in, Verb: VerbDelete, Grace: new(int64(0)), User: "usher", Self: []string{"usher"}})
			if own.Allow {
				t.Errorf("usher's DELETE by force is let through: %+v", own.Note)
			}
			if own := Admit(AdmissionInput{Input: in, Verb: VerbEvict, User: "alice", Self: []string{"usher"}}); own.Allow {
				t.Error("another client's eviction is let through")
			}
		})
	}
}

// A hold that has lasted too long has what stays count as emptied, also where it is not known whose member it is.
func TestWhatStaysIsEmptiedOnceAHoldEnds(t *testing.T) {
	in := loaded(t, "s0")
	again := in.Policies[0]
	again.Key.Name, again.Policy = "again", compiled(t, toySpec())
	in.Policies = append(in.Policies, again)
	if got := Step(in); got.Empties() {
		t.Errorf("it counts as emptied before: %v", got.Actions)
	}
	held(time.Hour)(&in.Input)
	got := Step(in)
	if diff := cmp.Diff([]ActionKind{Respond}, kinds(got.Actions)); diff != "" || !got.Empties() {
		t.Errorf("%s%v", diff, got.Actions)
	}
}

// What ends a hold is said in the Eviction, and is looked at when it is due.
func TestWhatIsSaidOfAHold(t *testing.T) {
	in := world(t)
	held(time.Hour)(&in)
	step := Step(ResponderInput{Input: in, Wanted: true, Active: true})
	at := slices.IndexFunc(step.Actions, func(a Action) bool { return a.Kind == Evict })
	if why := step.Actions[at].Why; !strings.Contains(why, "kernel.maintenance.usher.sh/n1 has waited since 2026-11-21T11:00:00Z, longer than maxHold 1h0m0s of ClusterEvictionPolicy patience") {
		t.Error(why)
	}
	in = world(t)
	held(time.Hour + time.Second)(&in)
	if diff := cmp.Diff(noon.Add(time.Second), Step(ResponderInput{Input: in, Wanted: true, Active: true}).NextLook); diff != "" {
		t.Error(diff)
	}
}
