package agent

import (
	"context"
	"testing"
	"time"

	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/nodepressure"
)

// TestLedgerKnowsNever: a refusal for good is distinguished from one for now, since no other pod is prepared while one is.
func TestLedgerKnowsNever(t *testing.T) {
	for message, want := range map[string]bool{
		`admission webhook "evict.usher.sh" denied the request: Member db-0 ` + eviction.MayNever + `: it is the only copy`: true,
		`admission webhook "evict.usher.sh" denied the request: Member db-0 may not leave its node yet: not in sync`:        false,
	} {
		l := newLedger(nil)
		l.end(&outcome{
			action: nodepressure.Action{Kind: nodepressure.Evict, Pod: &nodepressure.Pod{UID: "u"}},
			answer: answers.Answer{Code: answers.RefusedForNow, Message: message},
		}, time.Now())
		if l.refused["u"].Never != want {
			t.Errorf("%s: never is %t", message, !want)
		}
	}
}

func TestAWebhookThatIsDownIsNoApiserverThatIsAway(t *testing.T) {
	c := &executor{apiserver: &apiserverHealth{changed: func(bool) {}}}
	c.record(t.Context(), answers.Answer{Code: answers.Unavailable, Message: `Internal error occurred: failed calling webhook "evict.usher.sh": EOF`})
	if !c.apiserver.reachable() {
		t.Error("the apiserver counts as away, and it has answered")
	}
	c.record(t.Context(), answers.Answer{Code: answers.Unavailable, Message: "context deadline exceeded"})
	if c.apiserver.reachable() {
		t.Error("the apiserver counts as reachable, and it has not answered")
	}
}

func TestARequestThatTheAgentGaveUpSaysNothingOfTheApiserver(t *testing.T) {
	c := &executor{apiserver: &apiserverHealth{changed: func(bool) {}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.record(ctx, answers.Answer{Code: answers.Unavailable, Message: "context canceled"})
	if !c.apiserver.reachable() {
		t.Error("the apiserver counts as away, and the agent did not wait for it")
	}
}

func TestDaemonsAreKnownWhereSomethingIsReserved(t *testing.T) {
	e := &nodeReader{memory: 100}
	s := &sight{node: nodepressure.Node{Readings: map[nodepressure.Signal]nodepressure.Reading{nodepressure.MemoryAvailable: {}, nodepressure.AllocatableMemoryAvailable: {}}}}
	s.all.WorkingSet, s.pods.WorkingSet = 50, 30
	for limit, want := range map[int64]nodepressure.Daemons{90: {Known: true, MemoryUsage: 20, MemoryReserved: 10}, 100: {}} {
		s.pods.Limit = limit
		if got := e.daemons(s); got != want {
			t.Errorf("with %d of 100 for pods: %+v, want %+v", limit, got, want)
		}
	}
}

func TestSoftThresholdsThatAreNeverReachedAreSaid(t *testing.T) {
	config := Config{Config: nodepressure.Config{EvictionHard: map[string]string{"memory.available": "1Gi", "pid.available": "1"}}}.withDefaults()
	thresholds, err := config.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	node := nodepressure.Node{Readings: map[nodepressure.Signal]nodepressure.Reading{
		nodepressure.MemoryAvailable: {Available: 4 << 30, Capacity: 8 << 30}, nodepressure.PIDAvailable: {Available: 90, Capacity: 100},
	}}
	found := neverSoft(node, thresholds)
	if len(found) != 1 || found[0].Signal != nodepressure.MemoryAvailable {
		t.Errorf("got %+v, want that of memory.available, which is 500Mi", found)
	}
}
