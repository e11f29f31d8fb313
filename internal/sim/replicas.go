package sim

import (
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/snapshot"
)

// reconcileReplicas is the ReplicaSet controller (manageReplicas upstream); it also
// stands in for Jobs and for controllers that are not known.
func (s *Sim) reconcileReplicas(c *replicaController) {
	var pods []*snapshot.Pod
	for _, p := range s.truth.PodsOf(c.key()) {
		if active(p) {
			pods = append(pods, p)
		}
	}
	want := int(s.wanted(c))
	for range want - len(pods) {
		s.create(c, c.owner.Name+"-"+suffix(s.count()), "")
	}
	if surplus := len(pods) - want; surplus > 0 {
		if s.cfg.Faults.KeepsAll {
			return // it has work to do, so that its Deployment is not settled
		}
		s.shrink(pods, surplus)
	}
	s.settle(c)
}

// suffix makes a name like those of the API server, but sortable by age.
func suffix(n uint64) string {
	text := strconv.FormatUint(n, 36)
	return "00000"[min(len(text), 5):] + text
}

func (s *Sim) shrink(pods []*snapshot.Pod, surplus int) {
	for _, p := range dismissal(pods, s.now)[:surplus] {
		s.oracle.dismissed(s, p)
		s.terminate(p, nil)
	}
}

// dismissal orders pods as a ReplicaSet removes them (ActivePodsWithRanks upstream).
func dismissal(pods []*snapshot.Pod, now time.Time) []*snapshot.Pod {
	together := map[string]int{}
	for _, p := range pods {
		together[p.Node]++
	}
	order := slices.Clone(pods)
	slices.SortStableFunc(order, func(a, b *snapshot.Pod) int {
		return compareDismissal(a, b, together, now)
	})
	return order
}

func compareDismissal(a, b *snapshot.Pod, together map[string]int, now time.Time) int {
	switch {
	case (a.Node == "") != (b.Node == ""):
		return first(a.Node == "")
	case phaseRank(a.Phase) != phaseRank(b.Phase):
		return first(phaseRank(a.Phase) < phaseRank(b.Phase))
	case a.Ready != b.Ready:
		return first(!a.Ready)
	case costOf(a) != costOf(b):
		return first(costOf(a) < costOf(b))
	case together[a.Node] != together[b.Node]:
		return first(together[a.Node] > together[b.Node])
	case a.Ready && !a.ReadySince.Equal(b.ReadySince):
		return compareAges(a, b, a.ReadySince, b.ReadySince, now)
	case !a.Created.Equal(b.Created):
		return compareAges(a, b, a.Created, b.Created, now)
	}
	return 0
}

// compareAges puts the younger first; ages of the same power of two count as equal,
// which the server does so that it is not always the youngest that goes.
func compareAges(a, b *snapshot.Pod, ta, tb, now time.Time) int {
	ra, rb := ageRank(ta, now), ageRank(tb, now)
	if ra == rb {
		return first(a.UID < b.UID)
	}
	return first(ra < rb)
}

func ageRank(t, now time.Time) int {
	if age := now.Sub(t); age > 0 {
		return int(math.Log2(float64(age)))
	}
	return -1
}

func first(a bool) int {
	if a {
		return -1
	}
	return 1
}

func phaseRank(phase corev1.PodPhase) int {
	switch phase {
	case corev1.PodPending:
		return 0
	case corev1.PodUnknown:
		return 1
	default:
		return 2
	}
}

func costOf(p *snapshot.Pod) int64 {
	cost, err := strconv.ParseInt(p.DeletionCost, 10, 32)
	if err != nil {
		return 0
	}
	return cost
}
