package drain

import (
	"slices"

	"usher.sh/usher/internal/snapshot"
)

// undoMin returns the next step that takes back the minimum of an autoscaler whose Deployment has no record of the surge: the
// drain ended between the two. What the autoscaler has started to reach the minimum gets the record first: it takes
// replicas away again only where its behavior and its metrics let it.
func (d *decider) undoMin(a *snapshot.Autoscaler) Action {
	w := d.raisedBy(a)
	if w == nil || d.led.undone[tryKey{ScaleMin, a.UID}] >= mostUndone-1 { // the last one is the minimum's
		return restoreMin(a, nil)
	}
	record := &snapshot.SurgeRecord{Drainer: a.Surge.Drainer, Was: a.Surge.Base, To: w.Replicas, Since: a.Surge.Since, Step: a.Surge.Step}
	if _, t := d.standing(Scale, w.UID, w.ResourceVersion); t != nil && (final(t.answer.Code) || t.count >= mostUndoTries) {
		return restoreMin(a, nil)
	}
	return Action{Kind: Scale, Workload: w, Autoscaler: a, Replicas: w.Replicas, Surge: record, Why: "its autoscaler has reached the raised minimum"}
}

// raisedBy returns the Deployment that its autoscaler has scaled to the minimum that a drain has set, nil where none is, or
// where either was changed since.
func (d *decider) raisedBy(a *snapshot.Autoscaler) *snapshot.Workload {
	r := a.Surge
	if r.Base <= 0 || r.Base >= r.To || r.To <= r.Was || a.Min != r.To {
		return nil
	}
	all := d.Cluster.Workloads()
	i := slices.IndexFunc(all, func(w *snapshot.Workload) bool {
		return w.Kind == "Deployment" && a.Rules(w) && w.Surge == nil && w.SurgeError == "" && w.Replicas == r.To && d.takenBack(w, a) == ""
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// minOfAnother reports whether another drain, which may still be running, has raised the minimum of the autoscaler that rules the
// Deployment. It goes on to scale the Deployment, and each of both would take the other's record for its own surge.
func (d *decider) minOfAnother(s *surge) bool {
	a := s.scaler
	return a != nil && a.Surge != nil && !d.ours(a.Surge) && d.foreignAlive(a.UID, a.Surge)
}
