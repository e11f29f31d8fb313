package eviction

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.sh/usher/internal/expression"
)

// On a node that is proven off a member goes by the rules of its replacement. Without the proof nothing is different.
func TestNodeThatIsProvenOff(t *testing.T) {
	holds := expression.Facts{"drained": false, "shards": []string{"a"}}
	for name, c := range map[string]struct {
		role   string
		change func(*Input)
		on     []string // reasons while nothing is proven
		off    []string
	}{
		"it holds data":               {role: "store", on: []string{"NotDrained"}},
		"another is leaving":          {role: "store", change: func(in *Input) { in.Peers = append(in.Peers, terminating(toyPod("s2", "store"))) }, on: []string{"AnotherIsLeaving", "NotDrained"}},
		"it could always go":          {role: "router"},
		"it is the only one":          {role: "single", on: []string{"Single"}, off: []string{NoSuccessor}},
		"its system cannot be asked":  {role: "store", change: func(in *Input) { in.Evidence.Error = "refused" }, on: []string{NoEvidence}, off: []string{NoEvidence}},
		"what it said is too old":     {role: "store", change: func(in *Input) { in.Evidence.Epoch = 3 }, on: []string{EvidenceStale, "NotDrained"}, off: []string{EvidenceStale}},
		"its system does not know it": {role: "store", change: func(in *Input) { delete(in.Evidence.Members, "m-s0") }, on: []string{MemberUnknown}, off: []string{MemberUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t)
			in.Pod = toyPod("s0", c.role)
			in.Evidence.Members["m-s0"] = holds
			if c.change != nil {
				c.change(&in)
			}
			for _, off := range []bool{false, true} {
				in.NodeOff = off
				want := c.on
				if off {
					want = c.off
				}
				verdict := Judge(in)
				if diff := cmp.Diff(want, reasons(verdict)); diff != "" {
					t.Errorf("off %t: %s", off, diff)
				}
				if off && len(verdict.Needed) > 0 {
					t.Errorf("a dead server is prepared: %v", stepNames(verdict))
				}
				if again := judgeDeletion(in).verdict; off && again.Answer != verdict.Answer {
					t.Errorf("a DELETE is %s, an eviction %s", again.Answer, verdict.Answer)
				}
			}
		})
	}
}

// Nothing lingers on a machine without power: a removal by force is one like any other there, and the permit has no more time.
func TestForcedRemovalFromANodeThatIsOff(t *testing.T) {
	in := AdmissionInput{Input: world(t), Verb: VerbDelete, User: "jane", Grace: new(int64(0))}
	if result := Admit(in); result.Allow {
		t.Fatal("a forced removal from a node that runs is let through")
	}
	in.NodeOff = true
	result := Admit(in)
	if !result.Allow || len(result.Actions) != 1 || result.Actions[0].Kind != Permit {
		t.Fatalf("%+v", result)
	}
	if at := permitOf(result.Actions[0].Status.Leaving, in.Pod.UID); at < 0 || result.Actions[0].Status.Leaving[at].LingerSeconds != 0 {
		t.Errorf("%+v", result.Actions[0].Status.Leaving)
	}
}

// The responder evicts such a member, and asks its system for nothing.
func TestStepOnANodeThatIsOff(t *testing.T) {
	in := ResponderInput{Input: world(t), Wanted: true, Active: true}
	in.Evidence.Members["m-s0"] = expression.Facts{"drained": false, "shards": []string{"a"}}
	if step := Step(in); step.Evicts() {
		t.Fatal("it is evicted from a node that runs")
	}
	in.NodeOff = true
	if step := Step(in); !step.Evicts() {
		t.Errorf("%v, %+v", kinds(step.Actions), step.Verdict)
	}
}
