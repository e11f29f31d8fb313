package nodepressure

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

func TestReliefHardRemovesUngovernedFirst(t *testing.T) {
	burstable := memoryPod("web", corev1.PodQOSBurstable, 0, 300*mi)
	s := newScene(t, 50*mi, governed(hog("db", 500), ""), burstable)
	s.want(0, "Remove web 1s", sayMemory)
	s.says("memory.available is 50Mi, below its hard threshold of 100Mi; default/web uses 300Mi of memory; it gets 1s to shut down")
}

func TestReliefHardAsksGovernedNext(t *testing.T) {
	s := newScene(t, 50*mi, governed(hog("db-0", 500), ""), governed(hog("db-1", 400), ""))
	s.want(0, "Request db-0", "Evict db-0", sayMemory)
	s.refuse("db-0", time.Minute)
	s.want(time.Second, "Evict db-1") // one is prepared at a time, all are asked
	s.refuse("db-1", time.Minute)
	s.want(time.Second, "Wait NoCandidate")
	s.says("default/db-0 (refused: its budget allows nothing)")
}

func TestReliefHardLastResort(t *testing.T) {
	s := newScene(t, 50*mi, governed(hog("db", 500), v1alpha1.PressureWhenAllowed), governed(hog("cache", 400), v1alpha1.PressureLastResort))
	s.want(0, "Request db", "Evict db", sayMemory)
	s.refuse("db", time.Minute)
	s.want(time.Second, "Evict cache")
	s.refuse("cache", time.Minute)
	s.want(time.Second, "Remove cache 1s glass")
	s.says("no other pod can help, and its policy gives it up as a last resort")
}

// What cannot even be removed past its verdict is left alone for as long as that was said.
func TestReliefHardLastResortIsRefused(t *testing.T) {
	s := newScene(t, 50*mi, governed(hog("cache", 500), v1alpha1.PressureLastResort), governed(hog("other", 400), v1alpha1.PressureLastResort))
	s.want(0, "Request cache", "Evict cache", sayMemory)
	s.refuse("cache", time.Minute)
	s.want(time.Second, "Evict other")
	s.refuse("other", time.Minute)
	s.want(time.Second, "Remove cache 1s glass")
	s.refuse("cache", time.Minute)
	s.want(time.Second, "Remove other 1s glass")
	s.refuse("other", time.Minute)
	s.want(time.Second, "Wait NoCandidate")
	for range 5 {
		s.look(10 * time.Second)
	}
	s.want(9*time.Second, "Evict cache")
}

// Where others may not go, Guaranteed pods do before governed ones that stay within their requests are sacrificed.
func TestReliefHardGuaranteed(t *testing.T) {
	guaranteed := memoryPod("guaranteed", corev1.PodQOSGuaranteed, gi, gi)
	cache := governed(memoryPod("cache", corev1.PodQOSBurstable, 500*mi, 400*mi), v1alpha1.PressureLastResort)
	s := newScene(t, 50*mi, cache, guaranteed)
	s.want(0, "Request cache", "Evict cache", sayMemory)
	s.refuse("cache", time.Minute)
	s.want(time.Second, "Remove guaranteed 1s")
}

