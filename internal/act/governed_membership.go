package act

import (
	"context"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
)

// Leave asks a policy's system to take a member off its list. RefusedForNow says what that waits for.
func (g *Governed) Leave(ctx context.Context, policy *v1alpha1.EvictionPolicy, entry *v1alpha1.MemberRegistration) answers.Answer {
	return membershipAnswer(g.Observer.Leave(ctx, g.Policies.Source(policy), entry))
}

// Join asks a policy's system to put the successor of a member that has left on its list, and to give it its part there. RefusedForNow says
// what that waits for.
func (g *Governed) Join(ctx context.Context, policy *v1alpha1.EvictionPolicy, predecessor *v1alpha1.MemberRegistration) answers.Answer {
	return membershipAnswer(g.Observer.Join(ctx, g.Policies.Source(policy), predecessor))
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
