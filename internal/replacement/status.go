package replacement

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/text"
)

// Limits of a request's status, as its schema has them.
const (
	mostPlaces   = 16
	mostBlockers = 32
	mostWords    = 1024 // characters of a message, and of a remedy
)

// ProgressOf returns what is written down in a request's status.
func ProgressOf(status *v1alpha1.ReplacementRequestStatus) Progress {
	progress := Progress{Phase: phases[status.Step]}
	if p := status.Predecessor; p != nil {
		progress.Node, progress.NodeUID, progress.PodUID = p.Node, p.NodeUID, p.PodUID
		for _, c := range p.Claims {
			progress.Claims = append(progress.Claims, ClaimRef(c))
		}
		progress.Registration = p.Registration
		if p.StartTime != nil {
			progress.StartTime = p.StartTime.Time
		}
		if p.Target != nil {
			progress.Target = TargetRef(*p.Target)
		}
		if p.LeftTime != nil {
			progress.LeftTime = p.LeftTime.Time
		}
	}
	return progress
}

var phases = map[v1alpha1.ReplacementStep]Phase{
	v1alpha1.ReplacementRemoving: Removing, v1alpha1.ReplacementJoining: Joining,
	v1alpha1.ReplacementComplete: Complete, v1alpha1.ReplacementCancelled: Cancelled,
}

func stepOf(phase Phase) v1alpha1.ReplacementStep {
	for step, of := range phases {
		if of == phase {
			return step
		}
	}
	return v1alpha1.ReplacementWaiting
}

// Written returns a request's status once progress is written down. Before is the one that was looked at.
func Written(before *v1alpha1.ReplacementRequestStatus, in *StepInput, progress Progress) v1alpha1.ReplacementRequestStatus {
	status := *before.DeepCopy()
	if step := stepOf(progress.Phase); step != status.Step {
		status.Step, status.StepTime = step, stamp(in.Now)
	}
	if progress.Phase == Waiting || progress.Phase == Cancelled && before.Step != v1alpha1.ReplacementJoining {
		status.Waived = nil
		if progress.Phase == Waiting && !progress.StartTime.IsZero() { // which pod it was about
			return status
		}
		status.Predecessor = nil
		return status
	}
	if progress.Phase == Cancelled {
		return status // what was removed stays written down
	}
	status.Predecessor = &v1alpha1.ReplacementPredecessor{
		PodName: in.Member.PodName, PodUID: progress.PodUID, StatefulSet: in.Set.Name, Node: progress.Node, NodeUID: progress.NodeUID,
		Registration: progress.Registration,
	}
	if !progress.StartTime.IsZero() {
		status.Predecessor.StartTime = stamp(progress.StartTime)
	}
	if progress.Target != (TargetRef{}) {
		status.Predecessor.Target = (*v1alpha1.ReplacementTarget)(&progress.Target)
	}
	if !progress.LeftTime.IsZero() {
		status.Predecessor.LeftTime = stamp(progress.LeftTime)
	}
	if p := before.Predecessor; p != nil { // whatever a later look could not read
		status.Predecessor.PodName, status.Predecessor.StatefulSet = p.PodName, p.StatefulSet
	}
	for _, c := range progress.Claims {
		status.Predecessor.Claims = append(status.Predecessor.Claims, v1alpha1.ReplacementClaim(c))
	}
	return status
}

// Reported returns a request's status with what a look has found: where its pods are, and what it waits for.
func Reported(before *v1alpha1.ReplacementRequestStatus, generation int64, in *StepInput, result *StepResult) v1alpha1.ReplacementRequestStatus {
	status := Written(before, in, in.Progress)
	if before.Step == v1alpha1.ReplacementCancelled {
		status.Predecessor = before.Predecessor
	}
	status.ObservedGeneration, status.Blockers, status.Successor = generation, nil, nil
	status.PodName = cmp.Or(in.Member.PodName, status.PodName)
	if p := result.Successor; p != nil {
		status.Successor = &v1alpha1.ReplacementSuccessor{PodName: p.Name, PodUID: p.UID, Node: p.Node}
	}
	if in.Progress.Phase == Joining && in.Pod != nil && in.Delegated == nil {
		status.Successor = &v1alpha1.ReplacementSuccessor{PodName: in.Member.PodName, PodUID: in.Pod.UID, Node: in.Pod.Node.Name}
	}
	if in.Progress.Phase == Complete {
		status.Successor = before.Successor
	}
	status.Blockers = blockersOf(result.Blockers, mostBlockers)
	if len(result.Waived) > 0 { // what was given up stays written down once something was removed
		status.Waived = blockersOf(result.Waived, mostBlockers)
	}
	setConditions(&status, generation, in, result.Blockers)
	return status
}

// WaitsFor reports whether a request waits for a node that may run what it has, and its status says so.
func WaitsFor(status *v1alpha1.ReplacementRequestStatus, node *Node) bool {
	s := stepping{StepInput: &StepInput{}}
	s.mayRun(node)
	return slices.ContainsFunc(blockersOf(s.out.Blockers, mostBlockers), func(b v1alpha1.ReplacementBlocker) bool {
		return slices.ContainsFunc(status.Blockers, func(said v1alpha1.ReplacementBlocker) bool {
			return said.Reason == b.Reason && said.Message == b.Message
		})
	})
}

