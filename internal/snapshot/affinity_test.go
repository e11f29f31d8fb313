package snapshot

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// lacking is a pod that asks for nodes without any of so many labels.
func lacking(many int) *Pod {
	term := corev1.NodeSelectorTerm{}
	for i := range many {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: fmt.Sprintf("k%05d", i), Operator: corev1.NodeSelectorOpDoesNotExist})
	}
	return &Pod{NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
}

// All expressions of a term decide, however many there are and whichever of them a node does not match.
func TestAffinityOfManyExpressions(t *testing.T) {
	const many = 3*expressionsAtOnce + 1
	pod := lacking(many)
	pod.NodeAffinity.NodeSelectorTerms[0].MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}
	placement := PlacementOf(pod)
	if why := placement.Refusal(&Node{Name: "a", Ready: true}); why != "" {
		t.Errorf("a node with none of the labels: %q", why)
	}
	if why := placement.Refusal(&Node{Name: "b", Ready: true}); why != NoAffinity {
		t.Errorf("one of another name: %q", why)
	}
	for i := range many {
		if why := placement.Refusal(&Node{Name: "a", Ready: true, Labels: map[string]string{fmt.Sprintf("k%05d", i): ""}}); why != NoAffinity {
			t.Errorf("one with label %d: %q", i, why)
		}
	}
}

// A tenant writes the affinity, and each look at it is made while everything else waits.
func TestPlacementCostsNoMoreThanIsAskedFor(t *testing.T) {
	const many, times = 1000, 8
	one, all := allocated(lacking(many)), allocated(lacking(times*many))
	if all > 2*times*one {
		t.Errorf("%d expressions take %d bytes, %d times as many %d", many, one, times, all)
	}
}

// allocated is how many bytes are allocated to read where pods like one may run.
func allocated(p *Pod) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	placement := PlacementOf(p)
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(placement)
	return after.TotalAlloc - before.TotalAlloc
}

func BenchmarkPlacementOf(b *testing.B) {
	for _, many := range []int{1, 1000, 32000} {
		pod := lacking(many)
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = PlacementOf(pod)
			}
		})
	}
}

// A selector that is sent has a limit, whatever a tenant writes: what has no room in it is left out, so that it selects more nodes.
func TestSelectorOfAPlacementHasALimit(t *testing.T) {
	many := lacking(5000)
	long := lacking(1)
	long.NodeSelector = map[string]string{"disk": "ssd"}
	terms := long.NodeAffinity.NodeSelectorTerms
	terms[0].MatchExpressions = append([]corev1.NodeSelectorRequirement{{
		Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: strings.Split(strings.Repeat("some-zone,", LongestSelector/10)+"z", ","),
	}}, terms[0].MatchExpressions...)
	named := &Pod{NodeSelector: map[string]string{}}
	for i := range 1000 {
		named.NodeSelector[fmt.Sprintf("k%05d", i)] = "x"
	}
	for name, c := range map[string]struct {
		pod  *Pod
		want string // how it begins
	}{
		"many expressions":             {many, "!k00000,!k00001,"},
		"one that is long":             {long, "disk=ssd,!k00000"},
		"a long node selector":         {named, "k00000=x,k00001=x,"},
		"a value that no server reads": {&Pod{NodeSelector: map[string]string{"disk": "a b"}}, ""},
	} {
		placement := PlacementOf(c.pod)
		got := placement.Selector()
		if len(got) > LongestSelector || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: a selector of %d bytes, %.40q", name, len(got), got)
		}
		if _, err := labels.Parse(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