// A label, or a rule that is never met, shifts nothing to neighbours that stay within their requests.
func TestReliefSparesNeighboursOfAGovernedPod(t *testing.T) {
	web := memoryPod("web", corev1.PodQOSBurstable, 400*mi, 300*mi)
	t.Run("hard", func(t *testing.T) {
		s := newScene(t, 50*mi, governed(hog("miner", 3000), ""), web)
		s.want(0, "Request miner", "Evict miner", sayMemory)
		s.refuse("miner", time.Minute)
		s.want(time.Second, "Wait NoCandidate")
		s.in.Reachable = false
		s.want(time.Second, "Wait NoCandidate")
	})
	t.Run("hard, as a last resort", func(t *testing.T) {
		s := newScene(t, 50*mi, governed(hog("miner", 3000), v1alpha1.PressureLastResort), web)
		s.look(0)
		s.refuse("miner", time.Minute)
		s.want(time.Second, "Remove miner 1s glass")
	})
	t.Run("soft", func(t *testing.T) {
		s := newScene(t, 150*mi, governed(hog("miner", 3000), ""), web)
		s.look(0)
		s.look(15 * time.Second)
		s.want(15*time.Second, "Request miner", "Evict miner")
		s.refuse("miner", time.Minute)
		s.want(time.Second, "Wait NoCandidate")
	})
	t.Run("what exceeds its request goes first", func(t *testing.T) {
		s := newScene(t, 50*mi, governed(hog("miner", 3000), ""), web, hog("batch", 200))
		s.want(0, "Remove batch 1s", sayMemory)
	})
	t.Run("a governed pod within its request", func(t *testing.T) {
		s := newScene(t, 50*mi, governed(memoryPod("db", corev1.PodQOSBurstable, gi, 900*mi), ""), web)
		s.want(0, "Remove web 1s", sayMemory)
	})
}

func TestReliefHardHastensWhatItAsked(t *testing.T) {
	s := newScene(t, 150*mi, hog("a", 500), hog("b", 400))
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Evict a")
	s.terminating("a", 30*time.Second)
	s.want(time.Second, "Wait Leaving")
	s.available(50 * mi)
	s.want(time.Second, "Remove a 1s")
	s.terminating("a", time.Second)
	s.want(time.Second, "Wait Leaving")
}

// TestReliefHardLeavesAloneWhatCannotHelp: what leaves on account of memory frees no disk: it keeps its grace, and another goes.
func TestReliefHardLeavesAloneWhatCannotHelp(t *testing.T) {
	s := newScene(t, 150*mi, hog("a", 500), hog("b", 10))
	s.pod("a").Usage.Disk = map[FsPart]FsUse{}
	s.pod("b").Usage.Disk = map[FsPart]FsUse{Volumes: {Bytes: gi}}
	s.in.Thresholds = append(s.in.Thresholds, hard(NodeFsAvailable, "1Gi"))
	s.set(NodeFsAvailable, 5*gi, 10*gi)
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Evict a")
	s.terminating("a", 10*time.Minute)
	s.want(time.Second, "Wait Leaving")
	s.set(NodeFsAvailable, 100*mi, 10*gi)
	s.want(time.Second, "Remove b 1s", "Say [DiskPressure MemoryPressure]")
}

// Nor is its grace cut while it is not known what it has on disk.
func TestReliefHardHastensOnlyWhatIsKnownToHelp(t *testing.T) {
	s := newScene(t, 150*mi, hog("a", 500))
	s.in.Thresholds = append(s.in.Thresholds, hard(NodeFsAvailable, "1Gi"))
	s.set(NodeFsAvailable, 5*gi, 10*gi)
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Evict a")
	s.terminating("a", 10*time.Minute)
	s.set(NodeFsAvailable, 100*mi, 10*gi)
	s.want(time.Second, "Say [DiskPressure MemoryPressure]", "Wait Leaving")
	s.pod("a").Usage.Disk = map[FsPart]FsUse{Volumes: {Bytes: gi}}
	s.want(time.Second, "Remove a 1s")
}

// TestReliefHardPatience: the deletion by another client is waited for, but not for ever.
func TestReliefHardPatience(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400), hog("tiny", 1))
	s.terminating("tiny", time.Hour) // cannot help
	s.terminating("a", time.Hour)
	s.want(0, sayMemory, "Wait Leaving")
	s.want(9*time.Second, "Wait Leaving")
	s.want(time.Second, "Remove b 1s")
}

// TestReliefHardFinishesWhatItRemoved: what the kubelet does not end is ended by the agent, once, before another pod goes.
func TestReliefHardFinishesWhatItRemoved(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.want(0, "Remove a 1s", sayMemory)
	s.terminating("a", time.Second)
	s.want(time.Second, "Wait Leaving")
	s.want(9*time.Second, "Wait Leaving")
	s.want(time.Second, "KillLocally a")
	s.says("default/a uses 500Mi of memory; it is leaving since 10s and its kubelet has not ended it, so it is killed on the node")
	s.want(9*time.Second, "Wait Leaving")
	s.want(time.Second, "Remove b 1s") // nothing can end a
}

