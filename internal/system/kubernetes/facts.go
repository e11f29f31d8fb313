package kubernetes

import (
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
)

// mostNamed is how many other replicas a fact names. Where all of these are on their way none of the rest counts, until the next look.
const mostNamed = 64

// observed are the facts of members, by their ids, as a view has them. Members whose pod is not in it have none.
func (l limits) observed(view snapshot.View, members []system.Member) (all map[string]expression.Facts, workloads int) {
	found := l.workloads(view)
	ids := map[types.UID]string{}
	for _, m := range members {
		ids[m.PodUID] = m.ID
	}
	name := func(p *snapshot.Pod) string {
		if id, member := ids[p.UID]; member {
			return id
		}
		return p.Name
	}
	all, seen := map[string]expression.Facts{}, map[types.UID]bool{}
	for _, m := range members {
		p := view.Cluster.Pod(m.PodUID)
		if p == nil {
			continue
		}
		top := topOf(view.Cluster, p)
		if top == nil || found[top.UID] == nil {
			all[m.ID] = alone(view, p)
			continue
		}
		seen[top.UID] = true
		all[m.ID] = found[top.UID].facts(p, name)
	}
	return all, len(seen)
}

// alone are the facts of a pod of which no controller can start a replacement first.
func alone(view snapshot.View, p *snapshot.Pod) expression.Facts {
	why := "nothing controls pod " + p.Name
	if p.Owner.UID != "" {
		why = p.Owner.Kind + " " + p.Owner.Name + ", which controls pod " + p.Name + ", has no replicas that could be set"
	}
	held := budgetsHold(view.Cluster, p)
	return expression.Facts{
		"workload": "", "replicas": int64(1), "ready": p.AvailableAt(view.Now, 0), "others": []string{}, "othersElsewhere": []string{},
		"settled": true, "autoscaler": "", "budgetsHold": held, "budgetsNever": []string{},
		"surge": impossible, "surgeMessage": why, "surgeRemedy": "wait until its budgets allow it", "surgeStuck": false, "replacementPending": "",
	}
}

// facts are those of a pod of the workload. name is how rules know a pod.
func (w *workload) facts(p *snapshot.Pod, name func(*snapshot.Pod) string) expression.Facts {
	others, elsewhere := w.others(p, name)
	is := w.prospect(p)
	said := expression.Facts{
		"workload":           w.title(),
		"replicas":           int64(max(w.replicas(p), 0)),
		"ready":              w.ready(p),
		"others":             others,
		"othersElsewhere":    elsewhere,
		"settled":            w.top.Settled,
		"autoscaler":         "",
		"budgetsHold":        budgetsHold(w.view.Cluster, p),
		"budgetsNever":       w.budgetsNever(p),
		"surge":              is.surge,
		"surgeMessage":       is.message,
		"surgeRemedy":        is.remedy,
		"surgeStuck":         w.overdue() && !w.needsSurge(p),
		"replacementPending": w.pending(p),
	}
	if a := w.scaler; a != nil {
		said["autoscaler"], said["autoscalerMin"], said["autoscalerMax"] = a.Name, int64(a.Min), int64(a.Max)
	}
	return said
}

// others are the other ready pods that are not terminating, and those of them on nodes that stay.
func (w *workload) others(p *snapshot.Pod, name func(*snapshot.Pod) string) (others, elsewhere []string) {
	others, elsewhere = []string{}, []string{}
	for _, o := range w.pods {
		if len(others) == mostNamed && len(elsewhere) == mostNamed {
			break
		}
		if o.UID == p.UID || !w.alike(o, p) || !w.ready(o) || !reports(w.view.Cluster, o.Node) {
			continue
		}
		if len(others) < mostNamed {
			others = append(others, name(o))
		}
		if len(elsewhere) < mostNamed && o.Node != p.Node && stays(w.view.Cluster, o.Node) {
			elsewhere = append(elsewhere, name(o))
		}
	}
	return others, elsewhere
}