// blockersOf returns blockers as a status has them, so many at most.
func blockersOf(all []Blocker, most int) []v1alpha1.ReplacementBlocker {
	var blockers []v1alpha1.ReplacementBlocker
	for _, b := range all[:min(len(all), most)] {
		blockers = append(blockers, v1alpha1.ReplacementBlocker{
			Rule: b.Rule, Reason: string(b.Reason), Message: text.Cut(b.Message, mostWords), Remedy: text.Cut(b.Remedy, mostWords), WaivedBy: b.WaivedBy,
		})
	}
	return blockers
}

// stalledAfter is how long what is left of a predecessor may take to go: a finalizer that stays, or an operator that does not act, needs a person, and
// meanwhile no other member of the policy is replaced.
const stalledAfter = 10 * time.Minute

// setConditions sets what kstatus reads, all three with the same words. It is stalled where nothing that is only waited for helps, or what goes has not gone
// for long.
func setConditions(status *v1alpha1.ReplacementRequestStatus, generation int64, in *StepInput, blockers []Blocker) {
	ready, reconciling, stalled := metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionFalse
	reason, message := string(status.Step), words[in.Progress.Phase]+givenUp(status.Waived, in.Abandonment.Requester)
	if p := status.Predecessor; in.Progress.Phase == Cancelled && in.System.Elsewhere {
		message = "the request was deleted, and another system answers than the one that the member was of; the predecessor may be removed in part"
	} else if in.Progress.Phase == Cancelled && p != nil && p.StatefulSet == "" {
		message = "the request was deleted, and no successor came; the predecessor is removed"
	} else if in.Progress.Phase == Cancelled && p != nil {
		message = "its StatefulSet makes no successor any more, and the request was deleted; the predecessor is removed"
	} else if in.Progress.Phase == Cancelled && in.Unfounded != "" {
		message = in.Unfounded + "; nothing was removed"
	} else if s := (&stepping{StepInput: in}); in.Progress.Phase == Cancelled && in.Delegated != nil && s.targetGone() {
		message = fmt.Sprintf("the request was deleted, and %s, which was patched, is gone: what was asked of its operator is not taken back, and the member was not seen to go", &in.Progress.Target)
	}
	switch first := slices.IndexFunc(blockers, func(b Blocker) bool { return b.Never }); {
	case in.Progress.Phase == Complete:
		ready, reconciling = metav1.ConditionTrue, metav1.ConditionFalse
	case in.Progress.Phase == Cancelled:
		reconciling = metav1.ConditionFalse
	case first >= 0:
		reconciling, stalled = metav1.ConditionFalse, metav1.ConditionTrue
		reason, message = string(blockers[first].Reason), blockers[first].Message
	case len(blockers) > 0:
		reason, message = string(blockers[0].Reason), blockers[0].Message
		if since := status.StepTime; in.Progress.Phase == Removing && since != nil && in.Now.Sub(since.Time) >= stalledAfter {
			reconciling, stalled = metav1.ConditionFalse, metav1.ConditionTrue
		}
	}
	for _, c := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{{v1alpha1.ConditionReady, ready}, {v1alpha1.ConditionReconciling, reconciling}, {v1alpha1.ConditionStalled, stalled}} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: c.kind, Status: c.status, Reason: reason, Message: text.Cut(text.Line(message), mostWords), ObservedGeneration: generation, LastTransitionTime: *stamp(in.Now),
		})
	}
}

// givenUp says what was given up, and by whom; "": nothing.
func givenUp(waived []v1alpha1.ReplacementBlocker, requester string) string {
	var all []string
	for i := range waived {
		all = append(all, waived[i].Reason+" ("+waived[i].Message+")")
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("; given up by %s: %s", requester, text.List(all, 5))
}

var words = map[Phase]string{
	Waiting:   "it begins",
	Removing:  "what is left of the predecessor is removed",
	Joining:   "nothing of the predecessor is left, and the successor is on its way",
	Complete:  "the successor does its work",
	Cancelled: "it was cancelled before anything was removed",
}

func stamp(t time.Time) *metav1.Time { return &metav1.Time{Time: t.UTC().Truncate(time.Second)} }

// NotePlaces returns where pods of a member were, after a look: on the node that its pod is bound to now (nil: none), on those that its
// volumes are bound to, and on those that were written down before. A place is gone since a look found no pod there.
func NotePlaces(before []v1alpha1.ReplacementPlace, here *Node, data []Node, now time.Time) []v1alpha1.ReplacementPlace {
	var places []v1alpha1.ReplacementPlace
	for _, p := range before {
		if here != nil && isPlace(&p, here) {
			continue
		}
		if p.GoneTime == nil {
			p.GoneTime = stamp(now)
		}
		places = append(places, p)
	}
	for i := range data {
		is := func(p v1alpha1.ReplacementPlace) bool { return isPlace(&p, &data[i]) }
		if here != nil && here.Name == data[i].Name || slices.ContainsFunc(places, is) {
			continue
		}
		places = append([]v1alpha1.ReplacementPlace{{Node: data[i].Name, NodeUID: data[i].UID, GoneTime: stamp(now)}}, places...)
	}
	if here != nil {
		places = append(places, v1alpha1.ReplacementPlace{Node: here.Name, NodeUID: here.UID})
	}
	return places[max(0, len(places)-mostPlaces):]
}

// isPlace reports whether a place is the node: a Node that was made anew under its name is another.
func isPlace(place *v1alpha1.ReplacementPlace, node *Node) bool {
	return place.Node == node.Name && place.NodeUID == node.UID
}
