package show

import (
	"strings"
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/snapshot"
)

// A label is a claim: what it says is shown, also when it says nothing.
func TestWhyNamesTheLabel(t *testing.T) {
	for name, c := range map[string]struct {
		labels    map[string]string
		unfounded bool
		want      string
	}{
		"none":                      {nil, false, ""},
		"a policy":                  {map[string]string{v1alpha1.PolicyLabel: "db"}, false, "governed by policy db"},
		"no value":                  {map[string]string{v1alpha1.PolicyLabel: ""}, false, "its label usher.sh/policy is empty and names no policy"},
		"where nothing is governed": {map[string]string{v1alpha1.PolicyLabel: ""}, true, `its label usher.sh/policy="" has no effect: no policy governs its namespace; remove it: kubectl label pod -n shop web usher.sh/policy-`},
	} {
		page := Why{Pod: &snapshot.Pod{Namespace: "shop", Name: "web", Labels: c.labels}, Unfounded: c.unfounded}
		lines := page.Lines(200, Paint{})
		if got := strings.Join(lines[1:], "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
