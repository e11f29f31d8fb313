package eviction

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// undoFirst is how long after its pod was seen gone a permit stands for steps to be undone before it ends, so that one write says both. A
// system that takes longer keeps no member waiting: the permit ends, and the steps are marked Undoing.
const undoFirst = 10 * time.Second

// goneUndo is how far a step of a pod that is gone is undone for the pod that is its member now, while the pod's permit stands. Nothing of
// that is in the status: the step is Begun for another pod than the one that might go, which keeps that one as Undoing would, and a
// process that knows nothing of the call makes it again.
type goneUndo struct {
	replacement *snapshot.Pod // nil: the step cannot be undone so, or not yet
	underWay    bool
	answered    bool
	reply       Reply // where answered
}

// open reports whether the system may still say that the step is undone.
func (g *goneUndo) open() bool { return g.replacement != nil && !g.answered }

func (t *statusReconciler) goneUndo(entry *v1alpha1.PreparationStatus) goneUndo {
	if entry.For == v1alpha1.ForLost || entry.State != v1alpha1.PreparationBegun || t.in.Presences[entry.PodUID] != SeenGone || t.in.ends() || !t.in.WantedKnown ||
		!over(t.now, entry, replyOf(t.replies, entry)) {
		return goneUndo{}
	}
	undo := goneUndo{replacement: t.replacementPod(entry)}
	if undo.replacement == nil {
		return undo
	}
	moved := reassign(*entry, undo.replacement)
	step := t.stepOf(&moved)
	undo.underWay = slices.ContainsFunc(t.in.UnderWay, step.sameCall)
	for i := range t.replies {
		if reply := &t.replies[i]; reply.Undo && step.sameCall(reply.Step) {
			undo.answered, undo.reply = true, *reply
		}
	}
	return undo
}

// sameCall reports whether two steps are those of one call.
func (p *Preparation) sameCall(other Preparation) bool {
	return p.Name == other.Name && p.Member.PodUID == other.Member.PodUID && p.Asked.Equal(other.Asked)
}

// undoesFirst reports whether a permit that may end stands a little longer, since what was prepared for its pod may be undone any moment.
func (t *statusReconciler) undoesFirst(permit *v1alpha1.Leaving) bool {
	end := t.in.Gone[permit.PodUID].Add(undoFirst)
	if !t.in.Now.Before(end) || end.Sub(t.in.Now) > undoFirst || !t.mayBeUndone(permit.PodUID) {
		return false
	}
	if permit.GoneTime == nil {
		gone, _ := t.goneSince(permit)
		permit.GoneTime = new(moment(gone))
	}
	t.pending = append(t.pending, permit.PodName+" is gone")
	t.undoFirst[permit.PodUID] = true
	t.look(end)
	return true
}

// mayBeUndone reports whether the system may still say of a step of a pod that is gone that it is undone.
func (t *statusReconciler) mayBeUndone(uid types.UID) bool {
	return slices.ContainsFunc(t.steps, func(step v1alpha1.PreparationStatus) bool {
		undo := t.goneUndo(&step)
		return step.PodUID == uid && undo.open()
	})
}

// podGone: the pod has gone. If its member is back, the step is undone, since some stay in force: a server that was emptied gets no data
// until then. It is so too if that pod is wanted gone again: a step is worth something only to the pod for which it was begun. A member without
// an identity does not come back: its step is undone at once.
func (t *statusReconciler) podGone(entry v1alpha1.PreparationStatus) {
	back := t.replacementPod(&entry)
	expiry := entry.LastRequestTime.Add(memory)
	switch {
	case back != nil && (t.in.WantedKnown || t.in.ends()):
		t.undoForReplacement(entry, back)
	case t.in.Deleted, t.in.Policy.Policy.nameless(entry.Role) && (t.in.WantedKnown || t.in.ends()):
		t.undo(entry)
	case back == nil && !t.in.Now.Before(expiry):
		t.forget(&entry)
	default:
		t.look(expiry)
		t.keep(entry)
	}
}

