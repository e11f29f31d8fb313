package eviction

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// TidyInput is what is known when a policy's status is put in order.
type TidyInput struct {
	Now    time.Time
	Policy Declared
	// Pods are all pods of the namespace.
	Pods []*snapshot.Pod
	// Sights are what live GETs said of the pods that a former result asked to Confirm. They must be younger than the
	// version of Policy's status.
	Sights map[types.UID]Sight
	// Gone is since when this process has seen pods gone, by UID: those of Sights.
	Gone map[types.UID]time.Time
	// Wanted are the pods, by UID, with a live EvictionRequest. WantedKnown is false while requests cannot be listed:
	// then nothing is undone and nothing withdrawn.
	Wanted      map[types.UID]bool
	WantedKnown bool
	// Requests are those that admission made in the namespace.
	Requests []AdmissionRequest
	// Requesters are the names under which admission makes requests for the users in the policy's permits.
	Requesters map[string]string
	// Replies is what the system said to the last Undo of each step, in this process.
	Replies []Reply
	// Deleted says that the policy is being deleted: all steps are taken back whoever wants the pods gone, since nobody
	// will remember them, and what admission asked for its pods is withdrawn, or it would be carried out unjudged.
	Deleted bool
	// Audited says that the policy is in mode Audit: all steps are taken back whoever wants the pods gone, and no request is its
	// own, since it has refused no caller.
	Audited bool
}

// ends reports whether all steps are taken back, whoever wants the pods gone.
func (in *TidyInput) ends() bool { return in.Deleted || in.Audited }

// Doubt is a pod of which the cache is not believed.
type Doubt struct {
	Pod snapshot.Key
	UID types.UID
}

// Sight is what a live GET says of a pod.
type Sight string

// What can be seen.
const (
	SeenGone        Sight = "Gone" // 404, or another UID under its name
	SeenTerminating Sight = "Terminating"
	SeenStaying     Sight = "Staying"
	SeenReady       Sight = "Ready" // staying, and Ready
)

func (s Sight) stays() bool { return s == SeenStaying || s == SeenReady }

// AdmissionRequest is an EvictionRequest that admission made in a caller's name.
type AdmissionRequest struct {
	Pod       snapshot.Key
	UID       types.UID
	Requester string
	Asked     time.Time // when the caller asked last
	ByOwner   bool      // the caller is the controller of pods of some kind
	// Held: what made the caller ask stands still, and it will not ask again: a NoExecute taint on the pod's node.
	Held bool
}

