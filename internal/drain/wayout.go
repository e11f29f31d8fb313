package drain

import (
	"fmt"
	"strings"

	"usher.sh/usher/internal/text"

	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/internal/snapshot"
)

// wayPastBudget says how to get past a budget that never allows.
func (d *decider) wayPastBudget(p *snapshot.Pod, b *snapshot.Budget) string {
	w := d.workloadOf(p)
	edit := fmt.Sprintf("kubectl edit pdb -n %s %s", b.Namespace, b.Name)
	if w == nil || w.Replicas < 0 || onlyOne(w) {
		return edit
	}
	a := d.Cluster.AutoscalerOf(w)
	obstacle := "it is not scaled by a surge"
	if d.surgeable(p) != nil {
		obstacle = d.surgeObstacle(w, p)
	}
	if d.nowhere(p) != "" {
		return d.wayElsewhere(p, obstacle, edit)
	}
	more := d.moreReplicas(w, a, b)
	switch {
	case d.req.Surge == SurgeNever && obstacle == "" && more != "":
		return "--surge=auto, or " + more
	case d.req.Surge == SurgeNever && obstacle == "":
		return "--surge=auto, or " + edit
	case d.req.Surge != SurgeNever && a != nil && obstacle == atMost(a):
		return patchAutoscaler(a, fmt.Sprintf(`"maxReplicas":%d`, d.base(w, a)+1)) + " so that it can be surged, or " + edit
	case more != "":
		return more
	}
	return edit
}

// wayElsewhere says how to get past such a budget where no other node may run the pod. One more node is of use only to a
// surge: else as many pods run as before.
func (d *decider) wayElsewhere(p *snapshot.Pod, obstacle, edit string) string {
	if obstacle != "" && obstacle != onlyOn(p) {
		return edit
	}
	way := "let another node run it (" + d.describe(p) + ")"
	if d.req.Surge == SurgeNever {
		way += " and --surge=auto"
	}
	return way + ", or " + edit
}

// moreReplicas is the command that gives a workload so many pods that the budget allows an eviction, "" where no number of
// them does: only a fixed minAvailable does not grow with them. An autoscaler would undo what is done to the workload itself.
func (d *decider) moreReplicas(w *snapshot.Workload, a *snapshot.Autoscaler, b *snapshot.Budget) string {
	if b.MinAvailable == nil || b.MinAvailable.Type == intstr.String {
		return ""
	}
	to := w.Replicas + max(b.Desired+1-max(b.Expected, w.Replicas), 1)
	switch {
	case a == nil:
		return fmt.Sprintf("kubectl scale -n %s %s/%s --replicas=%d", w.Namespace, strings.ToLower(w.Kind), w.Name, to)
	case a.Max < to:
		return patchAutoscaler(a, fmt.Sprintf(`"minReplicas":%d,"maxReplicas":%d`, to, to))
	}
	return patchAutoscaler(a, fmt.Sprintf(`"minReplicas":%d`, to))
}

func patchAutoscaler(a *snapshot.Autoscaler, spec string) string {
	return fmt.Sprintf(`kubectl patch hpa -n %s %s --type=merge -p '{"spec":{%s}}'`, a.Namespace, a.Name, spec)
}

// atMost is the obstacle of a surge whose autoscaler allows no replacement.
func atMost(a *snapshot.Autoscaler) string {
	return fmt.Sprintf("autoscaler %s allows no more than %s", a.Name, text.Count(a.Max, "replica"))
}
