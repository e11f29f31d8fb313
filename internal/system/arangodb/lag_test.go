package arangodb

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// The supervision calls a server GOOD for five seconds after its last heartbeat. A server whose pod has gone is in sync until the
// next write, so that for those seconds two of three look as if they were there.
func TestHealthThatLagsLetsNoSecondServerGo(t *testing.T) {
	b := newBench(t, cluster(3))
	b.sim.AddCollection("wide", 3, []string{prmrC, prmrA, prmrB})
	b.sim.Set("Plan/Collections/_system/wide/writeConcern", 2)
	b.pass(1)
	first := b.input(diskFollows, prmrA, b.evidence(prmrA))
	first.Pod.Grace = time.Minute
	let := eviction.Admit(eviction.AdmissionInput{Input: first, Verb: eviction.VerbEvict, User: "kubectl"})
	if !let.Allow || len(let.Actions) != 1 {
		t.Fatalf("the first may not go: %s", let.Message)
	}
	status := let.Actions[0].Status
	b.sim.Kill(prmrA)
	gone := map[types.UID]eviction.PodPresence{first.Pod.UID: eviction.SeenGone}
	for second := range 90 {
		policy := eviction.Declared{Key: snapshot.Key{Namespace: "db", Name: "p"}, Version: "1", Policy: b.policy, Status: status}
		tidied := eviction.ReconcileStatus(eviction.StatusInput{Now: b.now, Policy: policy, Presences: gone, WantedKnown: true})
		if len(tidied.Actions) > 0 {
			status = tidied.Actions[0].Status
		}
		evidence := b.evidence(prmrB)
		evidence.Epoch = status.Epoch
		next := b.input(diskFollows, prmrB, evidence)
		next.Policies[0].Status = status
		if verdict := eviction.Judge(next); verdict.Answer == eviction.Allowed {
			t.Fatalf("%d s after the first was seen gone another may go, and two of three are needed for writes", second)
		}
		b.pass(1)
	}
	if len(status.Leaving) > 0 {
		t.Errorf("the first counts for ever: %+v", status.Leaving)
	}
}