func TestReliefHardFinishesOnlyWhatGivesBack(t *testing.T) {
	s := newScene(t, 5*gi, hog("a", 500), hog("b", 400))
	for _, name := range []string{"a", "b"} {
		s.pod(name).Usage.Disk = map[FsPart]FsUse{Volumes: {Bytes: gi}}
	}
	s.in.Thresholds = []Threshold{hard(NodeFsAvailable, "1Gi")}
	s.set(NodeFsAvailable, 100*mi, 10*gi)
	s.want(0, "Remove a 1s", "Say [DiskPressure]")
	s.terminating("a", time.Second)
	s.want(time.Second, "Wait Leaving")
	s.want(10*time.Second, "Remove b 1s") // a kill would remove no file
}

// One that was allowed to leave by its verdict keeps its time; the agent may not end it.
func TestReliefHardFinishesNothingGoverned(t *testing.T) {
	s := newScene(t, 50*mi, governed(hog("db-0", 500), ""), governed(hog("db-1", 400), ""))
	s.want(0, "Request db-0", "Evict db-0", sayMemory)
	s.terminating("db-0", time.Second)
	s.want(time.Second, "Wait Leaving")
	s.want(10*time.Second, "Evict db-1")
}

func TestReliefSoftWaitsForLongGraces(t *testing.T) {
	s := newScene(t, 150*mi, hog("a", 500), hog("b", 400))
	s.look(0)
	s.look(15 * time.Second)
	s.terminating("a", time.Minute)
	s.want(15*time.Second, "Wait Leaving")
	for range 8 {
		s.want(10*time.Second, "Wait Leaving")
	}
	s.want(10*time.Second, "Evict b") // a is overdue
}

func TestReliefKillsBeforeExhaustion(t *testing.T) {
	s := newScene(t, 90*mi, hog("a", 500), hog("b", 400))
	s.in.Rates[MemoryAvailable] = -float64(300 * mi)
	s.want(0, "KillLocally a", sayMemory)
	s.says("nothing is left in 300ms if it goes on like this, so it is killed")
	s.want(10*time.Millisecond, "Wait Leaving")
	s.pod("a").Usage = &Usage{Memory: 1}
	s.want(10*time.Millisecond, "Wait Settling")
	s.available(600 * mi)
	s.want(10 * time.Millisecond)
}

// What is slower than the exhaustion gets one kill more, the leaving pod's own first, and not a second one.
func TestReliefKillsWhatLeavesTooSlowly(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.want(0, "Remove a 1s", sayMemory)
	s.terminating("a", time.Second)
	s.in.Rates[MemoryAvailable] = -float64(100 * mi)
	s.want(100*time.Millisecond, "KillLocally a")
	s.want(100*time.Millisecond, "Wait Leaving")
}

func TestReliefKillsWhatWasAskedBesideAForeignDeletion(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400), hog("c", 300))
	s.want(0, "Remove a 1s", sayMemory)
	s.terminating("b", time.Minute)
	s.in.Rates[MemoryAvailable] = -float64(100 * mi)
	s.want(100*time.Millisecond, "KillLocally a")
}

func TestReliefKillsTheNextBesideAForeignDeletion(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400), hog("c", 300))
	s.terminating("a", time.Minute)
	s.in.Rates[MemoryAvailable] = -float64(100 * mi)
	s.want(0, "KillLocally b", sayMemory)
	s.want(100*time.Millisecond, "Wait Leaving")
}

