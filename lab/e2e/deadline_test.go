package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/lab/testlab"
)

func TestDeadlineIsShownAndCutsGraces(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "slow", podOn(s.node), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(3600)) })
	s.settled(t, 1)
	usher(t, "drain", s.node, "--force", "--deadline=10m").wantCode(t, 0).
		says(t, "evict under the budgets", "start replacements first", "cut graces", "nothing is deleted past them (--at-deadline=stop)", "stop and report")
	if got := s.graceSeen(t, "slow"); got < 290 || got > 590 {
		t.Errorf("the pod got %d s to end, want what is left of 600 s but 10 s", got)
	}
}

func TestDeadlineStopsByDefault(t *testing.T) {
	t.Parallel()
	t.Run("what a budget holds stays", func(t *testing.T) {
		s := held(t)
		f := drainNode(t, s.node, "--deadline=20s", "--surge=never").want(t, 3, "deadline")
		if len(f.blockers("BudgetExhausted")) == 0 {
			t.Errorf("the blockers are not the end of it: %+v", f.End.Blockers)
		}
		same(t, "deleted", s.rec.ends(t, s.node), nil)
	})
	t.Run("a surge that came too late is taken back", func(t *testing.T) {
		s := held(t)
		p := start(t, "drain", s.node, "--deadline=20s")
		p.blocked(t, "SurgeStarting")
		p.wait(t).want(t, 3, "deadline")
		s.replicas(t, "db", 3)
		same(t, "deleted", s.rec.ends(t, s.node), nil)
	})
}

// What has ready siblings elsewhere goes first, what nothing replaces last. The deadline is as far away as gives each its
// longest share of time, 3 s: two whose turn is seen at once are deleted at once.
func TestDeadlineDeletesInSafetyOrder(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	other := s.Nodes(t, 1)[0]
	s.Deployment(t, s.ns, "1-sibling", 2, spread)
	s.MaxUnavailable(t, s.ns, "1-sibling", "0")
	s.Deployment(t, s.ns, "2-single", 1, deploymentOn(s.node))
	s.MaxUnavailable(t, s.ns, "2-single", "0")
	s.Deployment(t, s.ns, "3-data", 1, deploymentOn(s.node), func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	s.MaxUnavailable(t, s.ns, "3-data", "0")
	s.Pod(t, s.ns, "4-bare", podOn(s.node))
	s.MaxUnavailable(t, s.ns, "4-bare", "0")
	s.WaitReady(t, s.ns, nil, 5)
	s.rec = record(t, s.Lab, s.ns)
	drainNode(t, s.node, "--force", "--delete-emptydir-data", "--surge=never", "--deadline=2m", "--at-deadline=delete").want(t, 0, "drained")
	same(t, "order", s.rec.ends(t, s.node), []string{"1-sibling", "2-single", "3-data", "4-bare"})
	s.WaitReady(t, s.ns, testlab.Labels("1-sibling"), 2)
	if len(s.rec.left(t, other)) != 2 {
		t.Errorf("on the other node are %v, want the sibling and its new one", s.rec.left(t, other))
	}
}
