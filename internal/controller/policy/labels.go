package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/snapshot"
)

// reconcileLabels makes the labels of a namespace and of its pods say whether they are governed. Admission sees only what
// is labelled, so a namespace gets its label before its pods, and loses it after them.
func (s *reconciler) reconcileLabels(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	var namespace corev1.Namespace
	if err := s.client.Get(ctx, key.NamespacedName, &namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	enforced, audited, err := s.governing(ctx, namespace.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	next, err := s.label(ctx, &namespace, enforced, audited)
	err = errors.Join(err, s.audit(ctx, &namespace, audited))
	s.labelErrors.note(namespace.Name, err)
	again, failed := s.tolerate(ctx, namespace.Name, enforced)
	return reconcile.Result{RequeueAfter: sooner(next, again)}, errors.Join(err, failed)
}

// governing returns the policies of a namespace that can govern its pods, and those that can audit them.
func (s *reconciler) governing(ctx context.Context, namespace string) (enforced, audited []eviction.Declared, err error) {
	if s.Gatherer.Policies.Reserved(namespace) {
		return nil, nil, nil
	}
	policies, err := s.Gatherer.Policies.Policies(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	audits, err := s.Gatherer.Policies.Audited(ctx, namespace)
	return s.declared(policies), s.declared(audits), err
}

func (s *reconciler) label(ctx context.Context, namespace *corev1.Namespace, policies, audited []eviction.Declared) (next time.Duration, err error) {
	wanted := len(policies) > 0
	_, labelled := namespace.Labels[v1alpha1.GovernedLabel]
	if wanted && namespace.Labels[v1alpha1.GovernedLabel] != "true" {
		if err := accepted(s.Act.LabelNamespace(ctx, namespace.Name, namespace.UID, v1alpha1.GovernedLabel, true), "labelling namespace", namespace.Name); err != nil {
			return 0, err
		}
	}
	next, err = s.labelPods(ctx, namespace.Name, policies, audited)
	if err != nil || next > 0 || wanted || !labelled {
		return next, err
	}
	newest, err := s.newest(ctx, namespace.Name)
	if err != nil {
		return 0, err
	}
	if len(newest) > 0 {
		return replaceGrace, nil // the cache is behind
	}
	return 0, accepted(s.Act.LabelNamespace(ctx, namespace.Name, namespace.UID, v1alpha1.GovernedLabel, false), "labelling namespace", namespace.Name)
}

// labelPods labels what it can: one pod whose label is refused leaves no other unguarded. It returns when to
// look again at pods whose label stays for a moment, 0 if there are none.
func (s *reconciler) labelPods(ctx context.Context, namespace string, declared, audited []eviction.Declared) (next time.Duration, err error) {
	pods, err := s.Gatherer.Policies.Pods(ctx, namespace)
	if err != nil {
		return 0, err
	}
	var failed []error
	var unclaimed []*snapshot.Pod
	missing := map[string]bool{}
	for _, pod := range pods {
		label, labelled := pod.Labels[v1alpha1.PolicyLabel]
		if labelled && named(declared, label) == nil && named(audited, label) == nil {
			missing[label] = true
		}
		switch policy := eviction.GuardedBy(declared, pod); {
		case labelled == (policy != "") && label == eviction.LabelValue(policy):
		case policy == "":
			unclaimed = append(unclaimed, pod)
		default:
			failed = append(failed, accepted(s.Act.LabelPod(ctx, pod, policy), "labelling pod", pod.Name))
		}
	}
	next, err = s.release(ctx, namespace, unclaimed, declared, audited)
	s.missingPolicies.forget(func(a missingPolicy) bool { return a.namespace == namespace && !missing[a.label] })
	return next, errors.Join(append(failed, err)...)
}

// namespace reports whether admission finds a namespace by a label, and whether it is being deleted.
func (s *reconciler) namespace(ctx context.Context, name, label string) (guarded, ending bool, err error) {
	var namespace corev1.Namespace
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, &namespace); client.IgnoreNotFound(err) != nil {
		return false, false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return namespace.Labels[label] == "true", namespace.DeletionTimestamp != nil, nil
}

func (s *reconciler) declared(policies []*v1alpha1.EvictionPolicy) []eviction.Declared {
	declared := make([]eviction.Declared, len(policies))
	for i, policy := range policies {
		declared[i] = s.Gatherer.Policies.Declared(policy)
	}
	return declared
}

// accepted makes an error of what the apiserver refused. What is gone needs no label.
func accepted(answer answers.Answer, doing, name string) error {
	if answer.Code == answers.Accepted || answer.Code == answers.Gone {
		return nil
	}
	return fmt.Errorf("%s %s: %s: %s", doing, name, answer.Code, answer.Message)
}
