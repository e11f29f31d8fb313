package eviction

import (
	"slices"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// CordonUser is in whose name pods that stay are requested to be emptied while their nodes are cordoned.
const CordonUser = "cordon.usher.sh"

// CordonInput is what is known of a governed pod and of the cordon of its node.
type CordonInput struct {
	Policies []Declared
	Pod      *snapshot.Pod
	Node     *snapshot.Node // nil: there is none of the name
	// Standing is the request that was made for the cordon, nil where none stands.
	Standing *AdmissionRequest
}

// FollowCordon returns what is to be done so that a request stands for a pod exactly while its node is cordoned and its policy has it emptied
// then; nil: nothing. Where a selector cannot be read, what stands is left as it is.
func FollowCordon(in CordonInput) *Action {
	policy, emptied := emptiedOnCordon(in.Policies, in.Pod)
	wanted := emptied && in.Node != nil && in.Node.Unschedulable
	switch {
	case wanted == (in.Standing != nil):
	case wanted && !in.Pod.Terminating() && !in.Pod.Finished():
		return &Action{
			Kind: Request, Policy: policy, Pod: in.Pod.Key(), UID: in.Pod.UID, Requester: CordonUser,
			Why: "node " + in.Pod.Node + " is cordoned, and policy " + policy.Name + " has what the pod carries leave then (emptyOn: Cordon)",
		}
	case !wanted && !unread(in.Policies, in.Pod):
		return new(in.Standing.withdrawal(policy, "the node is not cordoned any more, or no policy has the pod emptied for it"))
	}
	return nil
}

// emptiedOnCordon returns the policy that has the pod emptied while its node is cordoned. One that is suspended or being deleted has nothing
// done. Where several entries claim the pod, one that says so is enough, as for whether it stays.
func emptiedOnCordon(policies []Declared, pod *snapshot.Pod) (snapshot.Key, bool) {
	all := claimants(policies, pod)
	at := slices.IndexFunc(all, func(c claimant) bool { return c.entry.cordon && !c.policy.Policy.suspended && !c.policy.Deleted })
	if at < 0 {
		return snapshot.Key{}, false
	}
	return all[at].policy.Key, true
}

// unread reports whether the policy that governs the pod by its label has a selector that cannot be read, and may still have the pod stay.
func unread(policies []Declared, pod *snapshot.Pod) bool {
	return slices.ContainsFunc(policies, func(d Declared) bool {
		return d.Policy.blindLoad && !d.Policy.suspended && !d.Deleted && pod.Labels[v1alpha1.PolicyLabel] == LabelValue(d.Key.Name)
	})
}

// notToBeEmptied reports whether a request stands that was made for the cordon of the node of a pod that no policy has emptied for it any more.
// It must not have the pod evicted: its policy may just have been changed.
func (in *ResponderInput) notToBeEmptied() bool {
	_, emptied := emptiedOnCordon(in.Policies, in.Pod)
	return !emptied && !unread(in.Policies, in.Pod) && slices.ContainsFunc(in.Requests, func(r AdmissionRequest) bool { return r.Empties })
}

func (in *ResponderInput) giveUpEmptying() []Action {
	var actions []Action
	for i := range in.Requests {
		if in.Requests[i].Empties {
			actions = append(actions, in.Requests[i].withdrawal(snapshot.Key{}, "no policy has the pod emptied for the cordon of its node any more"))
		}
	}
	return actions
}
