package nodepressure

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A clock that jumps ends no grace period.
func TestReliefClockJumps(t *testing.T) {
	for name, test := range map[string]struct{ jump, left time.Duration }{"forwards": {time.Hour, 10 * time.Second}, "backwards": {-time.Hour, 25 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 150*mi, hog("a", 500))
			s.want(0, sayMemory, "Wait Grace")
			s.want(5*time.Second, "Wait Grace")
			s.want(test.jump, "Wait Grace")
			s.look(test.left / 2)
			s.want(test.left/2-1, "Wait Grace")
			s.want(1, "Evict a")
			s.refuse("a", time.Minute)
			s.want(time.Second, "Wait NoCandidate")
			s.want(test.jump, "Wait NoCandidate")
			s.want(10*time.Second, "Wait NoCandidate")
		})
	}
}

// Readings that are missing, old or of another time decide nothing, and their time does not count.
func TestReliefUnread(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500))
	s.frozen = true
	s.want(16*time.Second, "Say []", "Wait Unread")
	s.says("memory.available was last read 16s ago; nothing is done on its account until it is read again")
	s.in.Node.Readings = nil
	s.want(time.Second, "Wait Unread")
	s.says("memory.available could not be read")
	s.in.Node = memoryNode(50*mi, time.Time{})
	s.want(time.Second, "Wait Unread")
	s.in.Node = memoryNode(50*mi, s.in.Now.Add(time.Minute))
	s.want(time.Second, "Wait Unread")
	s.says("the clock was set back")
	s.frozen = false
	s.want(time.Second, "Remove a 1s", sayMemory)
}

func TestReliefGraceCountsNewReadingsAlone(t *testing.T) {
	s := newScene(t, 150*mi, hog("a", 500))
	s.look(0)
	s.frozen = true
	s.want(14*time.Second, "Wait Grace")
	s.want(14*time.Second, "Wait Unread")
	s.frozen = false
	s.want(time.Second, "Wait Grace") // 15 of the 29 seconds count
	s.want(14*time.Second, "Wait Grace")
	s.want(time.Second, "Evict a")
}

// What a pod uses must be known for now.
func TestReliefOldUsage(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500))
	s.frozen = true
	s.in.Pods[0].Usage.At = noon.Add(-time.Minute)
	s.want(0, sayMemory, "Wait NoCandidate")
	s.says("default/a (what it uses was measured 1m0s ago)")
	s.in.Pods[0].Usage.At = noon.Add(time.Minute)
	s.want(0, "Wait NoCandidate")
}

// Disk takes long to measure.
func TestReliefDiskUsageMayBeOlder(t *testing.T) {
	s := newScene(t, gi, hog("a", 500))
	s.in.Pods[0].Usage.Disk = map[FsPart]FsUse{Volumes: {Bytes: gi}}
	s.in.Pods[0].Usage.DiskAt = noon.Add(-2 * time.Minute)
	s.in.Thresholds = []Threshold{hard(NodeFsAvailable, "1Gi")}
	s.set(NodeFsAvailable, 100*mi, 10*gi)
	s.want(0, "Remove a 1s", "Say [DiskPressure]")
}

// TestReliefDiskIsNotMeasuredYet: before disk was measured, it is not known which pod would help.
func TestReliefDiskIsNotMeasuredYet(t *testing.T) {
	s := newScene(t, gi, hog("a", 500), hog("leaving", 500))
	s.in.Thresholds = []Threshold{hard(NodeFsInodesFree, "1k")}
	s.set(NodeFsInodesFree, 100, 10_000)
	s.want(0, "Say [DiskPressure]", "Wait NoCandidate")
	s.says("default/a (nothing is known of what it uses)")
	s.terminating("leaving", time.Minute)
	s.want(time.Second, "Wait Leaving")
}

