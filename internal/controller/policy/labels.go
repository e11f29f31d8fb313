package policy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// reconcileLabels makes the labels of a namespace and of its pods say whether they are governed. Admission sees only what
// is labelled, so a namespace gets its label before its pods, and loses it after them.
func (s *shell) reconcileLabels(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	var namespace corev1.Namespace
	if err := s.client.Get(ctx, key.NamespacedName, &namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	policies, err := s.Gatherer.Book.Policies(ctx, namespace.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted := len(policies) > 0
	_, labelled := namespace.Labels[v1alpha1.GovernedLabel]
	if wanted && namespace.Labels[v1alpha1.GovernedLabel] != "true" {
		if err := accepted(s.Act.LabelNamespace(ctx, namespace.Name, namespace.UID, true), "labelling namespace", namespace.Name); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := s.labelPods(ctx, namespace.Name, policies); err != nil {
		return reconcile.Result{}, err
	}
	if labelled && !wanted {
		err = accepted(s.Act.LabelNamespace(ctx, namespace.Name, namespace.UID, false), "labelling namespace", namespace.Name)
	}
	return reconcile.Result{}, err
}

func (s *shell) labelPods(ctx context.Context, namespace string, policies []*v1alpha1.EvictionPolicy) error {
	pods, err := s.Gatherer.Book.Pods(ctx, namespace)
	if err != nil {
		return err
	}
	declared := s.declared(policies)
	for _, pod := range pods {
		policy := governor(declared, pod)
		if pod.Labels[v1alpha1.PolicyLabel] == act.PolicyLabelValue(policy) {
			continue
		}
		if err := accepted(s.Act.LabelPod(ctx, pod.Key(), pod.UID, policy), "labelling pod", pod.Name); err != nil {
			return err
		}
	}
	return nil
}

// guarded reports whether admission finds a namespace.
func (s *shell) guarded(ctx context.Context, name string) (bool, error) {
	var namespace corev1.Namespace
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, &namespace); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return namespace.Labels[v1alpha1.GovernedLabel] == "true", nil
}

func (s *shell) declared(policies []*v1alpha1.EvictionPolicy) []eviction.Declared {
	declared := make([]eviction.Declared, len(policies))
	for i, policy := range policies {
		declared[i] = s.Gatherer.Book.Declared(policy)
	}
	return declared
}

// governor returns the name of the policy whose label the pod carries, "" if none claims it. Where several do, the pod is
// governed all the same: it is blocked.
func governor(policies []eviction.Declared, pod *snapshot.Pod) string {
	if claims := eviction.Claims(policies, pod); len(claims) > 0 {
		return claims[0].Policy.Name
	}
	return ""
}

// accepted makes an error of what the apiserver refused. What is gone needs no label.
func accepted(answer drain.Answer, doing, name string) error {
	if answer.Code == drain.Accepted || answer.Code == drain.Gone {
		return nil
	}
	return fmt.Errorf("%s %s: %s: %s", doing, name, answer.Code, answer.Message)
}
