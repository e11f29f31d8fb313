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
		if !noted(e.in.Policies[0].Status, v1alpha1.PreparationUndoing) {
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

func (e *emptied) pass(t *rapid.T) {
	e.in.Replies = e.replies
	if rapid.Bool().Draw(t, "tidy first") {
		e.carryOut(t, ReconcileStatus(StatusInput{
			Now: e.in.Now, Policy: e.in.Policies[0], Pods: []*snapshot.Pod{e.in.Pod}, WantedKnown: true,
			Wanted: map[types.UID]bool{e.in.Pod.UID: e.in.Wanted}, Replies: e.replies,
		}).Actions)
		return
	}
	e.carryOut(t, Step(e.in).Actions)
}

// TestPropertyCrash kills the manager after any action, and lets people change their minds. What was begun is always
// written down, and in the end it is taken back or the member is gone.
func TestPropertyCrash(t *testing.T) {
	policy := compiled(t, toySpec())
	gone, restored := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		e := &emptied{in: ResponderInput{Active: true, Wanted: true}}
		e.in.Now, e.in.Pod = noon, toyPod("s0", "store")
		e.in.Policies = []Declared{{
			Key: snapshot.Key{Namespace: "shop", Name: "db"}, Version: "0", Policy: policy, Status: &v1alpha1.EvictionPolicyStatus{},
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
