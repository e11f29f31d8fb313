package eviction

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"

	"usher.sh/usher/internal/expression"
)

// emptied is a database with one member that can be emptied and filled again, and a manager that dies at any moment.
type emptied struct {
	in      ResponderInput
	version int
	replies []Reply // in memory: lost when the manager dies
	begun   bool    // the system was asked to empty it
	drained bool
	evicted bool
	former  types.UID // the pod that was emptied and has left before it, "" for none
}

func (e *emptied) observe() {
	status := e.in.Policies[0].Status
	e.in.Evidence = &Evidence{
		Observed: e.in.Now, Epoch: status.Epoch, System: expression.Facts{"leader": "none"},
		Members: map[string]expression.Facts{"m-s0": {"drained": e.drained, "shards": []string{}}},
	}
}

// carryOut does a prefix of the actions, as a manager does that may die after each.
func (e *emptied) carryOut(t *rapid.T, actions []Action) {
	for i := range actions {
		if rapid.IntRange(0, 5).Draw(t, "the manager dies") == 0 {
			e.replies = nil
			return
		}
		if !e.do(t, &actions[i]) {
			return
		}
	}
}

func (e *emptied) do(t *rapid.T, action *Action) bool {
	fails := rapid.IntRange(0, 3).Draw(t, "the call fails") == 0
	reply := Reply{Step: action.Step}
	switch action.Kind {
	case Permit, Begin, Settle:
		if fails || action.Version != strconv.Itoa(e.version) {
			return false
		}
		e.version++
		e.in.Policies[0].Status, e.in.Policies[0].Version = action.Status, strconv.Itoa(e.version)
		return true
	case Prepare:
		if !noted(e.in.Policies[0].Status, v1alpha1.PreparationBegun) {
			t.Fatal("the system is asked for a step that is not written down")
		}
		e.begun = e.begun || !fails
	case Undo:
		if status := e.in.Policies[0].Status; !noted(status, v1alpha1.PreparationUndoing) &&
			(!noted(status, v1alpha1.PreparationBegun) || status.Preparations[0].PodUID != e.former || permitOf(status.Leaving, e.former) < 0) {
			t.Fatal("the system is asked to undo a step, and that is not written down")
		}
		reply.Undo = true
		if !fails {
			e.begun, e.drained, reply.Done = false, false, true
		}
	case Evict:
		if !e.drained {
			t.Fatal("it is evicted with its data")
		}
		e.evicted = !fails
	default:
	}
	if fails {
		reply.Error = "503"
	}
	e.replies = append([]Reply{reply}, e.replies...)
	return !fails
}

func noted(status *v1alpha1.EvictionPolicyStatus, state v1alpha1.PreparationState) bool {
	return len(status.Preparations) == 1 && status.Preparations[0].State == state
}

// statusInput is what the policy's controller knows, and has not forgotten by dying.
func (e *emptied) statusInput() StatusInput {
	in := StatusInput{
		Now: e.in.Now, Policy: e.in.Policies[0], Pods: []*snapshot.Pod{e.in.Pod}, WantedKnown: true,
		Wanted: map[types.UID]bool{}, Replies: e.replies, Presences: map[types.UID]PodPresence{}, Gone: map[types.UID]time.Time{},
	}
	if e.in.Wanted {
		in.Wanted[e.in.Pod.UID] = true
	}
	if e.former != "" {
		in.Presences[e.former], in.Gone[e.former] = SeenGone, noon.Add(-time.Minute)
		in.Presences[e.in.Pod.UID] = SeenReady
	}
	return in
}

func (e *emptied) pass(t *rapid.T) {
	e.in.Replies = e.replies
	if rapid.Bool().Draw(t, "tidy first") {
		e.carryOut(t, ReconcileStatus(e.statusInput()).Actions)
		return
	}
	e.carryOut(t, Step(e.in).Actions)
}