// undoForReplacement undoes the step of a pod that is gone for the one that is its member now. While the permit of the pod that is gone
// stands, the system is asked without a mark, and the step ends with the permit.
func (t *statusReconciler) undoForReplacement(entry v1alpha1.PreparationStatus, back *snapshot.Pod) {
	undo := t.goneUndo(&entry)
	stands := permitOf(t.status.Leaving, entry.PodUID) >= 0
	switch {
	case !over(t.now, &entry, replyOf(t.replies, &entry)):
		t.look(entry.LastRequestTime.Add(callLife))
		t.keep(entry)
	case undo.answered && undo.reply.Done && stands && !t.in.awaited():
		t.keep(entry)
	case undo.answered && undo.reply.Done:
		t.status.Epoch++
		t.end(&entry, undo.reply.Left)
	case !stands || !undo.open():
		t.remark(entry, back)
	case undo.underWay, t.waits(&entry):
		t.keep(entry)
	default:
		moved := reassign(entry, back)
		t.calls = append(t.calls, t.call(&moved))
		t.keep(entry)
	}
}

// waits reports whether a step whose member is back is undone a little later, when that is Ready: a pod that has just begun cannot be asked.
// None does while a pod is wanted gone: its rules may wait for the members that are prepared.
func (t *statusReconciler) waits(entry *v1alpha1.PreparationStatus) bool {
	end := t.in.Gone[entry.PodUID].Add(unhurried)
	if t.undoFirst[entry.PodUID] || t.in.awaited() || !t.in.Now.Before(end) || end.Sub(t.in.Now) > unhurried {
		return false
	}
	t.look(end)
	return true
}

// undoForGonePod takes a step back whose pod has gone meanwhile. If its member is back, the step is the new pod's. If no pod is
// back, the system is asked seldom, and not for ever.
func (t *statusReconciler) undoForGonePod(entry v1alpha1.PreparationStatus) {
	reply := replyOf(t.replies, &entry)
	switch back := t.replacementPod(&entry); {
	case reply.Done:
		t.undo(entry)
	case back != nil:
		t.remark(entry, back)
	case !t.in.Now.Before(entry.StartTime.Add(memory)):
		t.forget(&entry)
	default:
		reply.Terminal = reply.Terminal || reply.Error != ""
		t.move(entry, reply)
	}
}

// reassign makes the step the pod's. A system that is asked about a pod that is gone may know nothing of it.
func reassign(entry v1alpha1.PreparationStatus, pod *snapshot.Pod) v1alpha1.PreparationStatus {
	entry.PodUID, entry.PodName, entry.Node = pod.UID, pod.Name, pod.Node
	return entry
}

// remark marks the step as the pod's, for which no answer of the system counts yet.
func (t *statusReconciler) remark(entry v1alpha1.PreparationStatus, pod *snapshot.Pod) {
	entry.Message = ""
	t.mark(reassign(entry, pod))
}

// forget crosses out a step whose member has not come back. What is the step's own in the system stays in force.
func (t *statusReconciler) forget(entry *v1alpha1.PreparationStatus) {
	t.write(entry.ID+" has not come back", time.Time{})
	if job := jobOf(entry); job.Own() {
		t.left = append(t.left, Leftover{
			Step: entry.Name, Member: entry.ID,
			Message: fmt.Sprintf("the member has not come back for %.0f hours; take back job %s by hand, unless the system has no use for it", memory.Hours(), job.ID),
		})
	}
}

// replacementPod finds the pod that is the entry's member now.
func (t *statusReconciler) replacementPod(entry *v1alpha1.PreparationStatus) *snapshot.Pod {
	for _, pod := range t.in.Pods {
		if pod.UID == entry.PodUID || pod.Terminating() || pod.Namespace != t.in.Policy.Key.Namespace {
			continue
		}
		if claim, ok := t.in.Policy.Policy.Claim(pod); ok && t.in.Policy.Policy.same(claim.role(), claim.Member, &entry.MemberRef) {
			return pod
		}
	}
	return nil
}
