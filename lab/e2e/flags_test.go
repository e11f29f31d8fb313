package e2e

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/testlab"
)

func TestDisableEviction(t *testing.T) {
	t.Parallel()
	for _, tool := range both() {
		t.Run(tool.name, func(t *testing.T) {
			s := newStage(t)
			s.Deployment(t, s.ns, "web", 2, deploymentOn(s.node))
			s.MaxUnavailable(t, s.ns, "web", "0")
			s.settled(t, 2)
			tool.run(t, "drain", s.node, "--disable-eviction").wantCode(t, 0)
			same(t, "left", s.names(t), nil)
		})
	}
}

func TestGracePeriod(t *testing.T) {
	t.Parallel()
	for _, tool := range both() {
		t.Run(tool.name, func(t *testing.T) {
			s := newStage(t)
			s.Pod(t, s.ns, "a", podOn(s.node))
			s.settled(t, 1)
			tool.run(t, "drain", s.node, "--force", "--grace-period=7").wantCode(t, 0)
			if got := s.graceSeen(t, "a"); got != 7 {
				t.Errorf("the pod got %d s to end, want 7", got)
			}
		})
	}
}

// graceSeen is the grace that a pod of the app was given when it was deleted.
func (s *stage) graceSeen(t *testing.T, app string) int64 {
	t.Helper()
	for _, frame := range s.rec.seen(t) {
		for _, p := range frame {
			if p.app == app && p.terminating {
				return p.grace
			}
		}
	}
	t.Errorf("no pod of %s was deleted", app)
	return -1
}

func TestSkipWaitForDeleteTimeout(t *testing.T) {
	t.Parallel()
	for _, tool := range both() {
		t.Run(tool.name, func(t *testing.T) {
			s := newStage(t)
			s.Pod(t, s.ns, "stuck", podOn(s.node), annotated("lab.usher.sh/stuck", "true"))
			s.Pod(t, s.ns, "fine", podOn(s.node))
			s.settled(t, 2)
			err := s.Client().CoreV1().Pods(s.ns).Delete(t.Context(), "stuck", metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
			if err != nil {
				t.Fatal(err)
			}
			pass(t, podNow(t, s.Lab, s.ns, "stuck").DeletionTimestamp.Add(2*time.Second))
			tool.run(t, "drain", s.node, "--force", "--skip-wait-for-delete-timeout=1").wantCode(t, 0)
			same(t, "left", s.names(t), []string{"stuck"})
		})
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	for _, tool := range both() {
		for _, mode := range []string{"client", "server"} {
			t.Run(tool.name+" "+mode, func(t *testing.T) {
				s := newStage(t)
				s.Deployment(t, s.ns, "web", 2, deploymentOn(s.node))
				s.MaxUnavailable(t, s.ns, "web", "2")
				s.settled(t, 2)
				before, node := s.names(t), nodeNow(t, s.Lab, s.node)
				tool.run(t, "drain", s.node, "--dry-run="+mode).wantCode(t, 0).says(t, before...)
				same(t, "pods", s.names(t), before)
				after := nodeNow(t, s.Lab, s.node)
				if after.Spec.Unschedulable || after.Annotations["usher.sh/drain"] != node.Annotations["usher.sh/drain"] {
					t.Error("the node was changed")
				}
				same(t, "deleted", s.rec.ends(t, s.node), nil)
			})
		}
	}
}

// A script distinguishes a timeout from wrong usage by usher's exit code; kubectl has 1 for both.
func TestTimeout(t *testing.T) {
	t.Parallel()
	codes := map[string]int{"kubectl": 1, "usher": 3}
	for _, tool := range both() {
		t.Run(tool.name, func(t *testing.T) {
			s := held(t)
			tool.run(t, "drain", s.node, "--timeout=2s").wantCode(t, codes[tool.name])
			if left := s.names(t); len(left) != 3 {
				t.Errorf("%v are left, want all three", left)
			}
			if tool.name == "usher" {
				drainNode(t, s.node, "--timeout=2s").want(t, 3, "timeout")
			}
		})
	}
}

// held is a node with three pods under a budget that allows nothing until a pod is made ready: two of three, of which
// one is needed to be ready, are not.
func held(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.Deployment(t, s.ns, "db", 3)
	return s.hold(t)
}

// heldByName is the same with pods that come back under their names. They take a second to end: a budget that has not
// seen a pod end before the next of its name is there counts that one as disrupted for two minutes.
func heldByName(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.StatefulSet(t, s.ns, "db", 3, func(st *appsv1.StatefulSet) {
		st.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		st.Spec.Template.Annotations = map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": "1s"}
	})
	return s.hold(t)
}

func (s *stage) hold(t *testing.T) *stage {
	t.Helper()
	s.MaxUnavailable(t, s.ns, "db", "1")
	s.settled(t, 3)
	s.unready = s.names(t)[1:]
	for _, name := range s.unready {
		s.SetReady(t, s.ns, name, false)
	}
	s.awaitBudget(t, "db", func(allowed, healthy int32) bool { return allowed == 0 && healthy == 1 })
	return s
}

// release makes the pods ready again that hold made unready.
func (s *stage) release(t *testing.T) {
	t.Helper()
	s.Recover(t, s.ns, s.unready...)
}

func (s *stage) awaitBudget(t *testing.T, name string, done func(allowed, healthy int32) bool) {
	t.Helper()
	testlab.WaitFor(t, s.Budgets(s.ns), "budget "+name, func(all []*policyv1.PodDisruptionBudget) bool {
		for _, b := range all {
			if b.Name == name && done(b.Status.DisruptionsAllowed, b.Status.CurrentHealthy) {
				return true
			}
		}
		return false
	})
}
