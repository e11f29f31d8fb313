package nodepressure

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// requested is a scene in which db-0 is prepared and was refused a moment ago.
func requested(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, 150*mi, governed(hog("db-0", 500), ""), governed(hog("db-1", 450), ""))
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Request db-0", "Evict db-0")
	s.written(Withdraw, "db-0")
	s.refuse("db-0", 5*time.Second)
	return s
}

// written says what stands now of what was written for pods.
func (s *scene) written(kind ActionKind, names ...string) {
	s.in.Written = nil
	for _, name := range names {
		s.in.Written = append(s.in.Written, Written{UID: s.pod(name).UID, Kind: kind, Value: "value"})
	}
}

func (s *scene) busy(names ...string) {
	s.in.Busy = map[types.UID]bool{}
	for _, name := range names {
		s.in.Busy[s.pod(name).UID] = true
	}
}

func TestReliefWithdrawsUntilThatIsConfirmed(t *testing.T) {
	s := requested(t)
	s.available(gi)
	s.want(time.Second, "Withdraw db-0")
	s.busy("db-0")
	s.want(time.Second)
	s.busy()
	s.in.Written[0].Later = true
	s.want(time.Second)
	s.in.Written[0].Later = false
	s.want(time.Second, "Withdraw db-0")
	s.in.Reachable = false
	s.want(time.Second)
	s.in.Reachable = true
	s.want(time.Second, "Withdraw db-0")
	s.written(Withdraw)
	s.want(time.Second)
}

// What is under way on a pod may be its request: a withdrawal does not overtake it.
func TestReliefWithdrawsAfterWhatIsUnderWay(t *testing.T) {
	s := requested(t)
	s.available(gi)
	s.busy("db-0")
	s.want(time.Second)
	s.busy()
	s.want(time.Second, "Withdraw db-0")
}

// A withdrawal that is not confirmed may have been carried out: the request is made anew, and no other pod's beside it.
func TestReliefAsksAnewAfterAWithdrawal(t *testing.T) {
	s := requested(t)
	s.available(gi)
	s.want(time.Second, "Withdraw db-0")
	s.available(150 * mi)
	for range 2 {
		s.look(15 * time.Second)
	}
	s.want(15*time.Second, "Request db-0", "Evict db-0")
	s.refuse("db-0", 5*time.Second)
	s.want(time.Second, "Wait NoCandidate")
	s.says("default/db-1 (default/db-0 is being prepared to leave first)")
}

// What agents before this one asked for has no pressure behind it where another pod is asked for now, or none is.
func TestReliefWithdrawsWhatItDidNotAskFor(t *testing.T) {
	s := newScene(t, gi, governed(hog("db-0", 500), ""), governed(hog("db-1", 450), ""), governed(hog("db-2", 100), ""))
	s.written(Withdraw, "db-0", "db-1", "db-2")
	s.terminating("db-2", time.Minute)
	s.want(0, "Withdraw db-0", "Withdraw db-1", "Say []")

	s = newScene(t, 150*mi, governed(hog("db-0", 500), ""), governed(hog("db-1", 450), ""))
	s.written(Withdraw, "db-0", "db-1")
	s.want(0, sayMemory, "Wait Grace") // it may be what is asked for next
	s.look(15 * time.Second)
	s.want(15*time.Second, "Request db-0", "Evict db-0", "Withdraw db-1")
}

// A threshold that is met and cannot be read any more decides nothing: what was asked for earlier does not stand for ever.
func TestReliefWithdrawsWhatStaysUndecided(t *testing.T) {
	s := newScene(t, 150*mi, governed(hog("db-0", 500), ""))
	s.written(Withdraw, "db-0")
	s.frozen = true
	for after := time.Duration(0); after < undecided; after += maxStep {
		for _, did := range s.look(maxStep) {
			if strings.HasPrefix(did, "Withdraw") {
				t.Fatalf("after %s: %s", after, did)
			}
		}
	}
	s.want(maxStep, "Withdraw db-0", "Wait Unread")
}

func TestReliefTakesTheAnnotationBack(t *testing.T) {
	s := newScene(t, gi, governed(hog("db-0", 500), ""))
	s.want(0, "Say []")
	s.written(Unbreak, "db-0")
	s.busy("db-0")
	s.want(time.Second)
	s.busy()
	s.in.Leaving = []Leaving{{UID: s.pod("db-0").UID}}
	s.want(time.Second) // it is on its way by the annotation
	s.in.Leaving = nil
	s.want(time.Second, "Unbreak db-0")
	for _, a := range s.last {
		if a.Value != "value" {
			t.Errorf("what is taken back is %q", a.Value)
		}
	}
	s.written(Unbreak)
	s.want(time.Second)
}

