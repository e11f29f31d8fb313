package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/internal/snapshot"
)

// criticalPriority is the lowest priority of the system-*-critical classes
// (scheduling.SystemCriticalPriority upstream).
const criticalPriority = 2_000_000_000

// waveKey orders the pods of a node: DaemonSet pods after all others, then by the
// owner's annotation, then by priority, so that system-*-critical pods are last.
type waveKey struct {
	daemon   bool
	order    int
	priority int32
}

func waveOf(p *snapshot.Pod) waveKey {
	return waveKey{daemon: p.Owner.Kind == "DaemonSet", order: p.Order, priority: p.Priority}
}

func (k waveKey) compare(other waveKey) int {
	switch {
	case k.daemon != other.daemon && k.daemon:
		return 1
	case k.daemon != other.daemon:
		return -1
	}
	return cmp.Or(cmp.Compare(k.order, other.order), cmp.Compare(k.priority, other.priority))
}

// serving reports whether pods of this wave may serve every other pod of the node
// (network, volumes): they wait until all others are gone, even those that are
// blocked for good.
func (k waveKey) serving() bool { return k.daemon || k.priority >= criticalPriority }

// inWaves sorts pods into their order of leaving. Pods of one wave stay sorted by
// namespace and name, so that the same snapshot gives the same order.
func inWaves(pods []*snapshot.Pod) []*snapshot.Pod {
	byWave := func(a, b *snapshot.Pod) int { return waveOf(a).compare(waveOf(b)) }
	if slices.IsSortedFunc(pods, byWave) {
		return pods
	}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, byWave)
	return sorted
}

// budgetless reports whether the eviction API lets the pod go without asking a
// budget (canIgnorePDB upstream).
func budgetless(p *snapshot.Pod) bool {
	return p.Finished() || p.Phase == corev1.PodPending || p.Terminating()
}
