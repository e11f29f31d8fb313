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

// waveKey orders the pods of a node: DaemonSet pods after all others, before them the
// system-*-critical ones; within these, by the owner's annotation, then by priority.
// An annotation never puts a pod behind those that may serve it.
type waveKey struct {
	daemon   bool
	critical bool
	order    int
	priority int32
}

func waveOf(p *snapshot.Pod) waveKey {
	return waveKey{daemon: p.Owner.Kind == "DaemonSet", critical: p.Priority >= criticalPriority, order: p.Order, priority: p.Priority}
}

func (k waveKey) compare(other waveKey) int {
	return cmp.Or(lastTrue(k.daemon, other.daemon), lastTrue(k.critical, other.critical),
		cmp.Compare(k.order, other.order), cmp.Compare(k.priority, other.priority))
}

func lastTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// serving reports whether pods of this wave may serve every other pod of the node
// (network, volumes): they wait until all others are gone, even those that are
// blocked for good.
func (k waveKey) serving() bool { return k.daemon || k.critical }

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