// A request that may not be withdrawn stands beside that of another pod: the refusal holds no other pod on the node.
func TestReliefWhereAWithdrawalIsRefused(t *testing.T) {
	s := requested(t)
	s.in.Refused[s.pod("db-0").UID] = Refusal{At: s.in.Now, Message: "it is the only copy", LookAgain: s.in.Now.Add(time.Hour), Never: true}
	s.want(time.Second, "Withdraw db-0", "Wait NoCandidate")
	s.busy("db-0")
	s.want(time.Second, "Wait NoCandidate")
	s.says("default/db-1 (the request for default/db-0 is being withdrawn first)")
	s.busy()
	s.in.Written[0].Later, s.in.Written[0].Refused = true, true
	s.want(time.Second, "Request db-1", "Evict db-1")
	s.in.Written[0].Later = false
	s.refuse("db-1", time.Minute)
	s.want(time.Second, "Withdraw db-0", "Wait NoCandidate")
}

// A withdrawal that goes unanswered keeps no other pod from leaving, and every other from being prepared.
func TestReliefWhereAWithdrawalIsNotAnswered(t *testing.T) {
	s := requested(t)
	s.in.Refused[s.pod("db-0").UID] = Refusal{At: s.in.Now, Message: "it is the only copy", LookAgain: s.in.Now.Add(time.Hour), Never: true}
	s.want(time.Second, "Withdraw db-0", "Wait NoCandidate")
	s.in.Written[0].Later = true
	s.want(time.Second, "Evict db-1")
}

// A request that was withdrawn and may still be carried out keeps no other pod from being prepared, and is withdrawn again.
func TestReliefWhereAWithdrawnRequestMayComeLate(t *testing.T) {
	s := requested(t)
	s.in.Refused[s.pod("db-0").UID] = Refusal{At: s.in.Now, Message: "it is the only copy", LookAgain: s.in.Now.Add(time.Hour), Never: true}
	s.want(time.Second, "Withdraw db-0", "Wait NoCandidate")
	s.in.Written[0].Later, s.in.Written[0].Late = true, true
	s.want(time.Second, "Request db-1", "Evict db-1")
	s.in.Written[0].Later = false
	s.refuse("db-1", time.Minute)
	s.want(time.Second, "Withdraw db-0", "Wait NoCandidate")
}

// A pod whose earlier request is being withdrawn would be refused a moment before its own preparation can be asked for, and then
// not be prepared as long as that refusal stands.
func TestReliefWaitsForAWithdrawalOfTheNext(t *testing.T) {
	s := requested(t)
	s.in.Pods = append(s.in.Pods, hog("other", 400))
	s.written(Withdraw, "db-0", "db-1")
	s.in.Refused[s.pod("db-0").UID] = Refusal{At: s.in.Now, Message: "it is the only copy", LookAgain: s.in.Now.Add(time.Hour), Never: true}
	s.busy("db-1") // its withdrawal was begun beside the request for db-0
	s.pod("other").Exempt = "it is new"
	s.want(time.Second, "Withdraw db-0", "Wait NoCandidate")
	s.pod("other").Exempt = ""
	s.in.Written = s.in.Written[1:] // the withdrawal of db-0 is confirmed before that of db-1
	s.want(time.Second, "Wait NoCandidate")
	s.says("default/db-1 is next, and what was written for it earlier is being taken back first")
	s.written(Withdraw)
	s.busy()
	s.want(time.Second, "Request db-1", "Evict db-1")
}

// The same where pressure is back before the pod's own withdrawal is answered. Below a hard threshold that is not waited for.
func TestReliefWaitsForAWithdrawalBeforeItAsksAnew(t *testing.T) {
	for available, want := range map[int64][]string{150 * mi: {"Wait NoCandidate"}, 50 * mi: {"Evict db-0"}} {
		s := requested(t)
		s.available(gi)
		s.want(time.Second, "Withdraw db-0")
		s.busy("db-0")
		s.available(150 * mi)
		for range 2 {
			s.look(15 * time.Second)
		}
		s.available(available)
		s.want(15*time.Second, want...)
		if available == 150*mi {
			s.written(Withdraw)
			s.busy()
			s.want(time.Second, "Request db-0", "Evict db-0")
		}
	}
}
