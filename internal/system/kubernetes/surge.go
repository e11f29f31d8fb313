package kubernetes

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// write is one step of a surge, or of its end. At most one of scale and scaleMin is set; neither: there is nothing to do.
type write struct {
	scale    *scaling
	scaleMin *scaling
	// lost says that another client has changed what was surged: the number is theirs, and the surge is given up.
	lost string
}

// scaling sets a number with the record of it; nil takes the record off.
type scaling struct {
	to     int32
	record *snapshot.SurgeRecord
}

func (w write) none() bool { return w.scale == nil && w.scaleMin == nil }

// self is the manager in a record. Its sign of life is a Lease where it may write one.
func self(now time.Time) snapshot.Drainer {
	return snapshot.Drainer{ID: snapshot.ManagerID, By: "usher-manager", Beat: now, Lease: true}
}

// prepare says what to write next for a pod to have a replacement, "" as obstacle where nothing is in the way.
func (w *workload) prepare(p *snapshot.Pod) (next write, obstacle string) {
	r := w.top.Surge
	switch {
	case ours(r) && w.top.Replicas != r.To:
		return w.lose(fmt.Sprintf("another client set its replicas to %d during the surge", w.top.Replicas)), ""
	case w.givenUp():
		return write{}, ""
	case w.overdue() && !w.needsSurge(p):
		return w.giveUp(), ""
	case ours(r) && slices.Contains(r.For, p.UID):
		return w.hold(r), ""
	}
	if is := w.prospect(p); is.surge != possible && is.surge != underWay {
		return write{}, is.message
	}
	return w.begin(p), ""
}

// begin asks for as many replicas as the pod's leave takes, beside those that other pods have asked for. A surge that a killed drain has
// left is gone on with.
func (w *workload) begin(p *snapshot.Pod) write {
	wanted := w.wanted()
	more, _ := w.extra(p)
	record := &snapshot.SurgeRecord{Drainer: self(w.view.Now), Was: wanted, Since: w.view.Now, Step: w.view.Now, For: []types.UID{p.UID}}
	to := wanted + max(more, 1)
	if r := w.top.Surge; ours(r) {
		record.Since, record.For = r.Since, append(slices.Clone(r.For), p.UID)
		to = max(to, r.To+1)
	}
	if w.scaler != nil {
		to = max(min(to, w.scaler.Max), w.top.Replicas)
	}
	record.To = to
	if least := w.raiseMin(to, wanted, record.For); least != nil {
		return write{scaleMin: least}
	}
	return write{scale: &scaling{to, record}}
}

// hold keeps an autoscaler from taking the replacements away again, once its minimum is raised unless another client has lowered it.
func (w *workload) hold(r *snapshot.SurgeRecord) write {
	if a := w.scaler; a != nil && ours(a.Surge) && a.Min < a.Surge.To {
		return w.lose(fmt.Sprintf("another client set minReplicas of its autoscaler %s to %d during the surge", a.Name, a.Min))
	}
	if least := w.raiseMin(r.To, r.Was, r.For); least != nil {
		return write{scaleMin: least}
	}
	return write{}
}

// raiseMin is what an autoscaler needs to keep so many replicas for these pods, nil for nothing.
func (w *workload) raiseMin(to, wanted int32, pods []types.UID) *scaling {
	a := w.scaler
	if a == nil || a.Min >= to {
		return nil
	}
	record := &snapshot.SurgeRecord{Drainer: self(w.view.Now), Was: a.Min, To: to, Base: wanted, Since: w.view.Now, Step: w.view.Now, For: pods}
	if a.Surge != nil {
		record.Was = a.Surge.Was
	}
	return &scaling{to, record}
}

// lose gives way to another client: its number stays, and the records go.
func (w *workload) lose(why string) write {
	next := w.restore(w.top.Replicas, nil)
	next.lost = w.title() + ": " + why + "; the number is theirs, and Usher does not surge it again before five minutes have passed"
	return next
}

// giveUp takes a surge back that leads nowhere. Its record stays with the number that was before, so that it is not begun again before all
// of its pods are gone, or not wanted gone any more.
func (w *workload) giveUp() write {
	record := *w.top.Surge
	record.Drainer, record.To, record.Step = self(w.view.Now), record.Was, w.view.Now
	return w.restore(record.Was, &record)
}

// restore takes one step back: the autoscaler first, since it would start the replacements again.
func (w *workload) restore(to int32, record *snapshot.SurgeRecord) write {
	if least := w.lowerMin(); least != nil {
		return write{scaleMin: least}
	}
	return write{scale: &scaling{to, record}}
}

// lowerMin takes the manager's record off an autoscaler, with the minimum of before unless another client has set one. nil: there is none.
func (w *workload) lowerMin() *scaling {
	a := w.scaler
	if a == nil || !ours(a.Surge) {
		return nil
	}
	to := a.Min
	if to == a.Surge.To {
		to = a.Surge.Was
	}
	return &scaling{to: to}
}

// undo says what to write next so that nothing is left of the surge for a pod, and why it has to wait, "" if it has not. Pods that are gone
// need none: of a StatefulSet's the step is undone for the pod that follows.
func (w *workload) undo(pod types.UID) (next write, wait string) {
	r := w.top.Surge
	if !ours(r) {
		return write{scaleMin: w.lowerMin()}, ""
	}
	left := slices.DeleteFunc(slices.Clone(r.For), func(uid types.UID) bool { return uid == pod || w.view.Cluster.Pod(uid) == nil })
	switch {
	case len(left) > 0 && !slices.Contains(r.For, pod):
		return write{}, "" // it is not for this pod
	case len(left) > 0:
		record := *r
		record.For = left
		return write{scale: &scaling{w.top.Replicas, &record}}, ""
	case w.top.Replicas != r.To:
		return w.restore(w.top.Replicas, nil), ""
	}
	if wait := w.wouldMiss(r); wait != "" {
		return write{}, wait
	}
	return w.restore(r.Was, nil), ""
}

// missPatience is how long a surge stays because its end would take ready pods away that are missed.
const missPatience = 30 * time.Minute

// wouldMiss says why scaling back has to wait. A ReplicaSet removes first what is not ready, so that it never does; a StatefulSet removes the
// last of its pods, ready or not, and of other kinds it is not known which go.
func (w *workload) wouldMiss(r *snapshot.SurgeRecord) string {
	if r.To <= r.Was || !w.view.Now.Before(snapshot.Believed(r.Step, w.view.Now).Add(missPatience)) {
		return ""
	}
	ready, least := 0, r.Was
	for _, p := range w.pods {
		ordinal, numbered := p.Ordinal()
		switch {
		case p.Owner.Kind == "ReplicaSet":
			return ""
		case !w.ready(p):
		case w.top.Kind != "StatefulSet":
			ready, least = ready+1, r.To
		case numbered && ordinal < int(r.Was):
			ready++
		}
	}
	if ready >= int(least) || len(w.pods) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is scaled back when %d of its pods are ready that stay", w.title(), least)
}
