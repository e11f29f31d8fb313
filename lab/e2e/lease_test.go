package e2e

import (
	"strings"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/internal/snapshot"
)

// leaseOf is the Lease of a drain, nil where there is none.
func (s *stage) leaseOf(t *testing.T, id string) *coordinationv1.Lease {
	t.Helper()
	lease, err := s.Client().CoordinationV1().Leases(snapshot.LeaseNamespace).Get(t.Context(), snapshot.LeaseName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// The Lease of a killed drain goes with what the next one undoes, and its own with its end. Not parallel: every usher deletes that of a
// killed drain.
func TestLeasesOfDrains(t *testing.T) {
	s := held(t)
	p := start(t, "drain", s.node)
	p.blocked(t, "BudgetExhausted")
	record := s.note(t)
	lease := s.leaseOf(t, record.ID)
	if lease == nil || !record.Lease || !strings.HasPrefix(*lease.Spec.HolderIdentity, record.By+"/") || *lease.Spec.LeaseDurationSeconds != 60 {
		t.Fatalf("lease %+v, record %+v", lease, record)
	}
	p.signal(t, syscall.SIGKILL)
	<-p.ended
	if s.leaseOf(t, record.ID) == nil {
		t.Error("a killed drain leaves its Lease")
	}
	s.Nodes(t, 1)
	s.release(t)
	drainNode(t, s.node).want(t, 0, "drained")
	for what, id := range map[string]string{"the killed drain": record.ID, "the drain that went on": s.note(t).ID} {
		if s.leaseOf(t, id) != nil {
			t.Errorf("the Lease of %s is left", what)
		}
	}
}

// TestUncordonDeletesTheLease: so does giving the node back. Not parallel, for the same reason.
func TestUncordonDeletesTheLease(t *testing.T) {
	s := held(t)
	p := start(t, "drain", s.node)
	p.blocked(t, "BudgetExhausted")
	p.signal(t, syscall.SIGKILL)
	<-p.ended
	id := s.note(t).ID
	usher(t, "uncordon", s.node).wantCode(t, 0)
	if s.leaseOf(t, id) != nil {
		t.Error("the Lease is left")
	}
}

// TestDrainWithoutLeases drains as a user who may do what kubectl drain needs, and read budgets.
func TestDrainWithoutLeases(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 1)
	s.settled(t, 1)
	_, kubeconfig := s.As(t, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: []string{"list", "watch"}},
	})
	s.Nodes(t, 1)
	usherIn(t, kubeconfig, "drain", s.node, "--force").wantCode(t, 0).says(t, "signs of life are kept on each node, not in a Lease: ")
	if r := s.note(t); r == nil || r.Lease || s.leaseOf(t, r.ID) != nil {
		t.Errorf("the record is %+v", r)
	}
}
