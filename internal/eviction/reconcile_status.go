package eviction

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// StatusInput is what is known when a policy's status is put in order.
type StatusInput struct {
	Now    time.Time
	Policy Declared
	// Pods are all pods of the namespace.
	Pods []*snapshot.Pod
	// Presences are what live GETs said of the pods of LiveReads. They must be younger than the version of Policy's status.
	Presences map[types.UID]PodPresence
	// Gone is since when this process has seen pods gone, by UID: those of Presences.
	Gone map[types.UID]time.Time
	// Known is for how long this process has known each permit. nil: only Now and the times of the status count.
	Known map[types.UID]KnownFor
	// Ran are the policy's members whose pods ran when this process last wrote what it had found, by their pods: RunningMembers of then.
	Ran map[types.UID]v1alpha1.MemberRef
	// Wanted are pods, by UID, with a live EvictionRequest: of those that the status names all, and of the policy's others one, where any is
	// and AsksForOthers. WantedKnown is false while requests cannot be listed: then nothing is undone.
	Wanted      map[types.UID]bool
	WantedKnown bool
	// Requests are those that admission made for the pods that the status names, and of a policy that is being deleted for all of its pods.
	Requests []AdmissionRequest
	// Requesters are the names under which admission makes requests for the users in the policy's permits.
	Requesters map[string]string
	// Nodes says how the nodes are on which a member of a role with steps for that is, or for whose sake such steps stand; of others nothing is known.
	Nodes map[string]NodeState
	// Replies is what the system said to the last Undo of each step, in this process.
	Replies []Reply
	// UnderWay are the calls of this process for steps of the policy that its system has not answered.
	UnderWay []Preparation
	// Deleted says that the policy is being deleted: all steps are taken back, also of pods that are wanted gone, since nothing
	// will remember them, and what admission asked for its pods is withdrawn, or it would be carried out unjudged.
	Deleted bool
	// Audited says that the policy is in mode Audit: all steps are taken back, also of pods that are wanted gone, and no request is its
	// own, since it has refused no caller.
	Audited bool
	// Ending says that the namespace is being deleted, and all of its pods go.
	Ending bool
}

// KnownFor is for how long a process has known a permit, and that its pod is gone, by a clock that does not jump. Now may: where it is set
// forward, a permit would end although its removal is under way, or its system has not found out yet.
type KnownFor struct{ Permit, Gone time.Duration }

// ends reports whether all steps are taken back, also of pods that are wanted gone.
func (in *StatusInput) ends() bool { return in.Deleted || in.Audited }

// awaited reports whether a pod is wanted gone that was not seen gone: its rules may wait for what is written. The request of one that is gone
// stands until it is collected.
func (in *StatusInput) awaited() bool {
	for uid, wanted := range in.Wanted {
		if wanted && in.Presences[uid] != SeenGone {
			return true
		}
	}
	return false
}

// AsksForOthers reports whether it makes a difference to the steps that stand, as far as Wanted says of their own pods, whether another pod
// is wanted gone: not while each is kept for its pod.
func (in *StatusInput) AsksForOthers() bool {
	status := statusOf(&in.Policy)
	return !in.ends() && slices.ContainsFunc(status.Preparations, func(p v1alpha1.PreparationStatus) bool {
		there := slices.ContainsFunc(in.Pods, func(pod *snapshot.Pod) bool { return pod.UID == p.PodUID }) && in.Presences[p.PodUID] != SeenGone
		return p.For != v1alpha1.ForLost && (p.State != v1alpha1.PreparationBegun || !in.Wanted[p.PodUID] || !there || permitOf(status.Leaving, p.PodUID) >= 0)
	})
}

// Unconfirmed is a pod of which the cache is not believed.
type Unconfirmed struct {
	Pod snapshot.Key
	UID types.UID
}

// PodPresence is what a live GET says of a pod.
type PodPresence string

// What can be seen.
const (
	SeenGone        PodPresence = "Gone" // 404, or another UID under its name
	SeenTerminating PodPresence = "Terminating"
	SeenStaying     PodPresence = "Staying"
	SeenReady       PodPresence = "Ready" // staying, and Ready
)

func (s PodPresence) stays() bool { return s == SeenStaying || s == SeenReady }

// StatusResult is what to do now.
type StatusResult struct {
	Actions []Action
	// Pending: the status is written soon, with what may wait until NextLook.
	Pending bool
	// NextLook is when to look again if nothing happens before; zero: only when something happens.
	NextLook time.Time
}

const (
	// unhurried is how long what keeps no member waiting may stay unwritten, so that it is written with what does.
	unhurried = 5 * time.Second
	// memory is how long a step is remembered whose pod is gone, in case that its member comes back: then the step is
	// taken back.
	memory = 24 * time.Hour
)

