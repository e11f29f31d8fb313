package filters

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/lab/testlab"
)

var (
	sets  = flag.Int("sets", 36, "how many sets of pods to compare")
	first = flag.Uint64("first", 1, "the seed of the first")
)

const namespace = "filters"

// difference is what docs/usage.md says about a pod that the two programs treat differently.
type difference string

const (
	remade difference = "of an `apps` DaemonSet that was deleted and made anew under its name (another UID)"
	held   difference = "that is terminating, its grace over, held by a finalizer"
)

// reasons are those for which usher objects to such a pod although kubectl does not.
var reasons = map[difference]string{remade: "OrphanedDaemonSetPod"}

func class(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

func TestDifferencesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "usage.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(text), "### Where Usher's filters differ from kubectl's\n")
	section, _, _ = strings.Cut(section, "\n### ")
	var got []string
	for line := range strings.SplitSeq(section, "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 5 && !strings.HasPrefix(cells[1], " ---") && cells[1] != " a pod " {
			got = append(got, strings.TrimSpace(cells[1]))
		}
	}
	if diff := cmp.Diff([]string{string(remade), string(held)}, got); diff != "" {
		t.Errorf("the docs and this test (-test +docs):\n%s", diff)
	}
}

// The same pods leave, stay and are objected to as with kubectl, but for what the docs say.
func TestFiltersAreThoseOfKubectl(t *testing.T) {
	l := testlab.Start(t, testlab.Still())
	daemons := fixtures(t, l)
	kubectl, usher := l.Binary(t, "kubectl"), l.Usher(t)
	for seed := *first; seed < *first+uint64(*sets); seed++ {
		s := draw(seed, daemons)
		s.make(t, l)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			theirs := s.kubectl(t, l, kubectl)
			ours := s.usher(t, l, usher)
			if problems := s.compare(theirs, ours); len(problems) > 0 {
				t.Errorf("%s\n%s\nkubectl: %+v\nusher: %+v", strings.Join(problems, "\n"), s, theirs, ours)
			}
		})
	}
}

// answer is what one of the programs would do.
type answer struct {
	Code    int
	Leave   []string            // pods that leave, sorted
	Objects map[string][]string // reasons, by pod
	Named   []string            // pods that are named as held, sorted; kubectl names none
}

func run(t *testing.T, l *testlab.Lab, path string, args ...string) (code int, out, all string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"KUBECONFIG=" + l.Kubeconfig(), "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stdout.String() + stderr.String()
}

var (
	leaves  = regexp.MustCompile(`(?:evict|delet)ing pod ` + namespace + `/(\S+) \(dry run\)`)
	objects = regexp.MustCompile(namespace + `/(set-[0-9]+-[0-9]+)`)
)

func (s *set) kubectl(t *testing.T, l *testlab.Lab, path string) answer {
	t.Helper()
	code, _, all := run(t, l, path, append([]string{"drain", s.name, "--dry-run=client"}, s.flags...)...)
	a := answer{Code: code, Objects: map[string][]string{}}
	for line := range strings.SplitSeq(all, "\n") {
		switch found := leaves.FindStringSubmatch(line); {
		case found != nil:
			a.Leave = append(a.Leave, found[1])
		case strings.HasPrefix(strings.ToLower(line), "warning"):
		case code != 0:
			for _, name := range objects.FindAllStringSubmatch(line, -1) {
				a.Objects[name[1]] = []string{"objected to"}
			}
		}
	}
	slices.Sort(a.Leave)
	return a
}

// add enters a pod that leaves, unless it is a replacement in the plan's forecast.
func (a *answer) add(s *set, name string) {
	if slices.ContainsFunc(s.pods, func(p *corev1.Pod) bool { return p.Name == name }) {
		a.Leave = append(a.Leave, name)
	}
}

// plan is what is looked at of `usher plan -o json`.
type plan struct {
	Outcome string
	Pods    int
	Steps   []struct {
		Kind string
		Pods []struct{ Name string }
	}
	Left                 []struct{ Name string }
	Objections, Blockers []struct{ Reason, Pod string }
}

func (s *set) usher(t *testing.T, l *testlab.Lab, path string) answer {
	t.Helper()
	code, out, all := run(t, l, path, append([]string{"plan", s.name, "-o", "json", "--surge=never"}, s.flags...)...)
	var p plan
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%v\n%s", err, all)
	}
	a := answer{Code: code, Objects: map[string][]string{}}
	for _, step := range p.Steps {
		if step.Kind == "evict" || step.Kind == "delete" {
			for _, pod := range step.Pods {
				a.add(s, pod.Name)
			}
		}
	}
	for _, o := range p.Objections {
		a.Objects[o.Pod] = append(a.Objects[o.Pod], o.Reason)
	}
	for _, b := range p.Blockers {
		if b.Reason == "HeldByFinalizers" {
			a.Named = append(a.Named, b.Pod)
		}
	}
	for _, pod := range p.Left { // they are to leave, and wait
		a.add(s, pod.Name)
	}
	slices.Sort(a.Leave)
	a.Leave = slices.Compact(a.Leave)
	slices.Sort(a.Named)
	if p.Outcome == "" || len(p.Objections) > 0 && (len(p.Steps) > 0 || p.Pods > 0) {
		t.Errorf("outcome %q, %d objections, %d steps, %d pods", p.Outcome, len(p.Objections), len(p.Steps), p.Pods)
	}
	return a
}

// without leaves some pods out, and those of a DaemonSet that was made anew, which only usher may take off the node.
func (s *set) without(names []string, some map[string]bool) []string {
	left := []string{}
	for _, name := range names {
		if !some[name] && s.differs[name] != remade {
			left = append(left, name)
		}
	}
	return left
}

// compare returns what differs and is not documented.
func (s *set) compare(theirs, ours answer) []string {
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, p := range s.pods {
		_, object := theirs.Objects[p.Name]
		found := ours.Objects[p.Name]
		documented := reasons[s.differs[p.Name]]
		undocumented := slices.ContainsFunc(found, func(reason string) bool { return reason != documented })
		if object != undocumented && documented == "" || object && len(found) == 0 && s.differs[p.Name] != remade {
			say("%s: kubectl objects: %v, usher: %v", p.Name, object, found)
		}
	}
	if len(theirs.Objects) > 0 || len(ours.Objects) > 0 {
		if ours.Code != 2 && len(ours.Objects) > 0 || theirs.Code != 1 && len(theirs.Objects) > 0 {
			say("objections, and exit codes %d and %d", theirs.Code, ours.Code)
		}
		return problems
	}
	// What is terminating within its grace takes no step of usher's.
	if diff := cmp.Diff(s.without(theirs.Leave, s.ending), s.without(ours.Leave, s.ending)); diff != "" {
		say("pods that leave (-kubectl +usher):\n%s", diff)
	}
	stuck := slices.DeleteFunc(slices.Clone(theirs.Leave), func(name string) bool { return !s.held[name] })
	if diff := cmp.Diff(s.without(stuck, nil), s.without(ours.Named, nil)); diff != "" {
		say("pods that are named as held by finalizers (-to be named +named):\n%s", diff)
	}
	if want := 2 * min(len(ours.Named), 1); theirs.Code != 0 || ours.Code != want {
		say("exit codes %d and %d, want 0 and %d", theirs.Code, ours.Code, want)
	}
	return problems
}
