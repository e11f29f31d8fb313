package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
)

type finalizerPatch struct {
	Metadata finalizerMeta `json:"metadata"`
}

type finalizerMeta struct {
	ResourceVersion string   `json:"resourceVersion"`
	Finalizers      []string `json:"finalizers"`
}

// HoldPolicy puts the finalizer on a policy, or takes it off; where it is so already nothing is sent. It insists on the
// version of the policy that was decided upon.
func (g *Governed) HoldPolicy(ctx context.Context, policy *v1alpha1.EvictionPolicy, hold bool) answers.Answer {
	if slices.Contains(policy.Finalizers, v1alpha1.UndoFinalizer) == hold {
		return answers.Answer{Code: answers.Accepted}
	}
	_, err := g.holdPolicy(ctx, policy, hold)
	return answers.Of(err)
}

// hold holds the policy as it was decided upon.
func (g *Governed) hold(ctx context.Context, action eviction.Action) answers.Answer {
	policy, err := g.Policies.Policy(ctx, action.Policy)
	switch {
	case err != nil:
		return answers.Of(err)
	case policy.ResourceVersion != action.Version:
		return answers.Answer{Code: answers.Conflict}
	}
	return g.HoldPolicy(ctx, policy, true)
}

// holdFor holds a policy before a permit is written in it that its deletion would have to wait for, and returns the version upon which
// that is to be written: the finalizers are all that differs from the one that was decided upon. The replica that lets a member go does
// so, because none may lead until the policy is deleted. An apiserver that refuses the finalizer keeps no member. A policy that is being
// deleted takes no finalizer: without it the permit may vanish the next moment, so none is written while that is to be expected.
func (g *Governed) holdFor(ctx context.Context, action eviction.Action) (version string, err error) {
	policy, err := g.Policies.Policy(ctx, action.Policy)
	if err != nil {
		return "", err
	}
	if policy.ResourceVersion != action.Version || slices.Contains(policy.Finalizers, v1alpha1.UndoFinalizer) {
		return action.Version, nil
	}
	after := g.Policies.Declared(policy)
	after.Status = action.Status
	if len(eviction.SettlingMembers(&after, time.Time{}, nil)) == 0 && len(action.Status.Replacing) == 0 {
		return action.Version, nil
	}
	if policy.DeletionTimestamp != nil {
		return action.Version, g.vanishes(policy)
	}
	changed, err := g.holdPolicy(ctx, policy, true)
	switch {
	case apierrors.IsConflict(err):
		return "", err
	case changed == nil:
		return action.Version, nil
	}
	return changed.ResourceVersion, nil
}

// vanishing is how long a policy that is being deleted, and has others' finalizers alone, is expected to go any moment. A foreground
// deletion takes seconds; where a finalizer stays for longer, it keeps no member.
const vanishing = 2 * time.Minute

// vanishingError refuses a permit that would go with its policy.
type vanishingError struct{ why string }

// Error implements error.
func (e *vanishingError) Error() string { return e.why }

// permitAnswer distinguishes a policy that vanishes from an apiserver that is busy: both refuse a permit for now.
func permitAnswer(err error) answers.Answer {
	if vanishes, ok := errors.AsType[*vanishingError](err); ok {
		return answers.Answer{Code: answers.RefusedForNow, Message: vanishes.why, Vanishing: true}
	}
	return answers.Of(err)
}

// vanishes says why a permit that is written now may go with its policy, nil where that is not to be expected.
func (g *Governed) vanishes(policy *v1alpha1.EvictionPolicy) error {
	until := policy.DeletionTimestamp.Add(vanishing)
	if !g.Now().Before(until) {
		return nil
	}
	return &vanishingError{fmt.Sprintf(
		"policy %s/%s is being deleted and may go any moment, and the permit with it: only others' finalizers are on it (%s); "+
			"wait until it is gone, or until %s, or take them off; annotation %s on the pod lets it go before",
		policy.Namespace, policy.Name, strings.Join(policy.Finalizers, ", "), until.UTC().Format(time.RFC3339), v1alpha1.BreakGlassAnnotation)}
}

// holdPolicy returns the policy as it is then, nil if nothing was written.
func (g *Governed) holdPolicy(ctx context.Context, policy *v1alpha1.EvictionPolicy, hold bool) (*v1alpha1.EvictionPolicy, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	finalizers := slices.DeleteFunc(slices.Clone(policy.Finalizers), func(f string) bool { return f == v1alpha1.UndoFinalizer })
	if hold {
		finalizers = append(finalizers, v1alpha1.UndoFinalizer)
	}
	body, err := json.Marshal(finalizerPatch{finalizerMeta{ResourceVersion: policy.ResourceVersion, Finalizers: finalizers}})
	if err != nil {
		return nil, fmt.Errorf("writing a policy's finalizers: %w", err)
	}
	changed := &v1alpha1.EvictionPolicy{}
	changed.Namespace, changed.Name = policy.Namespace, policy.Name
	if err := g.Client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)); err != nil {
		return nil, err
	}
	g.Policies.Observe(changed)
	if hold && !slices.Contains(changed.Finalizers, v1alpha1.UndoFinalizer) {
		return changed, fmt.Errorf("the apiserver took the finalizer %s and did not keep it: another admission webhook takes it off", v1alpha1.UndoFinalizer)
	}
	return changed, nil
}
