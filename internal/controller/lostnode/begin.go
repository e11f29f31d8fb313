package lostnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/lostnode"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/system"
)

// Role is the optional ClusterRole without which nothing is fenced.
const Role = "usher-lost-nodes"

// refusedAgain is how long after a refusal a fence is tried to be made again.
const refusedAgain = time.Minute

// begin looks at all nodes.
func (r *reconciler) begin(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	survey, err := r.survey(ctx, r.client)
	if err != nil || len(survey.Policies) == 0 {
		return reconcile.Result{}, err
	}
	plan := lostnode.Begin(survey)
	if len(plan.Ask) > 0 {
		// What the cache shows speaks for a fence. It is looked at afresh: of one that was begun a moment ago a cache may not know.
		if survey, err = r.survey(ctx, r.live); err != nil {
			return reconcile.Result{}, err
		}
		survey.Leases = map[string]lostnode.Lease{}
		for _, node := range plan.Ask {
			survey.Leases[node] = r.lease(ctx, node)
		}
		plan = lostnode.Begin(survey)
	}
	refused := map[string]string{}
	for _, fence := range plan.Begin {
		if answer := r.Act.Begin(ctx, fence); answer.Code != answers.Accepted {
			refused[fence.Spec.Policy] = r.refusal(fence, answer)
		}
	}
	err = r.report(ctx, &survey, &plan, refused)
	return reconcile.Result{RequeueAfter: again(&survey, &plan, len(refused) > 0)}, err
}

func again(survey *lostnode.Survey, plan *lostnode.Plan, refused bool) time.Duration {
	var after time.Duration
	if !plan.NextLook.IsZero() {
		after = max(time.Second, plan.NextLook.Sub(survey.Now))
	}
	if len(plan.Ask) > 0 { // a node that was not asked about before the second look
		after = time.Second
	}
	if refused && (after == 0 || after > refusedAgain) {
		after = refusedAgain
	}
	return after
}

// refusal says what a person can do where a fence cannot be made.
func (r *reconciler) refusal(fence *v1alpha1.NodeFence, answer answers.Answer) string {
	text := fmt.Sprintf("node %s is lost, and its fence cannot be made: %s", fence.Spec.NodeName, answer.Message)
	if answer.Code != answers.Forbidden {
		return text
	}
	return text + ". " + r.binding()
}

// binding is how an admin gives the manager the rights that it lacks.
func (r *reconciler) binding() string {
	return "Allow it: " + observe.BindManager(Role, r.Self)
}

// survey reads all nodes, policies and fences.
func (r *reconciler) survey(ctx context.Context, from client.Reader) (lostnode.Survey, error) {
	var policies v1alpha1.LostNodePolicyList
	var fences v1alpha1.NodeFenceList
	var nodes corev1.NodeList
	if err := from.List(ctx, &policies); err != nil {
		return lostnode.Survey{}, fmt.Errorf("listing policies of lost nodes: %w", err)
	}
	if err := from.List(ctx, &fences); err != nil {
		return lostnode.Survey{}, fmt.Errorf("listing fences: %w", err)
	}
	if len(policies.Items) > 0 {
		if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
			return lostnode.Survey{}, fmt.Errorf("listing nodes: %w", err)
		}
	}
	survey := lostnode.Survey{Now: r.Now()}
	for i := range policies.Items {
		survey.Policies = append(survey.Policies, policyFacts(&policies.Items[i]))
	}
	for i := range fences.Items {
		survey.Fences = append(survey.Fences, &fences.Items[i])
	}
	for i := range nodes.Items {
		survey.Nodes = append(survey.Nodes, observe.LostNodeFacts(&nodes.Items[i]))
	}
	return survey, nil
}

// policyFacts says of a policy whether its fence can be used.
func policyFacts(policy *v1alpha1.LostNodePolicy) lostnode.Policy {
	facts := lostnode.Policy{Object: policy}
	switch fence, err := newFence(&policy.Spec.Fence, system.Access{}); {
	case errors.Is(err, errNotCalled): // it waits for a person
	case err != nil:
		facts.Problem = "spec." + err.Error()
	default:
		fence.Close()
	}
	return facts
}

// report writes what is seen into the policies' status, where it is not there.
func (r *reconciler) report(ctx context.Context, survey *lostnode.Survey, plan *lostnode.Plan, refused map[string]string) error {
	var failed []error
	for i := range survey.Policies {
		policy := &survey.Policies[i]
		status := lostnode.PolicyStatus(policy, &plan.Reports[i], refused[policy.Object.Name], survey.Now)
		if equality.Semantic.DeepEqual(status, policy.Object.Status) {
			continue
		}
		if answer := r.Act.WriteLostNodePolicy(ctx, policy.Object, &status); answer.Code != answers.Accepted && answer.Code != answers.Gone {
			failed = append(failed, fmt.Errorf("writing the status of policy %s: %s", policy.Object.Name, cmp.Or(answer.Message, string(answer.Code))))
		}
	}
	return errors.Join(failed...)
}
