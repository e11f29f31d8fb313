package e2e

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// special is one pod for each filter, and one that none minds.
func special(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.StatefulSet(t, s.ns, "web", 1, func(st *appsv1.StatefulSet) { hostOnly(&st.Spec.Template.Spec, s.node) })
	s.DaemonSet(t, s.ns, "agent", daemonSetOn(s.node))
	s.Pod(t, s.ns, "bare", podOn(s.node))
	s.Pod(t, s.ns, "scratch", podOn(s.node), withEmptyDir)
	s.Pod(t, s.ns, "static", podOn(s.node), annotated(corev1.MirrorPodAnnotationKey, "x"))
	return s.settled(t, 5)
}

func TestFiltersObject(t *testing.T) {
	t.Parallel()
	t.Run("kubectl names one objection a pod and leaves the node cordoned", func(t *testing.T) {
		s := special(t)
		kubectl(t, "drain", s.node).wantCode(t, 1).says(t, "bare", "agent")
		if !s.cordoned(t) {
			t.Error("the node is not cordoned")
		}
	})
	t.Run("usher names every objection and changes nothing", func(t *testing.T) {
		s := special(t)
		before := s.names(t)
		f := drainNode(t, s.node).want(t, 2, "blocked")
		var got []string
		for _, b := range f.End.Blockers {
			got = append(got, b.Reason+" "+b.Pod[:4])
		}
		slices.Sort(got)
		same(t, "objections", got, []string{
			"DaemonSetPod agen", "LocalStorage scra", "UnreplicatedPod bare", "UnreplicatedPod scra",
		})
		if s.cordoned(t) || s.note(t) != nil {
			t.Error("the node was changed")
		}
		same(t, "pods", s.names(t), before)
	})
	t.Run("and as plain text, blockers last", func(t *testing.T) {
		s := special(t)
		usher(t, "drain", s.node, "--ignore-daemonsets").wantCode(t, 2).
			says(t, "usher drain "+s.node+" --ignore-daemonsets --delete-emptydir-data --force\n", s.ns+"/bare", s.ns+"/scratch").
			doesNotSay(t, "agent")
	})
}

func TestFiltersLetGo(t *testing.T) {
	t.Parallel()
	for _, tool := range both() {
		t.Run(tool.name, func(t *testing.T) {
			s := special(t)
			tool.run(t, "drain", s.node, "--ignore-daemonsets", "--delete-emptydir-data", "--force").wantCode(t, 0)
			var left []string
			for _, name := range s.names(t) {
				left = append(left, name[:5])
			}
			same(t, "left on the node", left, []string{"agent", "stati"})
			if !s.cordoned(t) {
				t.Error("the node is not cordoned")
			}
		})
	}
}

func TestPodSelector(t *testing.T) {
	t.Parallel()
	for _, tool := range both() {
		t.Run(tool.name, func(t *testing.T) {
			s := newStage(t)
			s.Pod(t, s.ns, "a", podOn(s.node))
			s.Pod(t, s.ns, "b", podOn(s.node))
			s.settled(t, 2)
			tool.run(t, "drain", s.node, "--force", "--pod-selector", "app=a").wantCode(t, 0)
			same(t, "left", s.names(t), []string{"b"})
		})
	}
}

func TestNodesBySelectorOrTypedName(t *testing.T) {
	t.Parallel()
	for _, tool := range both() {
		for _, by := range []string{"selector", "typed name"} {
			t.Run(tool.name+" by "+by, func(t *testing.T) {
				s := newStage(t)
				s.Pod(t, s.ns, "a", podOn(s.node))
				s.settled(t, 1)
				args := []string{"drain", "--force", "node/" + s.node}
				if by == "selector" {
					args = []string{"drain", "--force", "-l", corev1.LabelHostname + "=" + s.node}
				}
				tool.run(t, args...).wantCode(t, 0)
				same(t, "left", s.names(t), nil)
			})
		}
	}
}
