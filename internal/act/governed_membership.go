package act

import (
	"context"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/system"
)

// Leave asks a policy's system to take a member off its list. RefusedForNow says what that waits for.
func (g *Governed) Leave(ctx context.Context, policy *v1alpha1.EvictionPolicy, member system.Member, entry *v1alpha1.MemberRegistration) answers.Answer {
	return membershipAnswer(g.Observer.Leave(ctx, g.Policies.Source(policy), member, entry))
}

// Join asks a policy's system to put the successor of a member that has left on its list, and to give it its part there. RefusedForNow says
// what that waits for.
func (g *Governed) Join(ctx context.Context, policy *v1alpha1.EvictionPolicy, member system.Member, predecessor *v1alpha1.MemberRegistration) answers.Answer {
	return membershipAnswer(g.Observer.Join(ctx, g.Policies.Source(policy), member, predecessor))
}

func membershipAnswer(missing string, err error) answers.Answer {
	switch {
	case err != nil:
		return systemAnswer(err)
	case missing != "":
		return answers.Answer{Code: answers.RefusedForNow, Message: missing}
	}
	return answers.Answer{Code: answers.Accepted}
}