// Relief goes on until the minimum is reclaimed.
func TestReliefMinimumReclaim(t *testing.T) {
	th := hard(MemoryAvailable, "100Mi")
	th.MinReclaim.Quantity = resource.MustParse("200Mi")
	s := newScene(t, 150*mi, hog("a", 500))
	s.in.Thresholds = []Threshold{th}
	s.want(0, "Say []")
	s.available(90 * mi)
	s.want(time.Second, "Remove a 1s", sayMemory)
	s.gone("a")
	s.in.Pods = append(s.in.Pods, hog("b", 400))
	s.available(290 * mi)
	s.want(time.Second, "Wait Settling")
	s.available(299 * mi)
	for range 4 {
		s.look(3 * time.Second)
	}
	s.want(3*time.Second, "Remove b 1s")
	s.says("memory.available is 299Mi, not yet 200Mi above its hard threshold of 100Mi")
	s.available(300*mi - 1)
	s.want(time.Second, "Wait Leaving")
	s.says("memory.available is 300Mi less 1, not yet 200Mi above its hard threshold of 100Mi")
	s.available(300 * mi)
	s.gone("b")
	s.want(time.Second)
}

func TestReliefConditions(t *testing.T) {
	s := newScene(t, 150*mi)
	s.want(0, sayMemory, "Wait Grace")
	s.available(gi)
	s.want(time.Second)
	for range 29 {
		s.want(10 * time.Second)
	}
	s.want(9*time.Second, "Say []")
	s.available(150 * mi)
	s.want(time.Second, sayMemory, "Wait Grace")
}

// An agent that was killed and knows nothing sees pods leaving.
func TestReliefStartsAnew(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.terminating("a", time.Second)
	s.want(0, sayMemory, "Wait Leaving")
}

// TestReliefLeavingIsReported: leaving pods may be known before the API shows it.
func TestReliefLeavingIsReported(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500), hog("b", 400))
	s.in.Leaving = []Leaving{{UID: "uid-a", Since: noon, Grace: time.Second}, {UID: "gone"}}
	s.want(0, sayMemory, "Wait Leaving")
}

// What was asked for and shows no effect is asked for again.
func TestReliefAsksAgain(t *testing.T) {
	s := newScene(t, 50*mi, hog("a", 500))
	s.want(0, "Remove a 1s", sayMemory)
	s.want(9*time.Second, "Wait Leaving")
	s.want(time.Second, "Remove a 1s")
}

// TestReliefDealsWithTheNextSignal: disk is dealt with although no pod can help with memory.
func TestReliefDealsWithTheNextSignal(t *testing.T) {
	p := hog("a", 1)
	p.Usage.Disk = map[FsPart]FsUse{Volumes: {Bytes: gi}}
	s := newScene(t, 50*mi, p)
	s.in.Thresholds = append(s.in.Thresholds, hard(NodeFsAvailable, "1Gi"))
	s.set(NodeFsAvailable, 100*mi, 10*gi)
	s.want(0, "Remove a 1s", "Say [DiskPressure MemoryPressure]", "Wait NoCandidate")
}

// Memory that was kept as JSON is as good as new.
func TestReliefSurvivesJSON(t *testing.T) {
	s := newScene(t, 150*mi, governed(hog("db", 500), ""), hog("a", 400))
	for range 12 {
		raw, err := json.Marshal(s.relief)
		if err != nil {
			t.Fatal(err)
		}
		var back Relief
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		_, want := s.relief.Next(s.in)
		_, got := back.Next(s.in)
		if s.relief.Said != nil && len(s.relief.Said) == 0 {
			want, got = nil, nil // it is said once more, which does no harm
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
		s.look(10 * time.Second)
		if s.relief.Requested != nil && len(s.in.Refused) == 0 {
			s.refuse("db", time.Minute)
		}
	}
	if len(s.relief.Acts) == 0 && len(s.relief.Holds) == 0 {
		t.Error("nothing was remembered on the way")
	}
}
