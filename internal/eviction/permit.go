package eviction

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// permitLife is how long a permit stands for a pod that is neither terminating nor gone: by then the apiserver has long
// ended the request that it was written for.
const permitLife = 2 * time.Minute

const (
	// usher is the requester in a permit where Usher evicts by itself.
	usher = "Usher"
	// several callers were let through for one pod, and each of their requests may still be under way.
	several = "several"
)

// permit writes down that the pod may go. It is written anew for each request, even where one stands already: the write
// is what proves that the status judged upon is the newest. Renewing leaves the epoch as it is. A member that lingers was
// removed without waiting for its end; that is written down even of one that is terminating, which counts only as long as
// its pod is there. A pod that is on no node has one as well, without a time to linger: it may be bound before the removal is carried out.
func (j *judgement) permit(by string, linger time.Duration) []Action {
	if j.idle() {
		linger = 0
	}
	if j.entry == nil || j.entry.role == nil || !j.entry.counted() || j.in.Pod.Finished() || (j.in.Pod.Terminating() && linger == 0) {
		return nil
	}
	status := statusOf(j.policy)
	entry := v1alpha1.Leaving{
		MemberRef: memberRef(j.entry.role.declared.Name, j.verdict.Member, j.in.Pod),
		StartTime: moment(j.in.Now), Requester: by, LingerSeconds: int64(linger / time.Second),
	}
	if at := permitOf(status.Leaving, entry.PodUID); at >= 0 {
		former := &status.Leaving[at]
		if former.Requester != by && former.Requester != "" && j.in.Now.Sub(former.StartTime.Time) < permitLife {
			entry.Requester = several
		}
		entry.LingerSeconds = max(entry.LingerSeconds, former.LingerSeconds)
		entry.Refused = former.Refused
		status.Leaving[at] = entry
	} else {
		status.Leaving = append(status.Leaving, entry)
		status.Epoch++
	}
	return []Action{j.policy.write(Permit, status, by+" may take "+j.in.Pod.Name+" away")}
}

// counted reports whether it matters which members of the role are on the way. Steps count as well: a permit that is written on the
// status also proves that no step is being taken back meanwhile. So do rules: several evictions at once must not pass on
// the same facts, and those that speak of `leaving` must see each other.
func (r *role) counted() bool {
	return r.atOnce > 0 || r.minReady > 0 || len(r.prepare) > 0 || len(r.evict) > 0
}

// RevokePermit takes back the permit of a pod whose eviction was refused to Usher itself: nothing of that request is under way any
// more. Written is the status that let it through, before the one that was judged upon. An earlier request of Usher's that was
// not answered may still be under way: the permit that stood for it stands again, until its own life is over. It returns false
// if there is no permit, or if that was written anew since, by or for another request, which may still succeed.
func RevokePermit(policy Declared, before, written *v1alpha1.EvictionPolicyStatus, uid types.UID, now time.Time) (Action, bool) {
	status := statusOf(&policy)
	at, own := permitOf(status.Leaving, uid), permitOf(written.Leaving, uid)
	if at < 0 || own < 0 || status.Leaving[at].Requester != usher || !status.Leaving[at].StartTime.Equal(&written.Leaving[own].StartTime) {
		return Action{}, false
	}
	why := "the eviction of " + status.Leaving[at].PodName + " was refused"
	if stood := standing(before, uid, now); stood != nil {
		status.Leaving[at] = *stood
		return policy.write(Settle, status, why+", and an earlier one may be under way"), true
	}
	status.Leaving = slices.Delete(status.Leaving, at, at+1)
	status.Epoch++
	return policy.write(Settle, status, why), true
}

// standing returns the permit of a pod that stands in a status, which may be nil, for an eviction that may be under way.
func standing(status *v1alpha1.EvictionPolicyStatus, uid types.UID, now time.Time) *v1alpha1.Leaving {
	if status == nil {
		return nil
	}
	at := permitOf(status.Leaving, uid)
	if at < 0 || now.Sub(status.Leaving[at].StartTime.Time) >= permitLife {
		return nil
	}
	return &status.Leaving[at]
}

// statusOf copies what decisions write of a status.
func statusOf(policy *Declared) *v1alpha1.EvictionPolicyStatus {
	if policy.Status == nil {
		return &v1alpha1.EvictionPolicyStatus{}
	}
	return &v1alpha1.EvictionPolicyStatus{
		Epoch:        policy.Status.Epoch,
		Leaving:      slices.Clone(policy.Status.Leaving),
		Departed:     slices.Clone(policy.Status.Departed),
		Emptied:      slices.Clone(policy.Status.Emptied),
		Replacing:    slices.Clone(policy.Status.Replacing),
		Preparations: slices.Clone(policy.Status.Preparations),
	}
}

// memberRef names a member that runs in a pod.
func memberRef(role, id string, pod *snapshot.Pod) v1alpha1.MemberRef {
	return v1alpha1.MemberRef{Role: role, ID: id, PodName: pod.Name, PodUID: pod.UID, Node: pod.Node}
}

func (d *Declared) write(kind ActionKind, status *v1alpha1.EvictionPolicyStatus, why string) Action {
	return Action{Kind: kind, Policy: d.Key, Version: d.Version, Status: status, Why: why}
}

// moment is a time as the API keeps it: in whole seconds.
func moment(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
