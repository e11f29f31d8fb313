package e2e

import (
	"regexp"
	"strings"
	"testing"

	"usher.sh/usher/lab/testlab"
)

func TestPlainLinesInAPipe(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "a", podOn(s.node))
	s.settled(t, 1)
	r := usher(t, "drain", s.node, "--force").wantCode(t, 0).says(t, s.ns+"/a", "drained", "usher uncordon "+s.node)
	if strings.ContainsAny(r.Out, "\x1b\r") {
		t.Errorf("escape sequences in a pipe: %q", r.Out)
	}
	if !regexp.MustCompile(`(?m)^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ pod ` + s.ns + `/a terminating`).MatchString(r.Out) {
		t.Errorf("no line says that the pod is terminating:\n%s", r.Out)
	}
}

func TestBlockersAreTheLastThingPrinted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 1)
	s.MaxUnavailable(t, s.ns, "web", "0")
	s.settled(t, 1)
	r := usher(t, "drain", s.node, "--surge=never").wantCode(t, 2)
	lines := strings.Split(strings.TrimSpace(r.Out), "\n")
	contains(t, lines[len(lines)-1], "way out: ")
	contains(t, lines[len(lines)-2], "BudgetNeverAllows", "budget web can never allow it")
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "a", podOn(s.node))
	s.settled(t, 1)
	uid := string(podNow(t, s.Lab, s.ns, "a").UID)
	p := start(t, "drain", s.node, "--force")
	f := p.wait(t).want(t, 0, "drained") // every line was parsed
	if last := f.Events[len(f.Events)-1]; last.Type != "end" || last.Summary == nil {
		t.Errorf("the last line is %+v", last)
	}
	if e := p.reached(t, "a", "terminating"); e.Pod.UID != uid || e.Pod.Namespace != s.ns || e.Node != s.node || e.Time.IsZero() {
		t.Errorf("event %+v, want the pod of UID %s", e, uid)
	}
}

func TestAsAPluginOfKubectl(t *testing.T) {
	t.Parallel()
	usherBinary(t)
	l := testlab.Get(t)
	s := newStage(t)
	s.Pod(t, s.ns, "a", podOn(s.node))
	s.settled(t, 1)
	t.Run("usage", func(t *testing.T) {
		r := toEnd(t, l.Cluster().Dir+"/kubectl-usher", l.Kubeconfig(), []string{"drain", "--help"})
		r.wantCode(t, 0).says(t, "kubectl usher drain NODE")
	})
	toEnd(t, l.Cluster().Dir+"/kubectl-usher", l.Kubeconfig(), []string{"drain", s.node, "--force"}).wantCode(t, 0)
	same(t, "left", s.names(t), nil)
}

func TestWhyAndPlan(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 2)
	s.MaxUnavailable(t, s.ns, "web", "0")
	s.Deployment(t, s.ns, "free", 1)
	s.settled(t, 3)
	for _, p := range s.WaitReady(t, s.ns, testlab.Labels("web"), 2)[:1] {
		usher(t, "why", p.Name, "-n", s.ns).wantCode(t, 2).says(t, "budget web can never allow it")
	}
	for _, p := range s.WaitReady(t, s.ns, testlab.Labels("free"), 1) {
		usher(t, "why", p.Name, "-n", s.ns).wantCode(t, 0)
	}
	before := s.names(t)
	usher(t, "plan", s.node, "--surge=never").wantCode(t, 2).says(t, "budget web can never allow it")
	dump := kubectl(t, "get", "nodes,pods,pdb,deploy,rs", "-A", "-o", "yaml").wantCode(t, 0)
	usherIn(t, "", "plan", s.node, "--surge=never", "-f", writeFile(t, dump.Out)).wantCode(t, 2).says(t, "budget web can never allow it")
	same(t, "pods after plan", s.names(t), before)
	if s.cordoned(t) {
		t.Error("plan cordoned the node")
	}
}
