package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/throwaway"
)

const (
	singles = 10          // Deployments of one replica, each under a budget that wants it
	never   = time.Minute // for which kubectl tries without a policy
)

// measureDeadlock drains single replicas with kubectl: with a policy it ends, without one it cannot.
func measureDeadlock(ctx context.Context, lab *throwaway.Lab, kubectl tool) (string, error) {
	fmt.Println("single replicas: draining with kubectl, with a policy and without")
	took, err := drainSingles(ctx, lab, kubectl, "singles-policy", true)
	if err != nil {
		return "", err
	}
	without, err := drainSingles(ctx, lab, kubectl, "singles-without", false)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("kubectl drain, single replicas: policy %.1f s, without: never (%.0f s)\n", took.Seconds(), without.Seconds()), nil
}

// drainSingles returns how long kubectl took. Without a policy it must end by its timeout, and with one before.
func drainSingles(ctx context.Context, lab *throwaway.Lab, kubectl tool, name string, governed bool) (time.Duration, error) {
	st, err := buildSingles(ctx, lab, name, governed)
	if err != nil {
		return 0, fmt.Errorf("building single replicas: %w", err)
	}
	limit := never
	if governed {
		limit = 5 * time.Minute
	}
	started := time.Now()
	output, err := exec.CommandContext(ctx, kubectl.path, "--kubeconfig", lab.Kubeconfig(), "drain", st.targets[0], "--ignore-daemonsets", "--timeout", limit.String()).CombinedOutput()
	took := time.Since(started)
	if governed != (err == nil) {
		return 0, fmt.Errorf("draining single replicas with kubectl, with a policy: %t: %w; it ended with:\n%s", governed, err, lastLines(output))
	}
	if governed {
		if err := st.removePolicy(ctx); err != nil {
			return 0, err
		}
	}
	return took, st.remove(ctx)
}

func buildSingles(ctx context.Context, lab *throwaway.Lab, name string, governed bool) (*stage, error) {
	st, err := newStage(ctx, lab, name, 1)
	if err != nil {
		return nil, err
	}
	for i := range singles {
		budget := policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))}
		if err := st.addDeployment(ctx, fmt.Sprintf("single-%d", i), 1, budget); err != nil {
			return nil, err
		}
	}
	if err := st.awaitBudgets(ctx, singles, 1); err != nil {
		return nil, err
	}
	if st.others, err = st.addNodes(ctx, "other", others); err != nil || !governed {
		return st, err
	}
	return st, st.addPolicy(ctx)
}

// addPolicy has the namespace's workloads surged for every drainer, and waits until it governs their pods.
func (st *stage) addPolicy(ctx context.Context) error {
	writer, _, err := st.lab.UsherClients()
	if err != nil {
		return err
	}
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: st.run, Name: "plain"},
		Spec: v1alpha1.EvictionPolicySpec{
			System: v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
			Members: []v1alpha1.MemberSelector{{
				Role: "workload", Deletes: v1alpha1.DeleteAllow, OwnerDeletes: v1alpha1.DeleteAllow,
				Selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: appLabel, Operator: metav1.LabelSelectorOpExists}}},
			}},
		},
	}
	if err := writer.Create(ctx, policy); err != nil {
		return fmt.Errorf("creating a policy: %w", err)
	}
	return st.awaitPolicies(ctx, func(all []*v1alpha1.EvictionPolicy) bool {
		return len(all) == 1 && all[0].Status.MemberCount == singles && all[0].Status.System.LastObservedTime != nil
	})
}

// removePolicy waits until what was done for the policy's pods is undone: a namespace that goes takes the policy with it as it is.
func (st *stage) removePolicy(ctx context.Context) error {
	writer, _, err := st.lab.UsherClients()
	if err != nil {
		return err
	}
	if err := writer.Delete(ctx, &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: st.run, Name: "plain"}}); err != nil {
		return fmt.Errorf("deleting a policy: %w", err)
	}
	return st.awaitPolicies(ctx, func(all []*v1alpha1.EvictionPolicy) bool {
		return len(all) == 0
	})
}

func (st *stage) awaitPolicies(ctx context.Context, done func([]*v1alpha1.EvictionPolicy) bool) error {
	_, watcher, err := st.lab.UsherClients()
	if err != nil {
		return err
	}
	policies := await.Source[*v1alpha1.EvictionPolicy]{Client: watcher, Resource: "evictionpolicies", Namespace: st.run}
	if err := await.Until(ctx, policies, done); err != nil {
		return fmt.Errorf("waiting for a policy: %w", err)
	}
	return nil
}
