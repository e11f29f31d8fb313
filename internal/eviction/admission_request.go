package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/snapshot"
)

// AdmissionRequest is an EvictionRequest that admission made in a caller's name.
type AdmissionRequest struct {
	Pod       snapshot.Key
	UID       types.UID
	Requester string
	Asked     time.Time // when the caller asked last
	ByOwner   bool      // the caller is the controller of pods of some kind
	// Held: what made the caller ask stands still, and it will not ask again: a NoExecute taint on the pod's node.
	Held bool
	// Empties: it is made for the cordon of the pod's node. The pod is to be emptied for it, and never evicted; who made it withdraws it.
	Empties bool
}

// A request that admission made stands so long after its caller has asked last. A time that lies as far in the future is not believed: it
// is an annotation, which the namespace's users may write. Controllers of pods ask again after 1000 s at the latest, which is the longest
// back-off of their queues.
const (
	callerRequestLife = 10 * time.Minute
	ownerRequestLife  = 20 * time.Minute
)

func requestLife(byOwner bool) time.Duration {
	if byOwner {
		return ownerRequestLife
	}
	return callerRequestLife
}

// Expire returns the withdrawal of a request whose caller has given up, or does not own the pod any more; nil if it stands, with the time
// from when on it will not if nothing happens, zero: there is none. The pod is that of the request's UID, nil if it is not known.
func (r *AdmissionRequest) Expire(pod *snapshot.Pod, now time.Time) (*Action, time.Time) {
	if r.Held || r.Empties {
		return nil, time.Time{}
	}
	why := r.Requester + " has not asked again"
	if r.ByOwner && pod != nil && pod.Owner.Kind == "" {
		why = "no controller owns the pod any more, so that none would replace it"
	} else if end := r.Asked.Add(requestLife(r.ByOwner)); now.Before(end) && r.Asked.Sub(now) < requestLife(r.ByOwner) {
		return nil, end
	}
	return new(r.withdrawal(snapshot.Key{}, why)), time.Time{}
}

func (r *AdmissionRequest) withdrawal(policy snapshot.Key, why string) Action {
	return Action{Kind: Withdraw, Policy: policy, Pod: r.Pod, UID: r.UID, Requester: r.Requester, Why: why}
}
