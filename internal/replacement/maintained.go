package replacement

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// MaintenanceRequest returns the request for a member of a policy whose data is on a node that a maintenance deletes. Its name is by the maintenance,
// the node and the member, so that it is made once.
func MaintenanceRequest(policy *v1alpha1.EvictionPolicy, member v1alpha1.ReplacementMember, requester string, maintenance, node types.UID) *v1alpha1.ReplacementRequest {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%s/%s/%s", maintenance, node, member.Role, member.ID)
	q := &v1alpha1.ReplacementRequest{Spec: v1alpha1.ReplacementRequestSpec{
		Requester: requester, Source: v1alpha1.ReplacementSource{Kind: v1alpha1.SourceEvictionPolicy, Name: policy.Name}, Member: member,
	}}
	q.Namespace, q.Name = policy.Namespace, fmt.Sprintf("%.200s-%s", policy.Name, hex.EncodeToString(hash.Sum(nil)))
	q.Labels = map[string]string{v1alpha1.MaintainedNodeLabel: string(node)}
	return q
}
