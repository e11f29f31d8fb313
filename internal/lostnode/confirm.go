package lostnode

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// livelySilence is how long a kubelet that works renews its Lease at the latest.
const livelySilence = 40 * time.Second

// Confirm returns the fence in which a person's word that a machine is off is recorded: the one of this silence, or a new one. Where the
// word cannot be taken it returns why, a sentence with what to do.
func Confirm(node *Node, lease Lease, fences []*v1alpha1.NodeFence, requester string, now time.Time) (fence *v1alpha1.NodeFence, why string) {
	silent, known := lease.silence(now)
	switch {
	case !node.Unreachable():
		return nil, fmt.Sprintf("node %s is not lost: its condition Ready is %q, not Unknown. Cut the machine's power, and wait until Kubernetes finds the node unreachable, about a minute later", node.Name, node.Ready)
	case known && silent < livelySilence:
		return nil, fmt.Sprintf("node %s is not lost: %s. Cut the machine's power first", node.Name, renewed(node.Name, silent))
	case node.BootID == "":
		return nil, fmt.Sprintf("which boot node %s is in is not known (status.nodeInfo.bootID), so its return could not be noticed. Where the machine is gone for good: kubectl delete node %s", node.Name, node.Name)
	}
	fence = NewFence(node, "")
	if at := slices.IndexFunc(fences, func(f *v1alpha1.NodeFence) bool { return sameSilence(f, node) }); at >= 0 {
		fence = fences[at].DeepCopy()
	}
	switch s := &fence.Status; {
	case s.Over():
		return nil, fmt.Sprintf("fence %s of this silence is over (%s: %s). To begin anew: kubectl delete nodefence %s", fence.Name, s.Step, fenceWords(fence), fence.Name)
	case s.ProvenTime != nil:
		return nil, fmt.Sprintf("node %s is proven off already, by %s: nothing is to be recorded", node.Name, s.ProvenBy)
	case fence.Spec.Confirmation != nil:
		return nil, fmt.Sprintf("%s has said so already, at %s: %s", fence.Spec.Confirmation.Requester, fence.Spec.Confirmation.Time.UTC().Format(time.RFC3339), fenceWords(fence))
	}
	fence.Spec.Confirmation = &v1alpha1.FenceConfirmation{Requester: requester, Time: metav1.NewTime(now.UTC().Truncate(time.Second))}
	return fence, ""
}
