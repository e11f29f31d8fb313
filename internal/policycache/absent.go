package policycache

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
)

// AbsentInput gathers what is known of a member of a policy that has no pod, as Input does. Members are read past the cache where the
// verdict rests on which are Ready. Gone says that nothing of it runs any more, wherever it was.
func (g *Gatherer) AbsentInput(ctx context.Context, policy *v1alpha1.EvictionPolicy, member v1alpha1.MemberRef, gone bool) (eviction.Input, error) {
	key := client.ObjectKeyFromObject(policy)
	in := eviction.Input{Fresh: true, Deleted: gone, Absent: &eviction.Absent{Policy: key, Member: member}}
	policies, err := g.Policies.Policies(ctx, policy.Namespace)
	if err != nil {
		return in, err
	}
	in.Policies = g.Policies.declaredAll(policies)
	if in.Peers, err = g.Policies.Pods(ctx, policy.Namespace); err != nil { // one of them may be the member's
		return in, err
	}
	claim, known := g.Policies.Compiled(policy).ClaimOf(member.Role, member.ID)
	if known {
		claim.Policy = key
		if in.Rosters, err = g.rosters(ctx, true, in.Policies, []eviction.Claim{claim}); err != nil {
			return in, err
		}
		in.Evidence = g.evidence(ctx, policies, claim, true)
	}
	in.Now = g.Now()
	return in, nil
}