// What was given up as a last resort is killed, with its reason on it, if it is too slow.
func TestReliefKillsTheLastResort(t *testing.T) {
	s := newScene(t, 50*mi, governed(hog("cache", 400), v1alpha1.PressureLastResort))
	s.want(0, "Request cache", "Evict cache", sayMemory)
	s.refuse("cache", time.Minute)
	s.want(time.Second, "Remove cache 1s glass")
	s.in.Rates[MemoryAvailable] = -float64(100 * mi)
	s.want(100*time.Millisecond, "KillLocally cache glass")
}

// A pod that was asked and shows no sign of it yet is on its way all the same.
func TestReliefAskedIsLeaving(t *testing.T) {
	s := newScene(t, 150*mi, governed(hog("db", 500), ""), hog("web", 400))
	s.look(0)
	s.look(15 * time.Second)
	s.want(15*time.Second, "Request db", "Evict db")
	s.available(90 * mi)
	s.in.Rates[MemoryAvailable] = -float64(300 * mi)
	s.want(20*time.Millisecond, "KillLocally web")
	if r := s.last[0].Ranking[0]; r.Pod.Name != "db" || r.Exempt != passedLeaving {
		t.Errorf("%s: %q", r.Pod.Name, r.Exempt)
	}
}

// A kill that could not be carried out is as good as refused.
func TestReliefKillFails(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.in.Rates[MemoryAvailable] = -float64(100 * mi)
	s.want(0, "KillLocally a", sayMemory)
	s.refuse("a", time.Minute)
	s.want(20*time.Millisecond, "KillLocally b")
}

// A governed pod that may leave is not killed on its way, and never killed without a verdict.
func TestReliefNeverKillsGoverned(t *testing.T) {
	s := newScene(t, 50*mi, governed(hog("db", 500), ""))
	s.in.Rates[MemoryAvailable] = -float64(100 * mi)
	s.want(0, "Request db", "Evict db", sayMemory)
	s.terminating("db", time.Minute)
	s.want(100*time.Millisecond, "Wait Leaving")
}

func TestReliefAlone(t *testing.T) {
	s := newScene(t, 50*mi, governed(hog("db", 500), ""), hog("web", 300), governed(hog("cache", 200), v1alpha1.PressureLastResort))
	s.in.Reachable = false
	s.want(0, "KillLocally web", sayMemory)
	s.says("the apiserver does not answer, so it is killed on the node")
	s.gone("web")
	s.look(time.Second)
	for range 4 { // what it used goes to others; then there is the pause
		s.look(3 * time.Second)
	}
	s.want(3*time.Second, "KillLocally cache glass")
	s.gone("cache")
	s.look(time.Second)
	for range 4 {
		s.look(3 * time.Second)
	}
	s.want(3*time.Second, "Wait NoCandidate")
	s.says("default/db (its policy's verdict cannot be read: the apiserver does not answer)")
}

// TestReliefAloneAfterNoAnswer: the apiserver went away while a pod was asked to go, and may have carried it out or not.
func TestReliefAloneAfterNoAnswer(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.want(0, "Remove a 1s", sayMemory)
	s.in.Reachable = false
	s.pod("b").Usage.Memory = 600 * mi // a stays the one
	s.want(100*time.Millisecond, "KillLocally a")
	s.says("the apiserver does not answer, so it is killed on the node")
	s.want(100*time.Millisecond, "Wait Leaving")
}

// One that is known to have been asked is waited for; so is one whose policy was not given up.
func TestReliefAloneWaitsForAnswers(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500))
	s.want(0, "Remove a 1s", sayMemory)
	s.in.Reachable = false
	s.in.Leaving = []Leaving{{UID: s.pod("a").UID, Grace: time.Second}}
	s.want(100*time.Millisecond, "Wait Leaving")

	s = newScene(t, 50*mi, governed(hog("db", 500), ""))
	s.want(0, "Request db", "Evict db", sayMemory)
	s.in.Reachable = false
	s.want(100*time.Millisecond, "Wait Leaving")
}