// LiveReads are the pods to GET before ReconcileStatus is asked: what is decided of them by a cache alone leaves everything as it is.
func LiveReads(in StatusInput) []Unconfirmed { return reconcileStatus(&in).confirm }

// ReconcileStatus puts a policy's status in order: permits that were used or not, steps that are not needed any more, and the requests of
// callers that were refused by a policy which goes. A result holds at most one write of the status. It may be carried out to any prefix, and more than
// once.
func ReconcileStatus(in StatusInput) StatusResult {
	t := reconcileStatus(&in)
	result := StatusResult{Actions: t.actions(), Pending: len(t.pending) > 0}
	result.Actions = append(result.Actions, t.withdraw()...)
	result.NextLook = t.next
	return result
}

func reconcileStatus(in *StatusInput) *statusReconciler {
	before := statusOf(&in.Policy)
	t := &statusReconciler{
		undoing: newUndoing(in), steps: before.Preparations, pods: map[types.UID]*snapshot.Pod{}, undoFirst: map[types.UID]bool{},
	}
	for _, pod := range in.Pods {
		t.pods[pod.UID] = pod
	}
	t.status.Leaving = nil
	for _, entry := range before.Leaving {
		t.permit(entry)
	}
	t.noteUnpermitted(before.Leaving)
	for _, entry := range t.steps {
		t.step(entry)
	}
	t.status.Emptied = nil
	for _, entry := range before.Emptied {
		t.emptied(entry)
	}
	t.forgetDeparted()
	return t
}

type statusReconciler struct {
	*undoing
	steps     []v1alpha1.PreparationStatus // as they stand
	pods      map[types.UID]*snapshot.Pod
	byMember  map[string][]*snapshot.Pod // of readyPods; nil: not found yet
	undoFirst map[types.UID]bool         // permits that stand for steps of their pods to be undone first
	confirm   []Unconfirmed
}

// permit keeps an entry, or crosses it out. Only a live look is believed: a cache that is behind would cross out a member
// that is on its way.
func (t *statusReconciler) permit(entry v1alpha1.Leaving) {
	age := t.age(&entry)
	linger := snapshot.Seconds(entry.LingerSeconds)
	sight := t.in.Presences[entry.PodUID]
	pod := t.pods[entry.PodUID]
	switch {
	case entry.GoneTime != nil, sight == SeenGone && (linger == 0 || age >= linger):
		if entry.GoneTime == nil {
			t.depart(&entry)
		}
		settled, until := t.settle(&entry)
		switch {
		case !settled:
			t.look(until)
		case !t.undoesFirst(&entry):
			t.removePermit(entry.PodName + " is gone")
			return
		}
	case sight.stays() && age >= permitLife && (pod == nil || !pod.Terminating()): // which no pod takes back: a live look that saw it stay was before
		t.removePermit(entry.PodName + " was let go and stayed")
		return
	case age < -permitLife:
		// A clock was set back: the permit's life begins anew.
		entry.StartTime = moment(t.in.Now)
		t.write("the permit of "+entry.PodName+" is from the future", time.Time{})
		t.look(t.in.Now.Add(permitLife))
	case sight == SeenGone:
		t.look(t.in.Now.Add(linger - age))
	case sight == "" && (pod == nil || (!pod.Terminating() && age >= permitLife)):
		t.needsLiveRead(entry.PodUID, entry.PodName)
		if t.in.Policy.Policy.settle(entry.Role) > 0 {
			t.ready(&entry) // is asked when the pod was seen gone, and looks live as well
		}
	case age < permitLife:
		t.look(t.in.Now.Add(permitLife - age))
	}
	t.noteRefused(&entry)
	t.status.Leaving = append(t.status.Leaving, entry)
}

// age is how old a permit is: no older than this process has known it for.
func (t *statusReconciler) age(entry *v1alpha1.Leaving) time.Duration {
	age := t.in.Now.Sub(entry.StartTime.Time)
	if t.in.Known == nil {
		return age
	}
	return min(age, t.in.Known[entry.PodUID].Permit)
}

// settle reports whether the system had time to find out that the member is away, or has it back; if not, when it will have had.
// The time begins when the pod was seen gone, which is written down unless it is over soon: another process goes on with it.
func (t *statusReconciler) settle(entry *v1alpha1.Leaving) (settled bool, until time.Time) {
	within := t.in.Policy.Policy.settle(entry.Role)
	if within == 0 || t.ready(entry) {
		return true, time.Time{}
	}
	gone, seen := t.goneSince(entry)
	since := gone
	if entry.GoneTime != nil {
		gone, seen = entry.GoneTime.Time, true
	}
	age, left := t.in.Now.Sub(gone), unsettled(t.in.Known, entry, within)
	switch {
	case seen && age >= within+time.Second && left <= 0: // the API keeps whole seconds
		return true, time.Time{}
	case !seen, age < -time.Second: // or by a clock that was set back since
		gone, since = t.in.Now, time.Time{}
	case entry.GoneTime != nil:
		return false, t.in.Now.Add(max(within+time.Second-age, left))
	}
	at := moment(gone)
	entry.GoneTime = &at
	t.write(entry.PodName+" is gone, and its system has "+within.String()+" to find that out", since)
	return false, t.in.Now.Add(max(within+time.Second-t.in.Now.Sub(at.Time), left))
}

