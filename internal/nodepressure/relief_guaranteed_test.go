package nodepressure

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
)

// Whatever is known of a pod of a lower class, and however little it uses, a Guaranteed pod within its request does not go
// while it is there: that it is short is not the Guaranteed pod's doing.
func TestReliefSparesGuaranteed(t *testing.T) {
	guaranteed := memoryPod("guaranteed", corev1.PodQOSGuaranteed, gi, gi)
	for name, other := range map[string]Pod{"unmeasured": unknown(hog("other", 0)), "tiny": hog("other", 3)} {
		for kind, available := range map[string]int64{"hard": 50 * mi, "soft": 150 * mi} {
			t.Run(name+" "+kind, func(t *testing.T) {
				s := newScene(t, available, other, guaranteed)
				s.look(0)
				s.look(15 * time.Second)
				s.want(15*time.Second, "Wait NoCandidate")
				_, out := State{}.Step(Input{Now: noon, Node: memoryNode(50*mi, noon), Pods: s.in.Pods, Thresholds: s.in.Thresholds[:1], Order: OrderQoS})
				if out.Victim != nil {
					t.Errorf("usher pressure names %s", out.Victim.Pod.Key())
				}
				s.gone("other")
				s.want(time.Second, map[string]string{"hard": "Remove guaranteed 1s", "soft": "Evict guaranteed"}[kind])
			})
		}
	}
}

// Nor does it go while a pod is left that is passed over because a governed pod exceeds its request: both keep to theirs.
func TestReliefSparesGuaranteedBesideAGovernedPod(t *testing.T) {
	db := governed(memoryPod("db", corev1.PodQOSGuaranteed, gi, gi), v1alpha1.PressureLastResort)
	web := memoryPod("web", corev1.PodQOSBurstable, 400*mi, 300*mi)
	s := newScene(t, 50*mi, web, governed(hog("miner", 3000), v1alpha1.PressureWhenAllowed), db)
	s.want(0, "Request miner", "Evict miner", sayMemory)
	s.refuse("miner", time.Minute)
	s.want(time.Second, "Wait NoCandidate")
	s.in.Reachable = false
	s.want(time.Second, "Wait NoCandidate")
	s.in.Reachable = true
	s.gone("web")
	s.want(time.Second, "Evict db")
}

// Nor is it given up as a last resort.
func TestReliefSparesGuaranteedLastResort(t *testing.T) {
	db := governed(memoryPod("db", corev1.PodQOSGuaranteed, gi, gi), v1alpha1.PressureLastResort)
	s := newScene(t, 50*mi, unknown(hog("other", 0)), db)
	s.want(0, sayMemory, "Wait NoCandidate")
	s.in.Reachable = false
	s.want(time.Second, "Wait NoCandidate")
	s.in.Reachable = true
	s.gone("other")
	s.want(time.Second, "Request db", "Evict db")
}