func TestReliefAloneWithoutDisk(t *testing.T) {
	s := newScene(t, gi, hog("a", 500))
	s.in.Pods[0].Usage.Disk = map[FsPart]FsUse{Volumes: {Bytes: gi}}
	s.in.Thresholds = []Threshold{hard(NodeFsAvailable, "1Gi")}
	s.set(NodeFsAvailable, 100*mi, 10*gi)
	s.in.Rates[NodeFsAvailable] = -float64(gi) // killing gives back no disk, however near the end is
	s.in.Reachable = false
	s.want(0, "Say [DiskPressure]", "Wait Unreachable")
	s.says("killing a pod on the node gives back no disk")
	s.in.Reachable = true
	s.want(time.Second, "Remove a 1s")
}

// After a kill there is a pause, unless nothing would be left by its end.
func TestReliefPauses(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400), hog("c", 300))
	s.want(0, "Remove a 1s", sayMemory)
	s.gone("a")
	s.want(time.Second, "Wait Settling")
	s.available(80 * mi) // others have taken most of it
	s.want(9*time.Second, "Wait Settling")
	s.want(time.Second, "Wait Pausing")
	s.want(2*time.Second, "Wait Pausing")
	s.want(time.Second, "Remove b 1s")
	s.gone("b")
	s.look(time.Second)
	s.available(600 * mi)
	s.want(time.Second)
	s.available(50 * mi)
	s.want(time.Second, "Wait Pausing")
	s.in.Rates[MemoryAvailable] = -float64(100 * mi)
	s.want(100*time.Millisecond, "KillLocally c")
}

// What is read of the time before a pod was gone says nothing of what it gave back.
func TestReliefSettlesOnNewReadings(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.want(0, "Remove a 1s", sayMemory)
	s.gone("a")
	s.frozen = true
	s.available(60 * mi)
	s.in.Rates[MemoryAvailable] = -float64(25 * mi)
	s.want(time.Second, "Wait Settling")
	s.want(time.Second, "Wait Settling")
	s.frozen = false
	s.want(10*time.Millisecond, "Remove b 1s")
}

// TestReliefSettlingIsCutShort: where others take memory as fast as it comes back, it is not waited for until nothing is left.
func TestReliefSettlingIsCutShort(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.want(0, "Remove a 1s", sayMemory)
	s.gone("a")
	s.in.Rates[MemoryAvailable] = -float64(50 * mi)
	s.want(time.Second, "Wait Settling")
	s.want(499*time.Millisecond, "Wait Settling")
	s.want(time.Millisecond, "KillLocally b")
}

func TestReliefSettlingIsCutVeryShort(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.want(0, "Remove a 1s", sayMemory)
	s.gone("a")
	s.in.Rates[MemoryAvailable] = -float64(200 * mi)
	s.want(time.Second, "Wait Settling")
	s.want(20*time.Millisecond, "KillLocally b")
}

// Files are removed after their pod, which takes longer than memory does; memory does not wait for that.
func TestReliefWaitsLongerForFiles(t *testing.T) {
	filled := func() *scene {
		s := newScene(t, gi, hog("a", 500), hog("b", 400))
		for i := range s.in.Pods {
			s.in.Pods[i].Usage.Disk = map[FsPart]FsUse{Volumes: {Bytes: gi}}
		}
		s.in.Thresholds = []Threshold{hard(NodeFsAvailable, "1Gi"), hard(MemoryAvailable, "100Mi")}
		s.set(NodeFsAvailable, 100*mi, 10*gi)
		s.want(0, "Remove a 1s", "Say [DiskPressure]")
		s.gone("a")
		s.want(time.Second, "Wait Settling")
		s.want(9*time.Second, "Wait Settling")
		return s
	}
	s := filled()
	for range 5 {
		s.want(9*time.Second, "Wait Settling")
	}
	s.want(4*time.Second, "Wait Settling")
	s.want(2*time.Second, "Wait Pausing")
	s.want(3*time.Second, "Remove b 1s")

	s = filled()
	s.available(50 * mi)
	s.want(time.Second, "Remove b 1s", "Say [DiskPressure MemoryPressure]")
}
