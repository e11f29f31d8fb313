package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// warnings are what is no mistake by itself and not what its author can want.
func (h *policyHandler) warnings(ctx context.Context, namespace string, policy *v1alpha1.EvictionPolicy) []string {
	var list v1alpha1.EvictionPolicyList
	if err := h.Reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return []string{"usher could not compare this policy with the others of its namespace: " + err.Error()}
	}
	others := slices.DeleteFunc(list.Items, func(other v1alpha1.EvictionPolicy) bool {
		return other.Name == policy.Name || other.Spec.Audited() != policy.Spec.Audited() // what is only audited gets in no policy's way
	})
	warnings := claimsTwice(policy, others)
	for i := range others {
		if at := h.shared(namespace, policy, &others[i]); at != "" {
			warnings = append(warnings, fmt.Sprintf("policies %s and %s ask the same system (%s), and neither counts the members that the other lets go: "+
				"put all members of a system into one policy", policy.Name, others[i].Name, at))
		}
	}
	if limits := &policy.Spec.Evidence; limits.MaxAge.Duration > 0 && limits.MaxAge.Duration < limits.Timeout.Duration {
		warnings = append(warnings, fmt.Sprintf("spec.evidence.maxAge (%s) is shorter than spec.evidence.timeout (%s): what the system says after more than %s is too old when it comes",
			limits.MaxAge.Duration, limits.Timeout.Duration, limits.MaxAge.Duration))
	}
	return slices.Concat(warnings, h.sharedLabel(ctx, namespace, policy), h.lostSteps(policy))
}

// sharedLabel says what comes of two policies whose waiters have the same label on nodes. Of another namespace's no more is said than that there is one.
func (h *policyHandler) sharedLabel(ctx context.Context, namespace string, policy *v1alpha1.EvictionPolicy) []string {
	lock := policy.Spec.NodeLock
	if lock == nil || lock.Waiter == "" || policy.Spec.Audited() {
		return nil
	}
	var list v1alpha1.EvictionPolicyList
	if err := h.Reader.List(ctx, &list); err != nil {
		return []string{"usher could not compare this policy's nodeLock with others: " + err.Error()}
	}
	for i := range list.Items {
		other := &list.Items[i]
		with := other.Spec.NodeLock
		if with == nil || with.Waiter == "" || with.StateLabel != lock.StateLabel || other.Spec.Audited() || other.Namespace == namespace && other.Name == policy.Name {
			continue
		}
		who := "policy " + other.Name
		if other.Namespace != namespace {
			who = "a policy of another namespace"
		}
		return []string{fmt.Sprintf("%s has a waiter with the same spec.nodeLock.stateLabel (%s): on a node with both it is %q only while both do their work, and %q while either is to leave",
			who, lock.StateLabel, v1alpha1.NodeLockServes, v1alpha1.NodeLockLeaves)}
	}
	return nil
}

// lostSteps names what was begun by steps that the policy's system has no more.
func (h *policyHandler) lostSteps(policy *v1alpha1.EvictionPolicy) []string {
	kind, ok := h.Kind(&policy.Spec.System)
	if !ok {
		return nil
	}
	steps := kind.Declaration(&policy.Spec.System).Steps
	var warnings []string
	for i := range policy.Status.Preparations {
		begun := &policy.Status.Preparations[i]
		if _, known := steps[begun.Name]; !known {
			warnings = append(warnings, fmt.Sprintf("%s of %s was begun and the policy has no such step any more, so that it is not taken back by its undo: "+
				"keep the step until then, or see to it in the system", begun.Name, begun.ID))
		}
	}
	return warnings
}

// claimsTwice names entries that claim the same pods for certain. Those that overlap otherwise show only in the pods, and
// then in the policies' status.
func claimsTwice(policy *v1alpha1.EvictionPolicy, others []v1alpha1.EvictionPolicy) []string {
	claimed := map[string]string{} // selector -> the entry that has it
	for i := range others {
		maps.Insert(claimed, selectors(&others[i]))
	}
	var warnings []string
	for selector, entry := range selectors(policy) {
		if other, ok := claimed[selector]; ok {
			warnings = append(warnings, fmt.Sprintf("%s and %s have the same selector (%s): their pods will be blocked until only one of them claims them", entry, other, selector))
		}
		claimed[selector] = entry
	}
	return slices.Compact(warnings)
}

// selectors yields the selector and the place of each entry.
func selectors(policy *v1alpha1.EvictionPolicy) func(yield func(selector, entry string) bool) {
	return func(yield func(selector, entry string) bool) {
		for i := range policy.Spec.Members {
			selector := metav1.FormatLabelSelector(&policy.Spec.Members[i].Selector)
			if !yield(selector, fmt.Sprintf("spec.members[%d] of policy %s", i, policy.Name)) {
				return
			}
		}
	}
}

// shared is where both policies find their system, "" if they name no place in common.
func (h *policyHandler) shared(namespace string, a, b *v1alpha1.EvictionPolicy) string {
	of := h.places(namespace, &b.Spec.System)
	for _, place := range h.places(namespace, &a.Spec.System) {
		if slices.Contains(of, place) {
			return place
		}
	}
	return ""
}

// places are the hosts and ports of a system, each in one way of writing.
func (h *policyHandler) places(namespace string, spec *v1alpha1.System) []string {
	kind, ok := h.Kind(spec)
	if !ok {
		return nil
	}
	refers := kind.ReferencesOf(spec)
	access := refers.Access
	if access == nil {
		access = &v1alpha1.Access{}
	}
	var all []string
	for _, endpoint := range slices.Concat(access.Endpoints, refers.Endpoints) {
		if parsed, err := url.Parse(endpoint); err == nil && parsed.Host != "" {
			all = append(all, place(namespace, parsed.Hostname(), parsed.Port()))
		}
	}
	if service := access.Service; service != nil {
		all = append(all, place(namespace, service.Name, strconv.Itoa(int(service.Port))))
	}
	return all
}

// place leaves out what says no more than that a Service is in this namespace.
func place(namespace, host, port string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	name, rest, found := strings.Cut(host, "."+namespace)
	if found && (rest == "" || rest == ".svc" || strings.HasPrefix(rest, ".svc.")) {
		host = name
	}
	return host + ":" + port
}
