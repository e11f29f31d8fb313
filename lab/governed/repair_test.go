package governed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/lab/await"
	"usher.sh/usher/lab/testlab"
)

// repairedAfter has unhealthy members replaced after a time.
func repairedAfter(d time.Duration) func(*v1alpha1.EvictionPolicySpec) {
	return func(s *v1alpha1.EvictionPolicySpec) {
		s.Repair = &v1alpha1.Repair{Mode: v1alpha1.RepairAutomatic, UnhealthyAfter: &metav1.Duration{Duration: d}}
	}
}

// replacementIsMadeByRepair: a node with a local volume is gone for good, and no request is made by a person.
func (h *house) replacementIsMadeByRepair(t *testing.T) {
	t.Parallel()
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db", repairedAfter(10*time.Second))
	lost := l.pods[2]
	h.removeNode(t, lost)
	q := h.waitRepair(t, l.ns, "the member to be replaced", isReplaced)
	if q.Spec.Requester != "usher.sh/repair" || q.Spec.Member.ID != lost.Name || len(q.OwnerReferences) != 1 {
		t.Errorf("the request is %+v of %+v", q.Spec, q.OwnerReferences)
	}
	now := h.lab.WaitReady(t, l.ns, testlab.Labels("db"), 3)
	if at := slices.IndexFunc(now, func(p *corev1.Pod) bool { return p.Name == lost.Name }); now[at].Spec.NodeName != l.spare {
		t.Errorf("the successor is on %s, want %s", now[at].Spec.NodeName, l.spare)
	}
	h.waitPolicy(t, l.ns, "db", "the policy to say that all are well", func(p *v1alpha1.EvictionPolicy) bool { return len(p.Status.Unhealthy) == 0 })
}

// repairHeedsACancellation: a person deletes the request for a member whose node is silent. None is made before it has been unhealthy for as long
// again, and the node comes back meanwhile.
func (h *house) repairHeedsACancellation(t *testing.T) {
	t.Parallel()
	l := h.local(t, "db")
	h.governReplicas(t, l.ns, "db", repairedAfter(20*time.Second))
	lost := l.pods[2]
	h.lab.SetReady(t, l.ns, lost.Name, false)
	h.lab.NodeLost(t, lost.Spec.NodeName)
	q := h.waitRepair(t, l.ns, "a request that waits for a proof", waitsFor("NodeNotProvenOff"))
	must(t, h.client.Delete(t.Context(), q))
	h.waitPolicy(t, l.ns, "db", "the policy to say that the request was withdrawn", func(p *v1alpha1.EvictionPolicy) bool {
		return len(p.Status.Unhealthy) == 1 && p.Status.Unhealthy[0].ID == lost.Name && p.Status.Unhealthy[0].RequestEndTime != nil && p.Status.Unhealthy[0].Request == ""
	})
	withdrawn := time.Now()
	again := h.waitRepair(t, l.ns, "another request", func(other *v1alpha1.ReplacementRequest) bool { return other.UID != q.UID })
	if passed := again.CreationTimestamp.Sub(withdrawn); passed < 15*time.Second {
		t.Errorf("another request was made after %s", passed)
	}
	must(t, h.client.Delete(t.Context(), again))
}

// waitRepair waits for a request of the namespace that repair has made.
func (h *house) waitRepair(t *testing.T, ns, what string, is func(*v1alpha1.ReplacementRequest) bool) *v1alpha1.ReplacementRequest {
	t.Helper()
	var found *v1alpha1.ReplacementRequest
	t.Cleanup(func() {
		if t.Failed() {
			var policies v1alpha1.EvictionPolicyList
			_ = h.client.List(context.WithoutCancel(t.Context()), &policies, client.InNamespace(ns))
			for i := range policies.Items {
				t.Logf("unhealthy: %+v", policies.Items[i].Status.Unhealthy)
			}
		}
	})
	requests := await.Source[*v1alpha1.ReplacementRequest]{Client: h.policies, Resource: "replacementrequests", Namespace: ns}
	testlab.WaitFor(t, requests, what, func(all []*v1alpha1.ReplacementRequest) bool {
		for _, q := range all {
			if is(q) {
				found = q
				return true
			}
		}
		return false
	})
	return found
}

// repairIsRefused: who may not delete claims has no policy delete them.
func (h *house) repairIsRefused(t *testing.T) {
	ns := h.lab.Namespace(t)
	config, _ := h.lab.As(t, []rbacv1.PolicyRule{
		{APIGroups: []string{"usher.sh"}, Resources: []string{"evictionpolicies"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}},
	})
	tenant, err := client.New(config, client.Options{Scheme: h.client.Scheme()})
	must(t, err)
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: v1alpha1.EvictionPolicySpec{
		System:  v1alpha1.System{Kubernetes: &v1alpha1.Kubernetes{}},
		Members: []v1alpha1.MemberSelector{{Role: "replica", Selector: metav1.LabelSelector{MatchLabels: testlab.Labels("db")}}},
	}}
	repairedAfter(time.Hour)(&policy.Spec)
	err = tenant.Create(t.Context(), policy)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not delete persistentvolumeclaims in namespace "+ns) {
		t.Errorf("a tenant that may not delete claims is answered: %v", err)
	}
	policy.Spec.Repair.Mode = v1alpha1.RepairDisabled
	if err := tenant.Create(t.Context(), policy); err != nil {
		t.Errorf("a policy that only says what is unhealthy: %v", err)
	}
}
