package e2e

import (
	"bufio"
	"context"
	"os/exec"
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
	s.Stick(t, s.ns, "a") // or it could be gone before usher has seen it terminating
	terminating := regexp.MustCompile(`^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ pod ` + s.ns + `/a terminating`)
	out := usherSays(t, terminating, func() { s.Unstick(t, s.ns, "a") }, "drain", s.node, "--force")
	contains(t, out, s.ns+"/a", "drained", "usher uncordon "+s.node)
	if strings.ContainsAny(out, "\x1b\r") {
		t.Errorf("escape sequences in a pipe: %q", out)
	}
}

// usherSays runs usher to its end and returns what it printed. It calls then at the first line that matches.
func usherSays(t *testing.T, line *regexp.Regexp, then func(), args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, usherBinary(t), args...)
	cmd.Env = environment(testlab.Get(t).Kubeconfig())
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out, said := "", false
	for lines := bufio.NewReader(pipe); err == nil; {
		var text string
		text, err = lines.ReadString('\n')
		out += text
		if !said && line.MatchString(text) {
			said = true
			then()
		}
	}
	if err := cmd.Wait(); err != nil || !said {
		t.Fatalf("usher ended (%v), said a line %s: %v\n%s", err, line, said, out)
	}
	return out
}

func TestBlockersAreTheLastThingPrinted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deployment(t, s.ns, "web", 1)
	s.MaxUnavailable(t, s.ns, "web", "0")
	s.settled(t, 1)
	r := usher(t, "drain", s.node, "--surge=never").wantCode(t, 2)
	lines := strings.Split(strings.TrimSpace(r.Out), "\n")
	contains(t, lines[len(lines)-1], "remedy: ")
	contains(t, lines[len(lines)-2], "BudgetNeverAllows", "budget web can never allow it")
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Pod(t, s.ns, "a", podOn(s.node))
	s.settled(t, 1)
	uid := string(podNow(t, s.Lab, s.ns, "a").UID)
	s.Stick(t, s.ns, "a") // or it could be gone before usher has seen it terminating
	p := start(t, "drain", s.node, "--force")
	e := p.reached(t, "a", "terminating")
	s.Unstick(t, s.ns, "a")
	f := p.wait(t).want(t, 0, "drained") // every line was parsed
	if last := f.Events[len(f.Events)-1]; last.Type != "end" || last.Summary == nil {
		t.Errorf("the last line is %+v", last)
	}
	if e.Pod.UID != uid || e.Pod.Namespace != s.ns || e.Node != s.node || e.Time.IsZero() {
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
