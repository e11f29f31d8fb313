package drain

import (
	"slices"

	"usher.sh/usher/internal/snapshot"
)

// endSurges scales back what has no leaving pods any more. What is refused for good, and what this drain has not scaled, is
// said at the end of the drain.
func (d *decider) endSurges() {
	for _, w := range d.Cluster.Surged() {
		if !d.ours(w.Surge) || d.surges[w.UID] != nil || !d.led.mayUndo(Scale, w.UID) {
			continue
		}
		if !d.costsRestored(w, nil) {
			d.undoing = true
			continue
		}
		for _, a := range undoScale(w, d.Cluster.AutoscalerOf(w)) {
			d.undoing = d.takeBack(a) || d.undoing
		}
	}
	for _, a := range d.Cluster.SurgedAutoscalers() {
		if d.ours(a.Surge) && !d.surging(a) && d.led.mayUndo(ScaleMin, a.UID) && !d.costs[a.Namespace] {
			d.undoing = d.takeBack(d.undoMin(a)) || d.undoing
		}
	}
	d.pending = d.pending || d.undoing
}

func (d *decider) surging(a *snapshot.Autoscaler) bool {
	for _, s := range d.surges {
		if s.scaler != nil && s.scaler.UID == a.UID {
			return true
		}
	}
	return d.surgedUnder(a) != nil
}

// surgedUnder returns a Deployment with the record of a surge that the autoscaler rules, nil where none is.
func (d *decider) surgedUnder(a *snapshot.Autoscaler) *snapshot.Workload {
	all := d.Cluster.Surged()
	if i := slices.IndexFunc(all, func(w *snapshot.Workload) bool { return w.Surge != nil && a.Rules(w) }); i >= 0 {
		return all[i]
	}
	return nil
}

// undoScale returns the next steps that take a surge back: the autoscaler first,
// since it would start the replacements again. Where another client has scaled in between,
// only the record goes.
func undoScale(w *snapshot.Workload, a *snapshot.Autoscaler) []Action {
	if a != nil && a.Surge != nil && a.Surge.ID == w.Surge.ID {
		return []Action{restoreMin(a, w)}
	}
	to := w.Replicas
	if to == w.Surge.To {
		to = w.Surge.Was
	}
	return []Action{{Kind: Scale, Workload: w, Replicas: to, Why: "the surge is over"}}
}

func restoreMin(a *snapshot.Autoscaler, w *snapshot.Workload) Action {
	to := a.Min
	if to == a.Surge.To {
		to = a.Surge.Was
	}
	return Action{Kind: ScaleMin, Autoscaler: a, Workload: w, Replicas: to, Why: "the autoscaler's own minimum"}
}
