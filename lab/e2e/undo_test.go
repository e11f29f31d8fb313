package e2e

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/testlab"
)

func TestInterrupt(t *testing.T) {
	t.Parallel()
	s := held(t)
	p := start(t, "drain", s.node, "--reason", "new kernel")
	p.blocked(t, "BudgetExhausted")
	p.signal(t, os.Interrupt)
	f := p.wait(t).want(t, 130, "interrupted")
	if f.End.Left != 3 || len(f.End.Nodes) != 1 || !f.End.Nodes[0].CordonedByUsher || f.End.GoOn == "" {
		t.Errorf("the summary does not say what was left: %+v", f.End)
	}
	record := s.note(t)
	if !s.cordoned(t) || record == nil || record.State != "interrupted" || record.Why != "new kernel" || record.By == "" || record.Since.IsZero() {
		t.Errorf("cordoned %v, record %+v", s.cordoned(t), record)
	}
	usher(t, "uncordon", s.node).wantCode(t, 0)
	if s.cordoned(t) || s.note(t) != nil {
		t.Error("uncordon left something on the node")
	}
	if f.End.Nodes[0].State != "interrupted" {
		t.Errorf("the node is %s, and all that held it was the interrupt", f.End.Nodes[0].State)
	}
	same(t, "events on the node", s.eventReasons(t), []string{"Draining", "DrainInterrupted", "Uncordoned"})
}

// eventReasons are the reasons of the events that usher has made on the node, in their order.
func (s *stage) eventReasons(t *testing.T) []string {
	t.Helper()
	list, err := s.Client().EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return e.ReportingController != "usher-drain" || e.Regarding.Name != s.node
	})
	slices.SortFunc(own, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var reasons []string
	for i := range own {
		reasons = append(reasons, own[i].Reason)
	}
	return reasons
}

// The reader of what uncordon prints may go away, and no node stays cordoned for that.
func TestUncordonOutlastsItsReader(t *testing.T) {
	t.Parallel()
	l := testlab.Get(t)
	names := l.Nodes(t, 3, "a")
	usher(t, append([]string{"drain", "--pod-selector=app=none"}, names...)...).wantCode(t, 0)
	reader, writer, err := os.Pipe()
	if err == nil {
		err = reader.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, usherBinary(t), append([]string{"uncordon"}, names...)...)
	cmd.Env, cmd.Stdout = environment(l.Kubeconfig()), writer
	if err := cmd.Run(); err != nil {
		t.Errorf("uncordon: %v", err)
	}
	for _, name := range names {
		if node, err := l.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); err != nil || node.Spec.Unschedulable {
			t.Errorf("node %s stays cordoned (%v)", name, err)
		}
	}
}

func TestUncordonOnFailure(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 2)
	s.MaxUnavailable(t, s.ns, "web", "0")
	s.settled(t, 2)
	drainNode(t, s.node, "--surge=never", "--uncordon-on-failure").want(t, 2, "blocked")
	if s.cordoned(t) || s.note(t) != nil {
		t.Errorf("the node stayed cordoned: %+v", s.note(t))
	}
	kubectl(t, "cordon", s.node).wantCode(t, 0)
	drainNode(t, s.node, "--surge=never", "--uncordon-on-failure").want(t, 2, "blocked")
	if !s.cordoned(t) {
		t.Error("the cordon of another client was taken away")
	}
}

func TestUncordonLeavesTheCordonsOfOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "a", podOn(s.node))
	s.settled(t, 1)
	kubectl(t, "cordon", s.node).wantCode(t, 0)
	drainNode(t, s.node, "--force").want(t, 0, "drained")
	usher(t, "uncordon", s.node)
	if !s.cordoned(t) {
		t.Error("the cordon of another client was taken away")
	}
	usher(t, "uncordon", s.node).wantCode(t, 2).says(t, "another client", "kubectl uncordon "+s.node)
	kubectl(t, "uncordon", s.node).wantCode(t, 0)
	drainNode(t, s.node).want(t, 0, "drained")
	usher(t, "uncordon", s.node).wantCode(t, 0)
	if s.cordoned(t) {
		t.Error("usher's own cordon stayed")
	}
	drainNode(t, s.node).want(t, 0, "drained")
	for _, command := range []string{"uncordon", "cordon"} {
		kubectl(t, command, s.node).wantCode(t, 0)
	}
	usher(t, "uncordon", s.node).says(t, "kubectl has cordoned it since")
	if !s.cordoned(t) || s.note(t) != nil {
		t.Errorf("a cordon that came after usher's: cordoned %v, record %+v", s.cordoned(t), s.note(t))
	}
}

func TestTwoDrainsOfOneNode(t *testing.T) {
	t.Parallel()
	s := held(t)
	first := start(t, "drain", s.node)
	first.blocked(t, "BudgetExhausted")
	second := start(t, "drain", s.node)
	contains(t, second.blocked(t, "AnotherDrain").Message, s.note(t).By)
	usher(t, "uncordon", s.node).wantCode(t, 2).says(t, "is draining it")
	s.Nodes(t, 1)
	s.release(t)
	first.wait(t).want(t, 0, "drained")
	second.wait(t).want(t, 0, "drained")
}

func TestUncordonInTheMiddle(t *testing.T) {
	t.Parallel()
	s := held(t)
	p := start(t, "drain", s.node)
	p.blocked(t, "BudgetExhausted")
	kubectl(t, "uncordon", s.node).wantCode(t, 0)
	f := p.wait(t).want(t, 2, "blocked")
	if len(f.blockers("NodeNotCordoned")) != 1 {
		t.Errorf("it is not said that the node is open: %+v", f.End.Blockers)
	}
	same(t, "deleted", s.rec.ends(t, s.node), nil)
}

// Not parallel: a killed drain's traces are read by every usher.
func TestKilledDrainResumes(t *testing.T) {
	s := held(t)
	p := start(t, "drain", s.node, "--reason", "disk")
	p.blocked(t, "BudgetExhausted")
	p.signal(t, syscall.SIGKILL)
	<-p.ended
	if r := s.note(t); r == nil || r.State != "draining" || !s.cordoned(t) {
		t.Fatalf("a killed drain leaves its record as it was, got %+v", r)
	}
	s.Nodes(t, 1)
	s.release(t)
	drainNode(t, s.node, "--reason", "disk").want(t, 0, "drained")
	usher(t, "uncordon", s.node).wantCode(t, 0)
	if s.cordoned(t) {
		t.Error("the cordon of the killed drain is not known to be usher's")
	}
	testlab.WaitFor(t, s.Pods(s.ns), "all pods to be back", func(all []*corev1.Pod) bool {
		return len(all) == 3 && !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return !testlab.PodReady(p) })
	})
}
