package etcd_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/snapshot"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/etcd"
)

// What is observed is what is declared, by name and by type.
func TestFactsAreDeclared(t *testing.T) {
	sim := three()
	e, err := sim.Open(maxLag, patience).Observe(t.Context(), []system.Member{{MemberRef: v1alpha1.MemberRef{ID: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	declared(t, "system", etcd.Kind().Schema.System, e.System)
	declared(t, "member", etcd.Kind().Schema.Member, e.Members["a"])
}

func declared(t *testing.T, what string, fields []expression.Field, facts expression.Facts) {
	t.Helper()
	for _, f := range fields {
		value, ok := facts[f.Name]
		if !ok {
			t.Errorf("%s.%s is declared and not observed", what, f.Name)
		}
		if f.Doc == "" || !is(f.Type, value) {
			t.Errorf("%s.%s is declared as %s (%q) and is %T", what, f.Name, f.Type, f.Doc, value)
		}
	}
	if len(facts) != len(fields) {
		t.Errorf("%s: %d facts are declared, and %d observed", what, len(fields), len(facts))
	}
}

func is(want expression.Type, value any) bool {
	var ok bool
	switch want {
	case expression.Bool:
		_, ok = value.(bool)
	case expression.Int:
		_, ok = value.(int64)
	case expression.String:
		_, ok = value.(string)
	case expression.Strings:
		_, ok = value.([]string)
	case expression.Double, expression.Time, expression.Dynamic:
	}
	return ok
}

// TestAnswersWithoutAPod: what answers in the place of a pod that has not started ends as soon as its kubelet knows.
func TestAnswersWithoutAPod(t *testing.T) {
	for name, c := range map[string]struct {
		pod     *snapshot.Pod
		healthy bool
	}{
		"it runs":        {&snapshot.Pod{Name: "b", Node: "n", Phase: corev1.PodRunning}, true},
		"it has none":    {nil, true},
		"it is nowhere":  {&snapshot.Pod{Name: "b"}, false},
		"it only starts": {&snapshot.Pod{Name: "b", Node: "n", Phase: corev1.PodPending}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := three().Open(maxLag, patience).Observe(t.Context(), []system.Member{{MemberRef: v1alpha1.MemberRef{ID: "b"}, Pod: c.pod}})
			if err != nil {
				t.Fatal(err)
			}
			if healthy, others := e.Members["b"]["healthy"], e.Members["c"]["quorumWithout"]; healthy != c.healthy || others != c.healthy {
				t.Errorf("healthy: %v; a quorum without another: %v; want %t", healthy, others, c.healthy)
			}
		})
	}
}
