package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"sigs.k8s.io/yaml"
)

// The expressions are run with the jq library that kwok runs them with.

func TestDrawIsTheSameForTheSameSeedAndName(t *testing.T) {
	one := draw(1, "pod-ready", paces[General].step)
	if a, b := eval(t, one, pod("web-0")), eval(t, one, pod("web-0")); a != b {
		t.Errorf("same seed and name: got %s and %s", a, b)
	}
	seen := map[time.Duration]bool{}
	for i := range 10 {
		seen[eval(t, one, pod(fmt.Sprintf("web-%d", i)))] = true
	}
	if len(seen) < 10 {
		t.Errorf("ten names got %d different times, want 10", len(seen))
	}
	if a, b := eval(t, one, pod("web-0")), eval(t, draw(2, "pod-ready", paces[General].step), pod("web-0")); a == b {
		t.Errorf("another seed got the same time %s", a)
	}
}

func TestDrawStaysInAndFillsItsSpan(t *testing.T) {
	for name, s := range map[string]span{"general": paces[General].step, "fast": paces[Fast].step} {
		expression := draw(1, "pod-ready", s)
		lower, upper := 0, 0
		for i := range 200 {
			d := eval(t, expression, pod(fmt.Sprintf("web-%x", i*7919)))
			if d < s.least || d > s.most {
				t.Fatalf("%s: got %s, want %s to %s", name, d, s.least, s.most)
			}
			if d < (s.least+s.most)/2 {
				lower++
			} else {
				upper++
			}
		}
		if lower < 60 || upper < 60 {
			t.Errorf("%s: %d in the lower half, %d in the upper, want about as many", name, lower, upper)
		}
	}
}

func TestDrawEndIsWithinTheGracePeriod(t *testing.T) {
	for _, tc := range []struct {
		name        string
		span        span
		grace       time.Duration
		least, most time.Duration
	}{
		{"general", paces[General].end, time.Hour, time.Second, time.Hour},
		{"grace shorter than the least", paces[General].end, 0, 0, time.Second},
		{"grace over", paces[General].end, -time.Hour, 0, 0},
		{"fast", paces[Fast].end, time.Hour, 10 * time.Millisecond, 50 * time.Millisecond},
	} {
		p := pod("web-0")
		p["metadata"].(map[string]any)["deletionTimestamp"] = time.Now().Add(tc.grace).UTC().Format(time.RFC3339)
		if got := eval(t, drawEnd(1, "pod-delete", tc.span), p); got < tc.least || got > tc.most {
			t.Errorf("%s: got %s, want %s to %s", tc.name, got, tc.least, tc.most)
		}
	}
}

func TestAnnotationOverrulesTheDraw(t *testing.T) {
	p := pod("web-0")
	p["metadata"].(map[string]any)["annotations"] = map[string]any{"pod-ready.stage.kwok.x-k8s.io/delay": "7s"}
	if got := eval(t, draw(1, "pod-ready", paces[General].step), p); got != 7*time.Second {
		t.Errorf("got %s, want 7s", got)
	}
}

func TestStagesAreYAML(t *testing.T) {
	for _, p := range []Profile{General, Fast} {
		out, err := Stages(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for doc := range strings.SplitSeq(string(out), "\n---\n") {
			var stage struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(doc), &stage); err != nil {
				t.Fatalf("%s: %v in\n%s", p, err, doc)
			}
			if stage.Kind != "Stage" || names[stage.Metadata.Name] {
				t.Errorf("%s: got a %q named %q, want stages with names of their own", p, stage.Kind, stage.Metadata.Name)
			}
			names[stage.Metadata.Name] = true
		}
	}
	if _, err := Stages("slow", 1); err == nil {
		t.Error("unknown profile: got no error")
	}
}

func pod(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"namespace": "default", "name": name}}
}

func eval(t *testing.T, expression string, object map[string]any) time.Duration {
	t.Helper()
	query, err := gojq.Parse(expression)
	if err != nil {
		t.Fatalf("parsing %s: %v", expression, err)
	}
	value, _ := query.Run(object).Next()
	text, ok := value.(string)
	if !ok {
		t.Fatalf("%s gave %v", expression, value)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
