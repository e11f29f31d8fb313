package nodepressure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
)

// scene is a node that is looked at again and again.
type scene struct {
	t      *testing.T
	relief Relief
	in     ReliefInput
	last   []Action
	frozen bool // readings stay as they are
}

// newScene has a node with a hard threshold of 100Mi and a soft one of 200Mi for 30 s, and so much available.
func newScene(t *testing.T, available int64, pods ...Pod) *scene {
	t.Helper()
	return &scene{t: t, in: ReliefInput{
		Now: noon, Reachable: true, Pods: pods,
		Thresholds: []Threshold{hard(MemoryAvailable, "100Mi"), soft(MemoryAvailable, "200Mi", 30*time.Second)},
		Node:       memoryNode(available, noon), Refused: map[types.UID]Refusal{}, Rates: map[Signal]float64{},
	}}
}

// look lets time pass and returns what is done then.
func (s *scene) look(after time.Duration) []string {
	s.t.Helper()
	s.in.Now = s.in.Now.Add(after)
	if !s.frozen {
		s.measure()
	}
	s.relief, s.last = s.relief.Next(s.in)
	out := []string{}
	for _, a := range s.last {
		out = append(out, brief(a))
	}
	return out
}

func (s *scene) measure() {
	readings := map[Signal]Reading{}
	for signal, r := range s.in.Node.Readings {
		r.At = s.in.Now
		readings[signal] = r
	}
	s.in.Node.Readings = readings
	s.in.Pods = slices.Clone(s.in.Pods)
	for i := range s.in.Pods {
		if u := s.in.Pods[i].Usage; u != nil {
			fresh := *u
			fresh.At = s.in.Now
			s.in.Pods[i].Usage = &fresh
		}
	}
}

// want looks and compares.
func (s *scene) want(after time.Duration, want ...string) {
	s.t.Helper()
	got := s.look(after)
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("%s after noon (-want +got)\n%s\n%s", s.in.Now.Sub(noon), diff, s.messages())
	}
}

func (s *scene) messages() string {
	var out []string
	for _, a := range s.last {
		out = append(out, fmt.Sprintf("%s: %s", a.Kind, a.Message))
	}
	return strings.Join(out, "\n")
}

func (s *scene) says(part string) {
	s.t.Helper()
	if !strings.Contains(s.messages(), part) {
		s.t.Errorf("nothing says %q:\n%s", part, s.messages())
	}
}

func (s *scene) available(n int64) { s.set(MemoryAvailable, n, 4*gi) }

func (s *scene) set(signal Signal, available, capacity int64) {
	s.in.Node.Readings = maps.Clone(s.in.Node.Readings)
	s.in.Node.Readings[signal] = Reading{Available: available, Capacity: capacity, At: s.in.Now}
}

func (s *scene) pod(name string) *Pod {
	for i := range s.in.Pods {
		if s.in.Pods[i].Name == name {
			return &s.in.Pods[i]
		}
	}
	s.t.Fatalf("no pod %s", name)
	return nil
}

func (s *scene) gone(name string) {
	s.in.Pods = slices.DeleteFunc(slices.Clone(s.in.Pods), func(p Pod) bool { return p.Name == name })
}

func (s *scene) terminating(name string, grace time.Duration) {
	s.in.Pods = slices.Clone(s.in.Pods)
	s.pod(name).Terminating, s.pod(name).Grace = true, grace
}

func (s *scene) refuse(name string, lookAgain time.Duration) {
	s.in.Refused = maps.Clone(s.in.Refused)
	s.in.Refused[s.pod(name).UID] = Refusal{At: s.in.Now, Reason: "Budget", Message: "its budget allows nothing", LookAgain: s.in.Now.Add(lookAgain)}
}

// brief is an action in a few words.
func brief(a Action) string {
	out := string(a.Kind)
	if a.Pod != nil {
		out += " " + a.Pod.Name
	}
	if a.Grace != 0 {
		out += " " + a.Grace.String()
	}
	if a.BreakGlass {
		out += " glass"
	}
	switch a.Kind {
	case Wait:
		out += " " + string(a.Reason)
	case Say:
		out += fmt.Sprint(" ", a.Conditions)
	default:
	}
	return out
}

func hog(name string, usage int64) Pod { return memoryPod(name, corev1.PodQOSBestEffort, 0, usage*mi) }

func governed(p Pod, mode v1alpha1.PressureMode) Pod {
	p.Governed, p.Policy, p.OnPressure = true, "policy", mode
	return p
}

const sayMemory = "Say [MemoryPressure]"