// TidyResult is what to do now.
type TidyResult struct {
	Actions []Action
	// Confirm are the pods to GET live, after which Tidy is called again with Sights.
	Confirm []Doubt
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

// Tidy puts a policy's status in order: permits that were used or not, steps that nobody needs any more, requests whose
// callers have gone. A result holds at most one write of the status. It may be carried out to any prefix, and more than
// once.
func Tidy(in TidyInput) TidyResult {
	t := &tidier{undoing: newUndoing(&in), pods: map[types.UID]*snapshot.Pod{}}
	for _, pod := range in.Pods {
		t.pods[pod.UID] = pod
	}
	before := statusOf(&in.Policy)
	t.status.Leaving = nil
	for _, entry := range before.Leaving {
		t.permit(entry)
	}
	for _, entry := range before.Preparations {
		t.step(entry)
	}
	t.forgetDeparted()
	result := TidyResult{Actions: t.actions(), Confirm: t.confirm, Pending: len(t.pending) > 0}
	result.Actions = append(result.Actions, t.withdraw()...)
	result.NextLook = t.next
	return result
}

type tidier struct {
	*undoing
	pods    map[types.UID]*snapshot.Pod
	confirm []Doubt
}

// permit keeps an entry, or crosses it out. Only a live look is believed: a cache that is behind would cross out a member
// that is on its way.
func (t *tidier) permit(entry v1alpha1.Leaving) {
	age := t.in.Now.Sub(entry.StartTime.Time)
	linger := snapshot.Seconds(entry.LingerSeconds)
	sight := t.in.Sights[entry.PodUID]
	pod := t.pods[entry.PodUID]
	switch {
	case entry.GoneTime != nil, sight == SeenGone && (linger == 0 || age >= linger):
		if entry.GoneTime == nil {
			t.depart(&entry)
		}
		settled, until := t.settle(&entry)
		if settled {
			t.crossOut(entry.PodName + " is gone")
			return
		}
		t.look(until)
	case sight.stays() && age >= permitLife:
		t.crossOut(entry.PodName + " was let go and stayed")
		return
	case age < -permitLife:
		// A clock was set back: the permit's life begins anew.
		entry.StartTime = moment(t.in.Now)
		t.write("the permit of "+entry.PodName+" is from the future", time.Time{})
		t.look(t.in.Now.Add(permitLife))
	case sight == SeenGone:
		t.look(entry.StartTime.Add(linger))
	case sight == "" && (pod == nil || (!pod.Terminating() && age >= permitLife)):
		t.doubt(entry.PodUID, entry.PodName)
		if t.in.Policy.Policy.settle(entry.Role) > 0 {
			t.ready(&entry) // is asked when the pod was seen gone, and looks live as well
		}
	case age < permitLife:
		t.look(entry.StartTime.Add(permitLife))
	}
	t.noteRefused(&entry)
	t.status.Leaving = append(t.status.Leaving, entry)
}

// settle reports whether the system had time to find out that the member is away, or has it back; if not, when it will have had.
// The time begins when the pod was seen gone, which is written down unless it is over soon: another process goes on with it.
func (t *tidier) settle(entry *v1alpha1.Leaving) (settled bool, until time.Time) {
	within := t.in.Policy.Policy.settle(entry.Role)
	if within == 0 || t.ready(entry) {
		return true, time.Time{}
	}
	gone, seen := t.in.Gone[entry.PodUID]
	since := gone
	if entry.GoneTime != nil {
		gone, seen = entry.GoneTime.Time, true
	}
	age := t.in.Now.Sub(gone)
	switch {
	case seen && age >= within+time.Second: // the API keeps whole seconds
		return true, time.Time{}
	case !seen, age < -time.Second: // or by a clock that was set back since
		gone, since = t.in.Now, time.Time{}
	case entry.GoneTime != nil:
		return false, gone.Add(within + time.Second)
	}
	at := moment(gone)
	entry.GoneTime = &at
	t.write(entry.PodName+" is gone, and its system has "+within.String()+" to find that out", since)
	return false, at.Add(within + time.Second)
}

// ready reports whether another pod that is Ready is the entry's member now. Only a live look is believed: a cache whose watch hangs
// shows Ready what was the member before the entry's pod was.
func (t *tidier) ready(entry *v1alpha1.Leaving) bool {
	for _, pod := range t.in.Pods {
		if pod.UID == entry.PodUID || !pod.Ready || pod.Terminating() || pod.Namespace != t.in.Policy.Key.Namespace {
			continue
		}
		if claim, ok := t.in.Policy.Policy.Claim(pod); !ok || claim.Member != entry.ID {
			continue
		}
		switch t.in.Sights[pod.UID] {
		case SeenReady:
			return true
		case "":
			t.doubt(pod.UID, pod.Name)
		case SeenGone, SeenTerminating, SeenStaying:
		}
	}
	return false
}

func (t *tidier) crossOut(why string) {
	t.status.Epoch++
	t.write(why, time.Time{})
}

func (t *tidier) doubt(uid types.UID, name string) {
	doubt := Doubt{Pod: snapshot.Key{Namespace: t.in.Policy.Key.Namespace, Name: name}, UID: uid}
	if !slices.Contains(t.confirm, doubt) {
		t.confirm = append(t.confirm, doubt)
	}
}

// step keeps an entry, takes it back or forgets it.
func (t *tidier) step(entry v1alpha1.PreparationStatus) {
	pod, sight := t.pods[entry.PodUID], t.in.Sights[entry.PodUID]
	if entry.State == v1alpha1.PreparationBegun && learn(&entry, replyOf(t.replies, &entry)) {
		t.write(entry.Name+" of "+entry.ID+" is job "+entry.Job, time.Time{})
	}
	switch {
	case pod == nil && sight == "":
		t.doubt(entry.PodUID, entry.PodName)
		t.keep(entry)
	case entry.State == v1alpha1.PreparationUndoing && sight == SeenGone:
		t.undoLeft(entry)
	case entry.State == v1alpha1.PreparationUndoing:
		t.undo(entry)
	case sight == SeenGone:
		t.left(entry)
	case pod == nil || pod.Terminating() || t.wants(entry.PodUID):
		t.keep(entry)
	default:
		t.undo(entry)
	}
}

// wants reports whether somebody wants the pod gone, or may.
func (t *tidier) wants(uid types.UID) bool {
	return !t.in.ends() && (t.in.Wanted[uid] || !t.in.WantedKnown)
}

// left: the pod has gone. If its member is back and nobody wants it gone again, the step is taken back, since some stay in
// force: a server that was emptied gets no data until then.
func (t *tidier) left(entry v1alpha1.PreparationStatus) {
	back := t.back(&entry)
	expiry := entry.LastRequestTime.Add(memory)
	switch {
	case back != nil && !t.wants(back.UID) && t.waits(&entry):
		t.keep(entry)
	case back != nil && !t.wants(back.UID):
		t.undo(given(entry, back))
	case t.in.Deleted:
		t.undo(entry)
	case back == nil && !t.in.Now.Before(expiry):
		t.forget(&entry)
	default:
		t.look(expiry)
		t.keep(entry)
	}
}

// waits reports whether a step whose member is back is taken back a little later, with the end of the permit of the pod that has left.
func (t *tidier) waits(entry *v1alpha1.PreparationStatus) bool {
	end := t.in.Gone[entry.PodUID].Add(unhurried)
	if t.in.ends() || permitOf(t.status.Leaving, entry.PodUID) < 0 || !t.in.Now.Before(end) || end.Sub(t.in.Now) > unhurried {
		return false
	}
	t.look(end)
	return true
}

// undoLeft takes a step back whose pod has gone meanwhile. If its member is back, the step is the new pod's. If nobody is,
// the system is asked seldom, and not for ever.
func (t *tidier) undoLeft(entry v1alpha1.PreparationStatus) {
	reply := replyOf(t.replies, &entry)
	switch back := t.back(&entry); {
	case reply.Done:
		t.undo(entry)
	case back != nil:
		t.undo(given(entry, back))
	case !t.in.Now.Before(entry.StartTime.Add(memory)):
		t.forget(&entry)
	default:
		reply.Terminal = reply.Terminal || reply.Error != ""
		t.move(entry, reply)
	}
}

// given makes the step the pod's, for which the system was not asked yet. One that is told of a pod that is gone may know
// nothing of it.
func given(entry v1alpha1.PreparationStatus, pod *snapshot.Pod) v1alpha1.PreparationStatus {
	entry.PodUID, entry.PodName, entry.Node, entry.LastRequestTime = pod.UID, pod.Name, pod.Node, metav1.Time{}
	return entry
}

func (t *tidier) forget(entry *v1alpha1.PreparationStatus) {
	t.write(entry.ID+" has not come back", time.Time{})
}

// back finds the pod that is the entry's member now.
func (t *tidier) back(entry *v1alpha1.PreparationStatus) *snapshot.Pod {
	for _, pod := range t.in.Pods {
		if pod.UID == entry.PodUID || pod.Terminating() || pod.Namespace != t.in.Policy.Key.Namespace {
			continue
		}
		if claim, ok := t.in.Policy.Policy.Claim(pod); ok && claim.Member == entry.ID {
			return pod
		}
	}
	return nil
}

// withdraw ends the requests whose callers have given up, or do not own their pods any more.
func (t *tidier) withdraw() []Action {
	var actions []Action
	for i := range t.in.Requests {
		request := &t.in.Requests[i]
		if t.in.Deleted && !t.in.Audited && t.governs(request.UID) {
			actions = append(actions, request.withdrawal(t.in.Policy.Key, "the policy by which "+request.Requester+" was refused is being deleted"))
			continue
		}
		if request.Held || !t.in.WantedKnown {
			continue
		}
		if pod := t.pods[request.UID]; request.ByOwner && pod != nil && pod.Owner.Kind == "" {
			actions = append(actions, request.withdrawal(t.in.Policy.Key, "no controller owns the pod any more, so that none would replace it"))
			continue
		}
		life := requestLife(request.ByOwner)
		if end := request.Asked.Add(life); t.in.Now.Before(end) && request.Asked.Sub(t.in.Now) < life {
			t.look(end)
			continue
		}
		actions = append(actions, request.withdrawal(t.in.Policy.Key, request.Requester+" has not asked again"))
	}
	return actions
}

// governs reports whether the pod is the policy's, by its label too: a policy that cannot be read claims none.
func (t *tidier) governs(uid types.UID) bool {
	pod := t.pods[uid]
	if pod == nil {
		return false
	}
	_, claimed := t.in.Policy.Policy.Claim(pod)
	return claimed || pod.Labels[v1alpha1.PolicyLabel] == LabelValue(t.in.Policy.Key.Name)
}

func (r *AdmissionRequest) withdrawal(policy snapshot.Key, why string) Action {
	return Action{Kind: Withdraw, Policy: policy, Pod: r.Pod, UID: r.UID, Requester: r.Requester, Why: why}
}
