package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// Drained is not the same as recovered: with nowhere else to go the pods are gone and nothing has come back.
func TestReplacementsAreReported(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 2)
	s.settled(t, 2)
	f := drainNode(t, s.node, "--surge=never").want(t, 0, "drained")
	if f.End.Gone != 2 || len(f.End.NotReplaced) != 2 {
		t.Errorf("gone %d, not replaced %+v; want 2 of each", f.End.Gone, f.End.NotReplaced)
	}
	usher(t, "uncordon", s.node).wantCode(t, 0)
	s.WaitReady(t, s.ns, nil, 2)
}

func TestWaitReplaced(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 2)
	s.StatefulSet(t, s.ns, "db", 2, func(st *appsv1.StatefulSet) { st.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	s.settled(t, 4)
	p := start(t, "drain", s.node, "--surge=never", "--wait=replaced")
	b := p.blocked(t, "NotReplaced")
	contains(t, b.Remedy, "kubectl describe")
	p.await(t, "why the replacement is not ready", func(e event) bool {
		return e.Blocker != nil && e.Blocker.Reason == "NotReplaced" && len(e.Blocker.Message) > 60
	})
	s.Nodes(t, 1)
	f := p.wait(t).want(t, 0, "drained")
	if len(f.End.NotReplaced) != 0 {
		t.Errorf("it ended before these were replaced: %+v", f.End.NotReplaced)
	}
	s.WaitReady(t, s.ns, nil, 4)
}