// goneSince is since when this process has seen the entry's pod gone, and the end of the pod's process after that.
func (t *statusReconciler) goneSince(entry *v1alpha1.Leaving) (gone time.Time, seen bool) {
	gone, seen = t.in.Gone[entry.PodUID]
	if end := entry.StartTime.Add(snapshot.Seconds(entry.LingerSeconds)); entry.LingerSeconds > 0 && gone.Before(end) {
		gone = end
	}
	return gone, seen
}

// ready reports whether another pod that is Ready is the entry's member now. Only a live look is believed: a cache whose watch hangs
// shows Ready what was the member before the entry's pod was.
func (t *statusReconciler) ready(entry *v1alpha1.Leaving) bool {
	for _, pod := range t.readyPods()[entry.ID] {
		if pod.UID == entry.PodUID || !t.same(pod, &entry.MemberRef) {
			continue
		}
		switch t.in.Presences[pod.UID] {
		case SeenReady:
			return true
		case "":
			t.needsLiveRead(pod.UID, pod.Name)
		case SeenGone, SeenTerminating, SeenStaying:
		}
	}
	return false
}

// same reports whether a pod with an entry's id is the entry's member.
func (t *statusReconciler) same(pod *snapshot.Pod, of *v1alpha1.MemberRef) bool {
	claim, ok := t.in.Policy.Policy.Claim(pod)
	return ok && t.in.Policy.Policy.same(claim.role(), claim.Member, of)
}

// readyPods are the policy's Ready pods that stay, by their member. An id is an expression, so they are found once for all entries.
func (t *statusReconciler) readyPods() map[string][]*snapshot.Pod {
	if t.byMember != nil {
		return t.byMember
	}
	t.byMember = map[string][]*snapshot.Pod{}
	for _, pod := range t.in.Pods {
		if !pod.Ready || pod.Terminating() || pod.Namespace != t.in.Policy.Key.Namespace {
			continue
		}
		if claim, ok := t.in.Policy.Policy.Claim(pod); ok {
			t.byMember[claim.Member] = append(t.byMember[claim.Member], pod)
		}
	}
	return t.byMember
}

func (t *statusReconciler) removePermit(why string) {
	t.status.Epoch++
	t.write(why, time.Time{})
}

func (t *statusReconciler) needsLiveRead(uid types.UID, name string) {
	doubt := Unconfirmed{Pod: snapshot.Key{Namespace: t.in.Policy.Key.Namespace, Name: name}, UID: uid}
	if !slices.Contains(t.confirm, doubt) {
		t.confirm = append(t.confirm, doubt)
	}
}

// step keeps an entry, takes it back or forgets it.
func (t *statusReconciler) step(entry v1alpha1.PreparationStatus) {
	pod, sight := t.pods[entry.PodUID], t.in.Presences[entry.PodUID]
	if entry.State == v1alpha1.PreparationBegun && learn(&entry, replyOf(t.replies, &entry)) {
		t.write(entry.Name+" of "+entry.ID+" is job "+entry.Job, time.Time{})
	}
	switch {
	case entry.For == v1alpha1.ForLost:
		t.lost(entry)
	case pod == nil && sight == "":
		t.needsLiveRead(entry.PodUID, entry.PodName)
		t.keep(entry)
	case entry.State == v1alpha1.PreparationUndoing && sight == SeenGone:
		t.undoForGonePod(entry)
	case entry.State == v1alpha1.PreparationUndoing:
		t.undo(entry)
	case sight == SeenGone:
		t.podGone(entry)
	case pod == nil || pod.Terminating() || t.wants(entry.PodUID):
		t.keep(entry)
	default:
		t.undo(entry)
	}
}

// wants reports whether the pod is wanted gone, or may be.
func (t *statusReconciler) wants(uid types.UID) bool {
	return !t.in.ends() && (t.in.Wanted[uid] || !t.in.WantedKnown)
}

// withdraw takes back, where the policy is being deleted, what admission asked for in the names of callers that it refused by it.
func (t *statusReconciler) withdraw() []Action {
	if !t.in.Deleted || t.in.Audited {
		return nil
	}
	var actions []Action
	for i := range t.in.Requests {
		request := &t.in.Requests[i]
		if pod := t.pods[request.UID]; pod != nil && t.in.Policy.Governs(pod) {
			actions = append(actions, request.withdrawal(t.in.Policy.Key, "the policy by which "+request.Requester+" was refused is being deleted"))
		}
	}
	return actions
}