// TestPropertyCrash kills the manager after any action, and lets people change their minds. What was begun is always
// written down, and in the end it is taken back or the member is gone.
func TestPropertyCrash(t *testing.T) {
	policy := compiled(t, toySpec())
	gone, restored := 0, 0
	check(t, func(t *rapid.T) {
		e := &emptied{in: ResponderInput{Active: true, Wanted: true}}
		e.in.Now, e.in.Pod = noon, toyPod("s0", "store")
		e.in.Policies = []Declared{{
			Key: snapshot.Key{Namespace: "shop", Name: "db"}, Version: "0", Policy: policy, Status: &v1alpha1.EvictionPolicyStatus{}, Held: true,
		}}
		for range rapid.IntRange(1, 30).Draw(t, "passes") {
			e.in.Now = e.in.Now.Add(time.Duration(rapid.IntRange(0, 15000).Draw(t, "milliseconds")) * time.Millisecond)
			e.in.Wanted = rapid.IntRange(0, 4).Draw(t, "wanted") > 0
			e.drained = e.drained || (e.begun && rapid.Bool().Draw(t, "emptied"))
			if rapid.Bool().Draw(t, "observe") {
				e.observe()
			}
			if e.pass(t); e.evicted {
				gone++
				return
			}
			if e.begun && len(e.in.Policies[0].Status.Preparations) == 0 {
				t.Fatal("the system works on a step that no status remembers")
			}
		}
		for range 200 { // its eviction is no longer requested
			e.in.Now, e.in.Wanted = e.in.Now.Add(askAgain), false
			e.pass(t)
		}
		if e.begun || e.drained || len(e.in.Policies[0].Status.Preparations) > 0 {
			t.Fatalf("the step was not taken back: begun %v, emptied %v, %+v", e.begun, e.drained, e.in.Policies[0].Status)
		}
		restored++
	})
	if gone == 0 || restored == 0 {
		t.Errorf("%d were evicted and %d restored: the test says nothing", gone, restored)
	}
}

// TestPropertyReplaced kills the manager after any action while a member that was emptied is back in another pod, which is wanted gone again or
// not, also by a caller that another replica answers. It never goes with its data, and in the end nothing is left of what was begun.
func TestPropertyReplaced(t *testing.T) {
	spec := toySpec()
	own := toyRoles()[0]
	own.Evict.AtOnce = new(int32(0)) // or else the permit of the former pod would keep it
	spec.Roles = []v1alpha1.Role{own}
	policy := compiled(t, spec)
	gone, restored := 0, 0
	check(t, func(t *rapid.T) {
		e := &emptied{in: ResponderInput{Active: true}, former: "uid-former", begun: true, drained: true}
		e.in.Now, e.in.Pod = noon, toyPod("s0", "store")
		permit, step := leaves("s0", "store", noon.Add(-time.Minute)), begun("Drain", "s0", v1alpha1.PreparationBegun, noon.Add(-time.Minute))
		permit.PodUID, step.PodUID = e.former, e.former
		e.in.Policies = []Declared{{
			Key: snapshot.Key{Namespace: "shop", Name: "db"}, Version: "0", Policy: policy, Held: true,
			Status: &v1alpha1.EvictionPolicyStatus{Leaving: []v1alpha1.Leaving{permit}, Preparations: []v1alpha1.PreparationStatus{step}},
		}}
		e.observe()
		since := e.in.Now.Add(-time.Duration(rapid.IntRange(0, 12).Draw(t, "gone for seconds")) * time.Second)
		for range rapid.IntRange(1, 60).Draw(t, "passes") {
			e.in.Now = e.in.Now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "milliseconds")) * time.Millisecond)
			e.in.Wanted = rapid.IntRange(0, 4).Draw(t, "wanted") > 0
			e.drained = e.drained || (e.begun && rapid.Bool().Draw(t, "emptied"))
			if rapid.Bool().Draw(t, "observe") {
				e.observe()
			}
			if e.replace(t, since); e.evicted {
				gone++
				return
			}
		}
		for range 200 {
			e.in.Now, e.in.Wanted = e.in.Now.Add(askAgain), false
			e.replace(t, since)
		}
		if status := e.in.Policies[0].Status; e.begun || e.drained || len(status.Preparations) > 0 || permitOf(status.Leaving, e.former) >= 0 {
			t.Fatalf("the step was not taken back: begun %v, emptied %v, %+v", e.begun, e.drained, status)
		}
		restored++
	})
	if gone == 0 || restored == 0 {
		t.Errorf("%d were evicted and %d restored: the test says nothing", gone, restored)
	}
}

// replace lets the policy's controller, the responder or admission do a pass.
func (e *emptied) replace(t *rapid.T, since time.Time) {
	e.in.Replies = e.replies
	switch rapid.IntRange(0, 3).Draw(t, "who") {
	case 0, 1:
		in := e.statusInput()
		in.Gone[e.former] = since
		e.carryOut(t, ReconcileStatus(in).Actions)
	case 2:
		e.carryOut(t, Step(e.in).Actions)
	case 3:
		answer := Admit(AdmissionInput{Input: e.in.Input, Verb: VerbEvict, User: "alice"})
		if !answer.Allow || !e.in.Wanted {
			return
		}
		for i := range answer.Actions {
			if !e.do(t, &answer.Actions[i]) {
				return
			}
		}
		e.do(t, &Action{Kind: Evict})
	}
}
