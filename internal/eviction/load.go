package eviction

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// emptiedAgain is when an emptied member is looked at again: what it carries may come back while its pod stays, and its system says so only
// when it is asked.
const emptiedAgain = 30 * time.Second

// loads reports whether the pod stays, and what it carries leaves: by the entry that claims it, or by one of several that do.
func (j *judgement) loads() bool { return j.load || j.entry != nil && j.entry.load }

func emptiedOf(emptied []v1alpha1.Emptied, uid types.UID) int {
	return slices.IndexFunc(emptied, func(e v1alpha1.Emptied) bool { return e.PodUID == uid })
}

// empty writes down that nothing of what the pod carries is left, and says so for as long as the eviction is wanted. The responder's entry is
// never completed: the next responder would evict the pod. In a policy that is being deleted nothing is written down any more: statusReconciler
// crosses all out there. Nor is it of a pod of which it is not known whose member it is.
func (in *ResponderInput) empty(j *judgement) []Action {
	if !in.Active {
		return nil
	}
	said := j.title() + " is emptied, and the pod stays: " + j.verdict.WhyItGoes()
	if j.verdict.Answer != Allowed {
		said += "; what holds it: " + j.summary()
	}
	tell := in.respond(Report{Message: v1alpha1.EmptiedPrefix + said})
	if j.policy == nil || j.policy.Deleted || emptiedOf(j.status().Emptied, in.Pod.UID) >= 0 {
		return tell
	}
	status := statusOf(j.policy)
	status.Emptied = append(status.Emptied, v1alpha1.Emptied{
		MemberRef: memberRef(j.verdict.Role, j.verdict.Member, in.Pod), StartTime: moment(in.Now),
	})
	return append([]Action{j.policy.write(Empty, status, said)}, tell...)
}

// filledAgain reports whether a member counts as emptied that is so no more.
func (j *judgement) filledAgain() bool {
	return j.loads() && emptiedOf(j.status().Emptied, j.uid()) >= 0
}

// fill takes back that a member is emptied, before anything else is done for it: others may go as long as it counts as that.
func (in *ResponderInput) fill(j *judgement) []Action {
	status := statusOf(j.policy)
	at := emptiedOf(status.Emptied, in.Pod.UID)
	status.Emptied = slices.Delete(status.Emptied, at, at+1)
	why := j.title() + " is emptied no more: " + j.summary()
	return append([]Action{j.policy.write(Empty, status, why)}, in.respond(Report{Message: j.title() + " " + j.mayNot() + ": " + j.summary()})...)
}

// emptied keeps an entry while its pod is there and wanted gone, or may be, or crosses it out.
func (t *statusReconciler) emptied(entry v1alpha1.Emptied) {
	pod, sight := t.pods[entry.PodUID], t.in.Presences[entry.PodUID]
	switch {
	case sight == SeenGone:
		t.write(entry.PodName+", which was emptied, is gone", time.Time{})
		return
	case !t.wants(entry.PodUID) || !t.loads(entry.PodUID):
		t.write(entry.PodName+" is not to be empty any more", time.Time{})
		return
	case pod == nil && sight == "":
		t.needsLiveRead(entry.PodUID, entry.PodName)
	}
	t.status.Emptied = append(t.status.Emptied, entry)
}

// loads reports whether the policy still has the pod stay, as far as is known.
func (t *statusReconciler) loads(uid types.UID) bool {
	pod := t.pods[uid]
	if pod == nil {
		return true
	}
	claim, ok := t.in.Policy.Policy.Claim(pod)
	return ok && claim.Load
}

// stay blocks an eviction that would take away a pod which stays. What its caller can have is that the pod is emptied.
func (j *judgement) stay() {
	if !j.loads() || j.in.Pod.Finished() {
		return
	}
	policy := "a policy that claims it"
	if j.policy != nil {
		policy = "policy " + j.policy.Key.Name
	}
	b := Blocker{
		Reason:  PodStays,
		Message: fmt.Sprintf("the pod stays on its node: %s says that what it carries leaves (leaves: Load)", policy),
		Remedy: fmt.Sprintf("usher drain %s, or usher evict %s -n %s, has it emptied; a DELETE restarts the pod where it is, if its rules allow that",
			j.in.Pod.Node, j.in.Pod.Name, j.in.Pod.Namespace),
		Retry: lookAgain,
	}
	if at := emptiedOf(j.status().Emptied, j.in.Pod.UID); at >= 0 {
		b.Message = fmt.Sprintf("emptied, the pod stays: all that it carries has left by %s (leaves: Load)", j.status().Emptied[at].StartTime.UTC().Format(time.RFC3339))
		b.Remedy = fmt.Sprintf("nothing is left to do; giving its node back undoes it, usher uncordon %s", j.in.Pod.Node)
	}
	j.block(b)
	if j.verdict.Answer == Allowed {
		j.verdict.Answer = Blocked
	}
}
