package nodepressure

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestReliefSaysNothingIsWrong(t *testing.T) {
	s := newScene(t, gi, hog("a", 500))
	s.want(0, "Say []")
	s.want(time.Second)
}

func TestReliefSoftAsksInOrder(t *testing.T) {
	s := newScene(t, 150*mi, hog("small", 300), hog("large", 500))
	s.want(0, sayMemory, "Wait Grace")
	s.says("memory.available is 150Mi, below its soft threshold of 200Mi; its grace period of 30s ends in 30s")
	s.want(15*time.Second, "Wait Grace")
	s.want(15*time.Second, "Evict large")
	s.says("default/large uses 500Mi of memory; it is asked to leave under its budgets")
	if r := s.last[0].Ranking; len(r) != 2 || r[0].Pod.Name != "large" || r[1].Pod.Name != "small" {
		t.Errorf("the ranking is %v", names(r))
	}
	s.want(time.Second, "Wait Leaving")
	s.says("default/large was asked to go 1s ago")
	s.terminating("large", 30*time.Second)
	s.want(time.Second, "Wait Leaving")
	s.says("default/large is leaving since 0s, with 30s to go")
	s.gone("large")
	s.want(time.Second, "Wait Settling")
	s.says("default/large is gone; what it used, 500Mi, is not seen back")
	s.available(650 * mi)
	s.want(time.Second)
}

// What is below a threshold never looks like it.
func TestReliefTellsWhatIsBelowFromItsThreshold(t *testing.T) {
	s := newScene(t, 200*mi-36<<10, hog("a", 500))
	s.want(0, sayMemory, "Wait Grace")
	s.says("memory.available is 200Mi less 36Ki, below its soft threshold of 200Mi")
}

// The order of the grace periods: what is not longer than configured is the pod's own.
func TestReliefSoftGrace(t *testing.T) {
	for _, test := range []struct {
		longest int32
		own     time.Duration
		want    string
	}{
		{0, time.Hour, "Evict a"}, {-1, time.Hour, "Evict a"}, {60, time.Hour, "Evict a 1m0s"}, {60, time.Minute, "Evict a"}, {60, time.Second, "Evict a"},
	} {
		s := newScene(t, 150*mi, hog("a", 500))
		s.in.Config.EvictionMaxPodGracePeriod = test.longest
		s.in.Pods[0].Grace = test.own
		s.want(0, sayMemory, "Wait Grace")
		s.look(15 * time.Second)
		s.want(15*time.Second, test.want)
	}
}

func TestReliefRefused(t *testing.T) {
	s := newScene(t, 150*mi, hog("first", 500), hog("second", 400))
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Evict first")
	s.refuse("first", 20*time.Second)
	s.want(time.Second, "Evict second")
	s.refuse("second", time.Minute)
	s.want(time.Second, "Wait NoCandidate")
	s.says("no pod may go: default/first (refused: its budget allows nothing), default/second (refused: its budget allows nothing)")
	if got := s.last[0].For; got != 19*time.Second {
		t.Errorf("looks again in %s, want 19s", got)
	}
	s.want(10*time.Second, "Wait NoCandidate")
	s.want(9*time.Second-1, "Wait NoCandidate")
	s.want(1, "Evict first") // its time has come, that of second has not
	s.refuse("first", 20*time.Second)
	s.want(time.Second, "Wait NoCandidate")
}

// TestReliefSoftGoverned: a governed pod is prepared while others are asked; no other is meanwhile, and in the end it stays.
func TestReliefSoftGoverned(t *testing.T) {
	s := newScene(t, 150*mi, governed(hog("db-0", 500), ""), governed(hog("db-1", 450), ""), hog("web", 400))
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Request db-0", "Evict db-0")
	s.refuse("db-0", 10*time.Second)
	s.want(time.Second, "Evict web")
	s.refuse("web", time.Minute)
	s.want(time.Second, "Wait NoCandidate")
	s.says("default/db-1 (default/db-0 is being prepared to leave first)")
	s.want(9*time.Second, "Evict db-0")
	s.refuse("db-0", 10*time.Second)
	s.available(gi)
	s.want(time.Second, "Withdraw db-0")
	s.want(time.Second)
}

func TestReliefWithdrawsWhatWillNeverBe(t *testing.T) {
	s := newScene(t, 150*mi, governed(hog("db-0", 500), ""), governed(hog("db-1", 450), ""))
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Request db-0", "Evict db-0")
	s.refuse("db-0", time.Hour)
	r := s.in.Refused["uid-db-0"]
	r.Never, r.Message = true, "Never: it is the only copy"
	s.in.Refused["uid-db-0"] = r
	s.want(time.Second, "Withdraw db-0", "Wait NoCandidate")
	s.says("Never: it is the only copy")
	s.want(time.Second, "Request db-1", "Evict db-1")
}

// What leaves while the request stands needs no withdrawing.
func TestReliefForgetsRequestsOfGonePods(t *testing.T) {
	s := newScene(t, 150*mi, governed(hog("db-0", 500), ""))
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Request db-0", "Evict db-0")
	s.gone("db-0")
	s.available(gi)
	s.want(time.Second)
}

func TestReliefUnreachableSoft(t *testing.T) {
	s := newScene(t, 150*mi, hog("a", 500))
	s.in.Reachable = false
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Wait Unreachable")
	s.in.Reachable = true
	s.want(time.Second, "Evict a")
}

// What cannot help, or comes back at once, is left alone; so is the agent.
func TestReliefSoftPassesOver(t *testing.T) {
	daemon := hog("daemon", 300)
	daemon.DaemonSet, daemon.QoS, daemon.Requests.Memory = true, corev1.PodQOSBurstable, 400*mi
	static := hog("static", 600)
	static.Exempt = ExemptMirror
	guaranteed := memoryPod("guaranteed", corev1.PodQOSGuaranteed, gi, gi)
	s := newScene(t, 150*mi, static, hog("agent", 500), hog("tiny", 3), unknown(hog("new", 0)), daemon, guaranteed)
	s.in.Self = "uid-agent"
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Wait NoCandidate")
	for i := range s.last[0].Ranking {
		r := &s.last[0].Ranking[i]
		want := map[string]string{
			"static": ExemptMirror, "agent": passedSelf, "tiny": "it uses too little to help: 3Mi of memory", "new": passedUnknown,
			"daemon": "its DaemonSet would start it again here, and it stays within its request", "guaranteed": ExemptGuaranteed,
		}[r.Pod.Name]
		if r.Exempt != want {
			t.Errorf("%s: %q, want %q", r.Pod.Name, r.Exempt, want)
		}
	}
	s.says("and 3 more")
	s.pod("daemon").Requests.Memory = 200 * mi // it leaks
	s.want(time.Second, "Evict daemon")
}

// A Guaranteed pod is not evicted in place of one that was refused; it is if it is left alone with its like.
func TestReliefSoftGuaranteed(t *testing.T) {
	guaranteed := memoryPod("guaranteed", corev1.PodQOSGuaranteed, gi, gi)
	s := newScene(t, 150*mi, hog("web", 500), guaranteed)
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Evict web")
	s.refuse("web", time.Minute)
	s.want(time.Second, "Wait NoCandidate")
	s.gone("web")
	s.want(time.Second, "Evict guaranteed")
}
