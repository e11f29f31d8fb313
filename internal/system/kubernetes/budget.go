package kubernetes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// budgetsHold says by which budgets the eviction API would refuse the pod now, as that reads them.
func budgetsHold(c *snapshot.Cluster, p *snapshot.Pod) []string {
	held := []string{}
	if p.Phase == corev1.PodPending || p.Finished() || p.Terminating() {
		return held
	}
	budgets := c.BudgetsFor(p)
	if len(budgets) > 1 {
		return append(held, severalBudgets(budgets))
	}
	for _, b := range budgets {
		switch {
		case unhealthyGoes(b, p), b.Observed && b.Allowed > 0:
		case !b.Observed:
			held = append(held, fmt.Sprintf("PodDisruptionBudget %s, whose controller has not seen its spec yet", b.Name))
		default:
			held = append(held, fmt.Sprintf("PodDisruptionBudget %s (%d pods healthy, %d must be)", b.Name, b.Current, b.Desired))
		}
	}
	return held
}

// unhealthyGoes reports whether a pod that is not ready passes the budget by its unhealthyPodEvictionPolicy.
func unhealthyGoes(b *snapshot.Budget, p *snapshot.Pod) bool {
	return !p.Ready && (b.AlwaysAllow || b.Observed && b.Desired > 0 && b.Current >= b.Desired)
}

func severalBudgets(budgets []*snapshot.Budget) string {
	names := make([]string, len(budgets))
	for i, b := range budgets {
		names[i] = b.Name
	}
	return "PodDisruptionBudgets " + strings.Join(names, " and ") + ", since the eviction API refuses a pod that several count"
}

// budgetsNever says by which budgets the pod would be refused though all replicas that were asked for are ready.
func (w *workload) budgetsNever(p *snapshot.Pod) []string {
	never := []string{}
	budgets := w.view.Cluster.BudgetsFor(p)
	if len(budgets) > 1 {
		return append(never, severalBudgets(budgets))
	}
	for _, b := range budgets {
		if !unhealthyGoes(b, p) && refuses(b, w.counted(b)) {
			never = append(never, fmt.Sprintf("PodDisruptionBudget %s (%s of %d)", b.Name, demand(b), w.counted(b)))
		}
	}
	return never
}

// counted is how many pods the budget counts without those of a surge.
func (w *workload) counted(b *snapshot.Budget) int32 {
	wanted := w.wanted()
	return max(b.Expected-max(w.top.Replicas-wanted, 0), wanted)
}

// refuses reports whether the budget lets none go where all of so many pods are healthy.
func refuses(b *snapshot.Budget, pods int32) bool {
	if b.MaxUnavailable != nil {
		most, err := intstr.GetScaledValueFromIntOrPercent(b.MaxUnavailable, int(pods), true)
		return err != nil || most == 0
	}
	if b.MinAvailable == nil {
		return false
	}
	least, err := intstr.GetScaledValueFromIntOrPercent(b.MinAvailable, int(pods), true)
	return err != nil || least >= int(pods)
}

func demand(b *snapshot.Budget) string {
	if b.MaxUnavailable != nil {
		return "maxUnavailable " + b.MaxUnavailable.String()
	}
	return "minAvailable " + b.MinAvailable.String()
}

// extra is how many replicas more it takes for the pod's budgets to let it go, 1 at least. false: no number up to twice what was asked for
// does.
func (w *workload) extra(p *snapshot.Pod) (int32, bool) {
	budgets := w.view.Cluster.BudgetsFor(p)
	if len(budgets) > 1 {
		return 0, false
	}
	if len(budgets) == 0 || unhealthyGoes(budgets[0], p) {
		return 1, true
	}
	for more := int32(1); more <= max(w.wanted(), 1); more++ {
		if !refuses(budgets[0], w.counted(budgets[0])+more) {
			return more, true
		}
	}
	return 0, false
}
